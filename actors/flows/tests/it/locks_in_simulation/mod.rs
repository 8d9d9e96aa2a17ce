//! The locks of production in simulations and on a loop driven by hand, without actix, and their histories against
//! models.

mod clients;
mod histories;
mod model;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use asyncsteps_actors::sync::{Limiter, Load, Mutex, Registry, Throttle};
use asyncsteps_core::sim::{self, Options, Sim};
use asyncsteps_core::sync::{limiter, mutex, throttle};
use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{Flow, Outcome, Template, Time, sleep};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn per_100_ms(max: u32) -> throttle::Options {
    throttle::Options { max, period: ms(100), max_queue: None }
}

/// Times without a chance.
fn exact() -> Options {
    Options { lateness: Duration::ZERO, ..Options::default() }
}

/// When flows entered, in milliseconds.
type Entered = Rc<RefCell<Vec<u128>>>;

fn note(entered: &Entered, now: Time) {
    entered.borrow_mut().push(now.since_epoch().as_millis());
}

#[test]
fn a_throttle_keeps_its_periods_in_virtual_time() {
    for asynchronous in [false, true] {
        sim::check_with(&exact(), 0..20, |sim| {
            let (throttle, entered) = (Throttle::new(per_100_ms(2)), Entered::default());
            for _ in 0..7 {
                let (entered, mut flow) = (Rc::clone(&entered), Flow::new());
                let key = throttle.key("ann");
                if asynchronous {
                    flow.run(async move |()| {
                        key.enter().await?;
                        note(&entered, asyncsteps_core::turn_time().expect("a turn"));
                        Ok(())
                    });
                } else {
                    flow.sync(&key, move |asi, ()| note(&entered, asi.now()));
                }
                sim.start(flow);
            }
            sim.run();
            assert_eq!(*entered.borrow(), [0, 0, 100, 100, 200, 200, 300]);
            assert_eq!(throttle.load().queued, 0);
        });
    }
}

#[test]
fn waiters_of_a_throttle_leave_and_others_take_their_place() {
    let options = Options { cancel_one_in: 3, cancel_within: ms(90), ..exact() };
    sim::check_with(&options, 0..100, |sim| {
        let (throttle, entered) = (Throttle::new(per_100_ms(1)), Entered::default());
        let flows: Vec<_> = (0..6)
            .map(|_| {
                let (entered, mut flow) = (Rc::clone(&entered), Flow::new());
                flow.sync(&throttle, move |asi, ()| note(&entered, asi.now()));
                sim.start(flow)
            })
            .collect();
        sim.run();
        let ended = flows.iter().filter_map(sim::Started::take_outcome);
        let succeeded = ended.filter(|end| matches!(end, Outcome::Success(_))).count();
        let entered = entered.borrow();
        assert!(entered.len() >= succeeded);
        let periods: Vec<u128> = (0..entered.len() as u128).map(|period| period * 100).collect();
        assert_eq!(*entered, periods, "no period is lost");
    });
}

/// A service with each kind of lock, as its template has them in production.
fn service(inside: &'static (impl Fn(i32) + Sync)) -> (Template, Mutex, Limiter) {
    let customers = Mutex::new(mutex::Options::default());
    let calls = Limiter::new(limiter::Options {
        concurrent: 2,
        max_queue: None,
        rate: 3,
        period: ms(50),
        burst: None,
    });
    let (locked, limited) = (customers.clone(), calls.clone());
    let template = Template::build(move |asi| {
        asi.run(async |()| {
            inside(1);
            sleep(ms(30)).await;
            inside(-1);
            Ok(())
        })
        .named("bank")
        .limited(&limited);
        asi.sync(&locked, |asi, ()| {
            asi.sleep(ms(10));
        });
    });
    (template, customers, calls)
}

thread_local! {
    static INSIDE: Cell<i32> = const { Cell::new(0) };
}

fn count(change: i32) {
    INSIDE.set(INSIDE.get() + change);
    assert!(INSIDE.get() <= 2, "two at once");
}

#[test]
fn a_template_runs_in_a_simulation_with_its_own_locks() {
    sim::check(0..30, |sim| {
        let (template, customers, calls) = service(&count);
        for _ in 0..9 {
            sim.start_within(ms(40), template.flow());
        }
        sim.run();
        assert_eq!((customers.load(), calls.load().holders), (Load::default(), 0));
    });
}

#[test]
fn a_template_gives_its_locks_back_wherever_it_is_cut() {
    sim::cancel_everywhere([3], |_: &Sim| {
        let (template, customers, calls) = service(&|_| {});
        let flow = template.flow();
        (flow, move |_| {
            assert_eq!((customers.load(), calls.load().holders), (Load::default(), 0));
        })
    });
}

#[test]
fn a_loop_that_is_driven_by_hand_takes_the_same_locks() {
    let tool = Manual::new(Time::ZERO);
    let registry = Registry::new();
    registry.define("mail", per_100_ms(1)).expect("it is new");
    let promises: Vec<_> = (0..3)
        .map(|_| {
            let mail = registry.throttle("mail", "ann").expect("a throttle");
            let mut flow = Flow::new();
            flow.sync(&mail, |_, ()| {});
            flow.promise::<(), _>(&tool)
        })
        .collect();
    let all = async move {
        for promise in promises {
            promise.await.expect("it enters");
        }
    };
    tool.complete(all).expect("they end");
    assert_eq!(tool.now(), Time::ZERO + ms(200));
}

#[test]
fn an_entry_ends_the_periods_of_other_keys_where_no_actor_does() {
    let (tool, throttle) = (Manual::new(Time::ZERO), Throttle::new(per_100_ms(5)));
    for (at, key) in [(0, "ann"), (60, "bob"), (120, "bob")] {
        tool.iterate(Time::ZERO + ms(at), Waker::noop());
        let mut flow = Flow::new();
        flow.sync(&throttle.key(key), |_, ()| {});
        tool.complete(flow.promise::<(), _>(&tool)).expect("it enters").expect("it ends");
    }
    let open = throttle.inspect().keys;
    assert_eq!(open.iter().map(|it| (&*it.key, it.entered)).collect::<Vec<_>>(), [("bob", 2)]);
}
