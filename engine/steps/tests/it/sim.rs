//! Simulation: a seed decides all choices, and the report of a failure names it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::sim::{self, Options, Sim};
use asyncsteps_core::sync::{Limiter, Mutex, Throttle, limiter, throttle};
use asyncsteps_core::tool::AsyncTool;
use asyncsteps_core::{Flow, Outcome, Template, Time};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The report of a check that has to fail.
fn report(check: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(check)).expect_err("it fails");
    *payload.downcast::<String>().expect("a report is text")
}

/// A flow that adds one to a counter, with a pause between reading and writing.
fn count(sim: &Sim, counter: &Rc<Cell<u32>>) -> Flow {
    let (sim, counter) = (sim.clone(), Rc::clone(counter));
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        let read = counter.get();
        asi.add(move |asi, ()| {
            let done = asi.wait_external();
            sim.later(ms(5), move || done.success(()).expect("it waits"));
        });
        asi.add(move |_, ()| counter.set(read + 1));
    });
    flow
}

/// Two flows that count at about the same time; each fails if it lost the other's update.
fn race(sim: &Sim) {
    let counter = Rc::default();
    for _ in 0..2 {
        sim.start_within(ms(20), count(sim, &counter));
    }
    sim.run();
    assert_eq!(counter.get(), 2, "an update was lost");
}

#[test]
fn a_race_is_found_and_its_seed_replays_it_exactly() {
    let found = report(|| sim::check(0..1000, race));
    let seed = found.split("seed ").nth(1).and_then(|rest| rest.split(' ').next());
    let seed: u64 = seed.and_then(|seed| seed.parse().ok()).expect("the report names the seed");
    assert!(found.contains(&format!("replay it with `check([{seed}], ..)`")), "{found}");
    assert!(found.contains("an update was lost") && found.contains("flow 1 succeeds"), "{found}");
    assert_eq!(report(|| sim::check([seed], race)), found);
}

#[test]
fn the_same_seed_makes_the_same_choices_and_seeds_differ() {
    let story = |seed| {
        let told = RefCell::default();
        sim::check([seed], |sim| {
            let counter = Rc::default();
            for _ in 0..10 {
                sim.start_within(ms(20), count(sim, &counter));
            }
            sim.run();
            told.replace((sim.trace(), sim.turns(), sim.random().number()));
        });
        told.take()
    };
    let stories: BTreeSet<_> = (0..50).map(story).collect();
    assert_eq!(stories, (0..50).map(story).collect());
    assert_eq!(stories.len(), 50);
}

#[test]
fn a_flow_that_is_never_woken_is_reported_with_its_stack() {
    let report = report(|| {
        sim::check([7], |sim| {
            let mut flow = Flow::new();
            flow.add(|asi, ()| {
                asi.add(|asi, ()| asi.wait_only()).named("forgotten");
            });
            sim.start(flow);
        });
    });
    assert!(report.contains("seed 7") && report.contains("flow 0 waits in"), "{report}");
    assert!(report.contains("`forgotten` at engine/steps/tests/it/sim.rs:"), "{report}");
}

#[test]
fn a_deadlock_of_two_locks_is_found() {
    let report = report(|| {
        sim::check(0..100, |sim| {
            let locks = [Mutex::default(), Mutex::default()];
            for first in 0..2 {
                let (outer, inner) = (locks[first].clone(), locks[1 - first].clone());
                let mut flow = Flow::new();
                flow.sync(&outer, move |asi, ()| {
                    asi.sync(&inner, |_, ()| {});
                });
                sim.start(flow);
            }
        });
    });
    assert!(report.contains("flow 0 waits in") && report.contains("flow 1 waits in"), "{report}");
}

#[test]
fn a_flow_that_never_ends_is_stopped_by_the_limit() {
    for pause in [None, Some(ms(1))] {
        let options = Options { max_turns: 500, ..Options::default() };
        let report = report(|| {
            sim::check_with(&options, [1], |sim| {
                let mut flow = Flow::new();
                flow.add(move |asi, ()| {
                    asi.make_loop(move |asi| {
                        if let Some(pause) = pause {
                            asi.sleep(pause);
                        }
                    });
                });
                sim.start(flow);
            });
        });
        assert!(report.contains("it did not end within 500 turns"), "{report}");
    }
}

