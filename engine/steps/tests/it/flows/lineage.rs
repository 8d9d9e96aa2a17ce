//! A step knows the branches, time limits and values around it.

use std::time::Duration;

use asyncsteps_core::{AsyncSteps, Flow, run_to_end};

use crate::flows::support::Log;

fn lineage(asi: &AsyncSteps) -> String {
    asi.lineage().map(|branch| branch.to_string()).collect::<Vec<_>>().join("<")
}

fn kept(asi: &AsyncSteps) -> String {
    asi.kept::<&str>().copied().collect()
}

#[test]
fn a_step_belongs_to_its_branch_and_to_those_around_it() {
    let log = Log::default();
    let seen = log.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        seen.add(lineage(asi));
        asi.parallel(|p| {
            p.add(|_, ()| {});
            p.add(move |asi, ()| {
                seen.add(lineage(asi));
                asi.parallel(|p| {
                    p.add(move |asi, ()| {
                        asi.add(move |asi, ()| seen.add(lineage(asi)));
                    });
                });
            });
        });
    });
    run_to_end::<()>(flow).expect("it does not wait");
    assert_eq!(log.take(), "0 2<0 3<2<0");
}

#[test]
fn a_limit_around_counts_while_its_step_is_in_progress_and_a_wake_up_is_no_limit() {
    let log = Log::default();
    let seen = log.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.add({
            let seen = seen.clone();
            move |asi, ()| {
                asi.set_timeout(Duration::from_secs(1));
                asi.parallel(|p| {
                    p.add(move |asi, ()| {
                        asi.add(move |asi, ()| seen.add(asi.is_limited()));
                    });
                });
            }
        });
        asi.add(move |asi, ()| {
            asi.wait_until(asi.now());
            asi.add(move |asi, ()| seen.add(asi.is_limited()));
        });
    });
    run_to_end::<()>(flow).expect("it does not wait");
    assert_eq!(log.take(), "true false");
}

#[test]
fn values_around_are_found_by_their_type_innermost_first() {
    let log = Log::default();
    let seen = log.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.stack("a");
        asi.add(|asi, ()| {
            asi.stack("x");
        });
        asi.parallel(|p| {
            p.add(|asi, ()| {
                asi.stack("y");
                asi.add(|_, ()| {});
            });
            p.add(move |asi, ()| {
                asi.stack("b");
                asi.stack(1);
                asi.stack("c");
                asi.add(move |asi, ()| {
                    asi.stack("d");
                    seen.add(kept(asi));
                    assert_eq!(asi.kept::<i32>().count(), 1);
                    assert_eq!(asi.kept::<String>().count(), 0);
                });
            });
        });
    });
    run_to_end::<()>(flow).expect("it does not wait");
    assert_eq!(log.take(), "dcba");
}

#[test]
fn locations_are_those_of_the_stack_innermost_first() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.repeat(1, |asi, _| {
            asi.parallel(|p| {
                p.add(|asi, ()| {
                    let mut stack = asi.async_stack();
                    stack.reverse();
                    assert!(stack.len() == 4 && asi.locations().eq(stack), "{asi:?}");
                });
            });
        });
    });
    run_to_end::<()>(flow).expect("it does not wait");
}
