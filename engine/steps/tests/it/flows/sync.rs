//! Mutex, throttle and limiter for flows on one event loop (FTN12 §1.11, §2.3 to §2.5).

use std::time::Duration;

use asyncsteps_core::sync::{ISync, Limiter, Mutex, Throttle, limiter, mutex, throttle};
use asyncsteps_core::{AsyncSteps, Flow, codes, run_to_end};

use crate::flows::support::{Log, Sim, code};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn mutex(max: u32, max_queue: Option<u32>) -> Mutex {
    Mutex::new(mutex::Options { max, max_queue })
}

fn throttle(max: u32, max_queue: Option<u32>) -> Throttle {
    Throttle::new(throttle::Options { max, period: ms(100), max_queue })
}

/// A flow that logs its name in a section that takes some time.
fn visit(
    object: &(impl ISync + Clone + 'static),
    log: &Log,
    name: &'static str,
    time: u64,
) -> Flow {
    let log = log.clone();
    let mut flow = Flow::new();
    flow.sync(object, move |asi, ()| {
        log.add(name);
        if time > 0 {
            asi.sleep(ms(time));
        }
    });
    flow
}

/// [`visit`] with a time limit.
fn hurry(
    object: &(impl ISync + Clone + 'static),
    log: &Log,
    name: &'static str,
    limit: u64,
) -> Flow {
    let (object, log) = (object.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.set_timeout(ms(limit));
        asi.sync(&object, move |_, ()| log.add(name));
    });
    flow
}

#[test]
fn owners_enter_a_mutex_in_the_order_in_which_they_asked() {
    let (mutex, log, mut sim) = (mutex(1, None), Log::default(), Sim::default());
    for name in ["a", "b", "c"] {
        sim.start(visit(&mutex, &log, name, 10));
    }
    sim.advance(9);
    assert_eq!(log.take(), "a");
    sim.advance(30);
    assert_eq!(log.take(), "b c");
    assert_eq!((mutex.holders(), mutex.queued()), (0, 0));
}

#[test]
fn waiters_that_give_up_leave_the_queue_at_once() {
    let (mutex, log, mut sim) = (mutex(1, Some(1)), Log::default(), Sim::default());
    sim.start(visit(&mutex, &log, "a", 50));
    let late = sim.start(hurry(&mutex, &log, "never", 10));
    let rejected = sim.start(visit(&mutex, &log, "never", 0));
    assert_eq!(sim.outcome(rejected), codes::DEFENSE_REJECTED);
    sim.advance(10);
    assert_eq!((sim.outcome(late), mutex.queued()), (codes::TIMEOUT, 0));
    let cancelled = sim.start(visit(&mutex, &log, "never", 0));
    sim.cancel(cancelled);
    sim.start(visit(&mutex, &log, "b", 0));
    sim.advance(50);
    assert_eq!(log.take(), "a b");
    assert_eq!((mutex.holders(), mutex.queued()), (0, 0));
}

#[test]
fn an_owner_enters_its_mutex_again_and_leaves_as_often() {
    let mutex = mutex(1, Some(0));
    let (outer, inner) = (mutex.clone(), mutex.clone());
    let mut flow = Flow::new();
    flow.sync(&mutex, move |asi, ()| {
        let innermost = inner.clone();
        asi.sync(&inner, move |asi, ()| {
            asi.repeat(3, move |asi, _| {
                asi.sync(&innermost, |_, ()| {});
            });
        });
        asi.add(move |asi, ()| asi.success(outer.holders()));
    });
    assert_eq!(run_to_end::<usize>(flow).expect("nobody else is there"), 1);
    assert_eq!(mutex.holders(), 0);
}

#[test]
fn branches_are_owners_of_their_own_and_do_not_inherit_a_lock() {
    let mutex = mutex(1, Some(0));
    let inner = mutex.clone();
    let mut flow = Flow::new();
    flow.sync(&mutex, move |asi, ()| {
        asi.parallel(move |p| {
            p.add(move |asi, ()| {
                asi.sync(&inner, |_, ()| {});
            });
        });
    });
    assert_eq!(code(flow), codes::DEFENSE_REJECTED);
    assert_eq!(mutex.holders(), 0);

    let log = Log::default();
    let mut flow = Flow::new();
    let (shared, seen) = (mutex.clone(), log.clone());
    flow.add(move |asi, ()| {
        seen.add(asi.identity().branch);
        for _ in 0..2 {
            let (mutex, seen) = (shared.clone(), seen.clone());
            asi.parallel(move |p| {
                p.add(move |asi, ()| {
                    seen.add(asi.identity().branch);
                    asi.sync(&mutex, move |asi, ()| seen.add(asi.identity().branch));
                });
            });
        }
    });
    run_to_end::<()>(flow).expect("one after the other");
    assert_eq!(log.take(), "0 1 1 2 2");
}

type Body = fn(&mut AsyncSteps);

/// Ways out of a section, each with the body that takes it.
fn ways_out() -> [(&'static str, Body); 5] {
    [
        ("success", |asi| drop(asi.success(1))),
        ("error", |asi| drop(asi.error("MyError", ()))),
        ("panic", |_| panic!("in the section")),
        ("timeout", |asi| asi.set_timeout(ms(10))),
        ("cancel", |asi| asi.wait_only()),
    ]
}

#[test]
fn a_mutex_is_released_on_every_way_out() {
    for contended in [false, true] {
        for (how, leave) in ways_out() {
            let (mutex, log, mut sim) = (mutex(1, None), Log::default(), Sim::default());
            if contended {
                sim.start(visit(&mutex, &log, "first", 1));
            }
            let mut flow = Flow::new();
            flow.sync(&mutex, move |asi, ()| leave(asi));
            let flow = sim.start(flow);
            sim.start(visit(&mutex, &log, "next", 0));
            sim.advance(20);
            if how == "cancel" {
                assert_eq!(sim.outcome(flow), "waits");
                sim.cancel(flow);
            }
            assert_eq!(log.take(), if contended { "first next" } else { "next" }, "{how}");
            assert_eq!((mutex.holders(), mutex.queued()), (0, 0), "{how}");
        }
    }
}

#[test]
fn the_handler_of_a_section_and_what_it_adds_run_while_the_lock_is_held() {
    for contended in [false, true] {
        let (mutex, log, mut sim) = (mutex(1, None), Log::default(), Sim::default());
        if contended {
            sim.start(visit(&mutex, &log, "first", 1));
        }
        let mut flow = Flow::new();
        let (one, two) = (mutex.clone(), mutex.clone());
        let (seen, done) = (log.clone(), log.clone());
        flow.sync(&mutex, |asi, ()| asi.error("MyError", ())).on_error(move |asi, _| {
            seen.add(one.holders());
            asi.sleep(ms(10));
            asi.add(move |asi, ()| {
                seen.add(two.holders());
                asi.success("rescued")
            });
        });
        flow.add(move |_, how: String| done.add(how));
        sim.start(flow);
        sim.start(visit(&mutex, &log, "next", 0));
        sim.advance(20);
        let entered = log.take();
        let entered = entered.strip_prefix("first ").unwrap_or(&entered);
        assert!(["1 1 rescued next", "1 1 next rescued"].contains(&entered), "{entered}");
    }
}

#[test]
fn a_rejection_goes_to_the_steps_around_the_section() {
    fn rejected(object: impl ISync + Clone + 'static, info: &str) {
        let mut sim = Sim::default();
        sim.start(visit(&object, &Log::default(), "first", 1000));
        let log = Log::default();
        let seen = log.clone();
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            asi.sync(&object, |_, ()| unreachable!("it does not enter"))
                .on_error(|_, _| unreachable!("it is the handler of the section"));
        })
        .on_error(move |asi, error| {
            seen.add(format_args!("{}: {}", error.code(), asi.error_info().unwrap_or("none")));
        });
        sim.start(flow);
        assert_eq!(log.take(), format!("DefenseRejected: {info}"));
    }
    rejected(mutex(1, Some(0)), "Mutex queue limit");
    rejected(throttle(1, Some(0)), "Throttle queue limit");
    rejected(Limiter::default(), "Mutex queue limit");
    let options = limiter::Options { concurrent: 2, ..limiter::Options::default() };
    rejected(Limiter::new(options), "Throttle queue limit");
}