/// A step that panics, and a handler that recovers from it.
fn recovers_from_panic() -> Flow {
    let mut flow = Flow::new();
    flow.add(|_, ()| panic!("broken check")).on_error(|asi, _| asi.success(()));
    flow
}

fn recovered_panic(sim: &Sim) {
    let flow = sim.start(recovers_from_panic());
    sim.run();
    assert!(matches!(flow.take_outcome(), Some(Outcome::Success(_))));
    assert!(flow.take_outcome().is_none(), "taken");
}

#[test]
fn a_panic_of_a_step_fails_the_simulation_unless_it_is_allowed() {
    let in_future = |sim: &Sim| {
        recovers_from_panic().execute_on(sim);
        sim.run();
    };
    let options = Options { allow_panics: true, ..Options::default() };
    for scenario in [recovered_panic, in_future] {
        let told = report(|| sim::check([0], scenario));
        assert!(told.contains("broken check"), "{told}");
        sim::check_with(&options, [0], scenario);
    }
}

#[test]
fn the_end_of_a_flow_whose_result_nobody_gets_is_in_the_trace() {
    sim::check([0], |sim| {
        let mut flow = Flow::new();
        flow.add(|asi, ()| asi.error("Lost", "on the way"));
        flow.execute_on(sim);
        sim.run();
        let trace = sim.trace().join("\n");
        assert!(trace.contains("the flow of a future fails: Lost"), "{trace}");
    });
}

#[test]
fn checks_are_made_after_every_turn() {
    let report = report(|| {
        sim::check([0], |sim| {
            let value = Rc::new(Cell::new(0));
            let seen = Rc::clone(&value);
            sim.always(move || assert!(seen.get() < 3, "it reached 3"));
            sim.later(ms(1), move || value.set(3));
        });
    });
    assert!(report.contains("it reached 3"), "{report}");
}

#[test]
fn running_a_simulation_inside_of_itself_is_a_mistake_that_is_reported() {
    let report = report(|| {
        sim::check([0], |sim| {
            let inner = sim.clone();
            sim.later(ms(1), move || inner.run());
        });
    });
    assert!(report.contains("`run` was called inside of the simulation"), "{report}");
}

#[test]
fn flows_are_cancelled_by_chance_and_by_hand() {
    let options = Options { cancel_one_in: 2, cancel_within: ms(50), ..Options::default() };
    let counts = Cell::new((0, 0));
    sim::check_with(&options, 0..100, |sim| {
        let mut flow = Flow::new();
        flow.add(|asi, ()| {
            asi.sleep(ms(25));
        });
        let flow = sim.start(flow);
        sim.run();
        let (ended, cancelled) = counts.get();
        counts.set(match flow.take_outcome() {
            Some(Outcome::Success(_)) => (ended + 1, cancelled),
            Some(Outcome::Cancelled) => (ended, cancelled + 1),
            outcome => panic!("{outcome:?}"),
        });
    });
    let (ended, cancelled) = counts.get();
    assert!(ended > 20 && cancelled > 10, "{ended} ended and {cancelled} were cancelled");
    sim::check([0], |sim| {
        let mut flow = Flow::new();
        flow.add(|asi, ()| asi.wait_only());
        let flow = sim.start(flow);
        sim.run_for(ms(1000));
        assert!(flow.is_valid());
        assert_eq!(sim.now(), Time::from_epoch(ms(1000)));
        flow.cancel();
        sim.run();
        assert!(!flow.is_valid());
        flow.cancel();
    });
}

#[test]
fn templates_find_their_simulation_and_launched_flows_run_in_it() {
    let template = Template::build(|asi| {
        asi.add(|asi, ()| {
            let sim = Sim::of(asi);
            let done = asi.wait_external();
            sim.later(ms(10), move || done.success(5).expect("it waits"));
        });
        asi.add(|asi, n: i32| {
            let sim = Sim::of(asi);
            let mut child = asi.new_instance();
            child.add(move |_, ()| sim.log(format_args!("the child got {n}")));
            asi.launch(child);
        });
    });
    sim::check(0..10, |sim| {
        sim.start(template.flow());
        sim.run();
        assert!(sim.trace().iter().any(|line| line.ends_with("the child got 5")));
    });
}

