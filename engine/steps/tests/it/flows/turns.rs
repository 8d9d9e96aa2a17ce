//! A turn is a burst of at most 100 steps, and can be given up (FTN12 §2.6).

use std::task::Waker;

use asyncsteps_core::{BURST, Execution, Flow, Progress};

use crate::flows::support::{Log, at};

/// How many turns a flow takes to its end.
fn turns(mut execution: Execution) -> usize {
    let mut turns = 1;
    while matches!(execution.run(at(0), Waker::noop()), Progress::Ready) {
        turns += 1;
    }
    turns
}

#[test]
fn a_burst_is_a_hundred_steps() {
    assert_eq!(BURST, 100);
    for (steps, expected) in [(1, 1), (100, 1), (101, 2), (1000, 10)] {
        let mut flow = Flow::new();
        for _ in 0..steps {
            flow.add(|_, ()| {});
        }
        assert_eq!(turns(flow.execute()), expected, "{steps} steps");
    }
}

#[test]
fn iterations_count_as_steps() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.repeat(1000, |_, _| {});
    });
    assert_eq!(turns(flow.execute()), 11);
}

#[test]
fn relinquish_ends_the_turn_after_the_callback() {
    let log = Log::default();
    let (one, two) = (log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.relinquish();
        one.add("one");
        asi.success(1)
    });
    flow.add(move |_, n: i32| two.add(n + 1));
    let mut execution = flow.execute();
    assert!(matches!(execution.run(at(0), Waker::noop()), Progress::Ready));
    assert_eq!(log.take(), "one");
    assert!(matches!(execution.run(at(0), Waker::noop()), Progress::Done(_)));
    assert_eq!(log.take(), "2");
}

#[test]
fn relinquish_ends_the_turn_in_a_loop_and_in_a_handler() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.repeat(3, |asi, _| asi.relinquish());
        asi.add(|asi, ()| asi.error("MyError", ())).on_error(|asi, _| {
            asi.relinquish();
            asi.success(())
        });
        asi.add(|_, ()| {});
    });
    assert_eq!(turns(flow.execute()), 5);
}

#[test]
fn busy_branches_take_turns() {
    let log = Log::default();
    let mut flow = Flow::new();
    flow.parallel(|p| {
        for name in ["a", "b"] {
            let log = log.clone();
            p.add(move |asi, ()| {
                asi.repeat(2, move |asi, _| {
                    log.add(name);
                    asi.relinquish();
                });
            });
        }
    });
    assert_eq!(turns(flow.execute()), 5);
    assert_eq!(log.take(), "a b a b");
}

#[test]
fn branches_start_in_the_order_added_wherever_the_turn_ends() {
    for steps in 90..105 {
        let log = Log::default();
        let mut flow = Flow::new();
        for _ in 0..steps {
            flow.add(|_, ()| {});
        }
        flow.parallel(|p| {
            for name in ["a", "b", "c"] {
                let log = log.clone();
                p.add(move |_, ()| log.add(name));
            }
        });
        turns(flow.execute());
        assert_eq!(log.take(), "a b c", "after {steps} steps");
    }
}