#[test]
fn arguments_pass_through_sections_whether_or_not_they_waited() {
    let log = Log::default();
    let mut sim = Sim::default();
    let (mutex, throttle) = (mutex(1, None), throttle(1, None));
    let limiter = Limiter::new(limiter::Options {
        max_queue: None,
        burst: None,
        period: ms(100),
        ..limiter::Options::default()
    });
    for n in 0..3 {
        let seen = log.clone();
        let mut flow = Flow::new();
        flow.success_step(n);
        flow.sync(&mutex, |asi, n: i32| {
            asi.sleep(ms(1));
            asi.success_step(n * 10);
        });
        flow.sync(&throttle, |asi, n: i32| asi.success(n + 1));
        flow.sync(&limiter, |asi, n: i32| asi.success((n, "x")));
        flow.add(move |_, (n, x): (i32, String)| seen.add(format_args!("{n}{x}")));
        sim.start(flow);
    }
    sim.advance(1000);
    assert_eq!(log.take(), "1x 11x 21x");
}

#[test]
fn a_throttle_admits_its_queue_in_order_at_the_end_of_each_window() {
    let (throttle, log, mut sim) = (throttle(2, None), Log::default(), Sim::default());
    for name in ["a", "b", "c", "d", "e"] {
        sim.start(visit(&throttle, &log, name, 0));
    }
    assert_eq!((log.take(), throttle.queued()), ("a b".to_owned(), 3));
    sim.advance(99);
    assert_eq!(log.take(), "");
    sim.advance(100);
    assert_eq!(log.take(), "c d");
    sim.advance(150);
    sim.start(visit(&throttle, &log, "f", 0));
    sim.start(visit(&throttle, &log, "g", 0));
    assert_eq!(log.take(), "", "the window is used up");
    sim.advance(200);
    assert_eq!(log.take(), "e f");
    sim.advance(300);
    assert_eq!((log.take(), throttle.queued()), ("g".to_owned(), 0));
}