#[test]
fn a_simulation_is_an_event_loop() {
    sim::check(0..20, |sim| {
        let log: Rc<RefCell<Vec<u32>>> = Rc::default();
        let adds = |n| {
            let log = Rc::clone(&log);
            move || log.borrow_mut().push(n)
        };
        sim.deferred(ms(100), adds(3));
        let first = sim.immediate(adds(1));
        sim.immediate(adds(2));
        let taken = [sim.deferred(ms(1), adds(0)), sim.spawn(std::future::pending())];
        for handle in taken {
            assert!(sim.is_valid(&handle));
            sim.cancel(&handle);
            assert!(!sim.is_valid(&handle));
        }
        let mut flow = Flow::new();
        flow.add(|asi, ()| {
            asi.sleep(ms(1000));
        });
        let (add, promise) = (adds(4), flow.promise::<(), _>(sim));
        let spawned = sim.spawn(async move {
            promise.await.expect("nothing fails");
            add();
        });
        sim.run();
        assert_eq!(*log.borrow(), [1, 2, 3, 4]);
        assert!(!sim.is_valid(&first) && !sim.is_valid(&spawned) && sim.is_same_thread());
    });
}

/// Counts the owners inside of a section, and how many may be.
#[derive(Clone, Default)]
struct Inside(Rc<Cell<u32>>);

struct Guard(Rc<Cell<u32>>);

impl Inside {
    fn enter(&self, most: u32) -> Guard {
        self.0.set(self.0.get() + 1);
        assert!(self.0.get() <= most, "too many are inside");
        Guard(Rc::clone(&self.0))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[test]
fn locks_are_released_also_after_cancels_and_timeouts() {
    let options = Options { cancel_one_in: 3, cancel_within: ms(100), ..Options::default() };
    sim::check_with(&options, 0..300, |sim| {
        let mutex =
            Mutex::new(asyncsteps_core::sync::mutex::Options { max: 2, max_queue: Some(6) });
        let throttle = Throttle::new(throttle::Options { max: 3, period: ms(20), max_queue: None });
        let limiter = Limiter::new(limiter::Options {
            concurrent: 2,
            max_queue: Some(4),
            rate: 3,
            period: ms(30),
            burst: Some(3),
        });
        let (in_mutex, in_limiter) = (Inside::default(), Inside::default());
        for _ in 0..12 {
            let (sim_, mutex, limiter) = (sim.clone(), mutex.clone(), limiter.clone());
            let (in_mutex, in_limiter) = (in_mutex.clone(), in_limiter.clone());
            let mut flow = Flow::new();
            flow.sync(&throttle, move |asi, ()| {
                asi.set_timeout(ms(150));
                asi.sync(&mutex, move |asi, ()| {
                    let _ = asi.stack(in_mutex.enter(2));
                    let done = asi.wait_external();
                    sim_.later(ms(10), move || {
                        let _ = done.success(()); // it may have been too late
                    });
                });
                asi.sync(&limiter, move |asi, ()| {
                    let _ = asi.stack(in_limiter.enter(2));
                    asi.sleep(ms(5));
                });
            });
            sim.start_within(ms(50), flow);
        }
        sim.run();
        assert_eq!((mutex.holders(), mutex.queued()), (0, 0));
        assert_eq!((in_mutex.0.get(), in_limiter.0.get()), (0, 0));
        // all locks can be entered again
        let mut flow = Flow::new();
        flow.sync(&mutex, |_, ()| {});
        flow.sync(&limiter, |_, ()| {});
        sim.run_for(ms(100));
        let (last, sim) = (sim.start_within(ms(0), flow), sim);
        sim.run();
        let ended = last.take_outcome();
        assert!(matches!(ended, Some(Outcome::Success(_) | Outcome::Cancelled)), "{ended:?}");
    });
}