#[test]
fn the_next_waiter_sets_the_timer_when_the_first_gives_up() {
    let (throttle, log, mut sim) = (throttle(1, None), Log::default(), Sim::default());
    sim.start(visit(&throttle, &log, "a", 0));
    let first = sim.start(visit(&throttle, &log, "never", 0));
    let second = sim.start(hurry(&throttle, &log, "never", 60));
    sim.start(visit(&throttle, &log, "b", 0));
    sim.start(visit(&throttle, &log, "c", 0));
    sim.advance(50);
    sim.cancel(first);
    sim.advance(70);
    assert_eq!((sim.outcome(second), throttle.queued()), (codes::TIMEOUT, 2));
    sim.advance(100);
    assert_eq!(log.take(), "a b");
    sim.advance(200);
    assert_eq!(log.take(), "c");
}

#[test]
fn a_newcomer_at_the_end_of_a_window_does_not_overtake_the_queue() {
    let (throttle, log) = (throttle(1, None), Log::default());
    let mut flows: Vec<_> =
        ["a", "b", "c"].map(|name| visit(&throttle, &log, name, 0).execute()).into();
    for (flow, now) in flows.iter_mut().zip([0, 0, 100]) {
        crate::flows::support::run(flow, now);
    }
    assert_eq!(log.take(), "a", "the newcomer lets the first one in and waits");
    crate::flows::support::run(&mut flows[1], 110);
    assert_eq!(log.take(), "b");
    crate::flows::support::wait(&mut flows[2], 110);
    crate::flows::support::run(&mut flows[2], 200);
    assert_eq!(log.take(), "c");
}

#[test]
fn an_idle_throttle_keeps_no_timer() {
    let (throttle, log) = (throttle(1, None), Log::default());
    let mut flow = visit(&throttle, &log, "a", 0).execute();
    crate::flows::support::run(&mut flow, 0);
    assert_eq!(flow.deadline(), None);
    let mut waiting = visit(&throttle, &log, "b", 0).execute();
    crate::flows::support::wait(&mut waiting, 0);
    let mut behind = visit(&throttle, &log, "c", 0).execute();
    crate::flows::support::wait(&mut behind, 0);
    assert_eq!(waiting.deadline(), Some(crate::flows::support::at(100)));
    assert_eq!(behind.deadline(), None, "the first one keeps the watch");
}

#[test]
fn every_entry_into_a_throttle_counts() {
    let (throttle, log, mut sim) = (throttle(2, None), Log::default(), Sim::default());
    let (inner, seen) = (throttle.clone(), log.clone());
    let mut flow = Flow::new();
    flow.sync(&throttle, move |asi, ()| {
        let (innermost, again) = (inner.clone(), seen.clone());
        asi.sync(&inner, move |asi, ()| {
            again.add("twice");
            asi.sync(&innermost, move |_, ()| again.add("thrice"));
        });
    });
    sim.start(flow);
    assert_eq!(log.take(), "twice");
    sim.advance(100);
    assert_eq!(log.take(), "thrice");
}

#[test]
fn re_entering_a_limiter_takes_a_rate_entry_but_no_permit() {
    let limiter = Limiter::new(limiter::Options {
        concurrent: 1,
        max_queue: Some(0),
        rate: 2,
        period: ms(100),
        burst: Some(1),
    });
    let (log, mut sim) = (Log::default(), Sim::default());
    let (inner, seen) = (limiter.clone(), log.clone());
    let mut flow = Flow::new();
    flow.sync(&limiter, move |asi, ()| {
        for _ in 0..2 {
            let (limiter, seen) = (inner.clone(), seen.clone());
            asi.sync(&inner, move |_, ()| seen.add(limiter.holders()));
        }
    });
    let flow = sim.start(flow);
    assert_eq!((log.take(), limiter.queued()), ("1".to_owned(), 1));
    let rejected = sim.start(visit(&limiter, &log, "never", 0));
    assert_eq!(sim.outcome(rejected), codes::DEFENSE_REJECTED);
    sim.advance(100);
    assert_eq!((log.take(), sim.outcome(flow)), ("1".to_owned(), "success"));
    assert_eq!((limiter.holders(), limiter.queued()), (0, 0));
}

#[test]
fn a_limiter_frees_its_permit_on_every_way_out() {
    for (how, leave) in ways_out() {
        let options = limiter::Options { rate: 10, max_queue: None, ..limiter::Options::default() };
        let (limiter, mut sim) = (Limiter::new(options), Sim::default());
        let mut flow = Flow::new();
        flow.sync(&limiter, move |asi, ()| leave(asi));
        let flow = sim.start(flow);
        sim.advance(20);
        if how == "cancel" {
            sim.cancel(flow);
        }
        assert_eq!((limiter.holders(), limiter.queued()), (0, 0), "{how}");
    }
}
