//! Cancelling: cancel handlers from the innermost step outwards, branches in the order added, no
//! error handlers; dropping a flow is cancelling it.

use asyncsteps_core::{AsyncSteps, Flow, Outcome, Progress};

use crate::flows::support::{Dropped, Log, code, run, wait};

/// A step that waits and logs when its parts end.
fn waiting(log: &Log, name: &'static str) -> impl FnOnce(&mut AsyncSteps, ()) + use<> {
    let log = log.clone();
    move |asi, ()| {
        let _ = asi.stack(Dropped(log.clone(), name));
        asi.set_cancel(move |_| log.add(name));
    }
}

/// A flow with two levels of branches, all of them waiting.
fn tree(log: &Log) -> Flow {
    let (outer, log) = (log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        waiting(&log, "root")(asi, ());
        asi.parallel(move |p| {
            let inner = log.clone();
            p.add(move |asi, ()| {
                waiting(&inner, "a")(asi, ());
                asi.parallel(|p| {
                    p.add(waiting(&inner, "a0"));
                    p.add(waiting(&inner, "a1"));
                });
                asi.add(waiting(&inner, "never"));
            });
            p.add(waiting(&log, "b"));
        })
        .on_error(|_, _| unreachable!("no error handlers"));
    });
    flow.add(waiting(&outer, "never"));
    flow
}

const TREE: &str = "a0 -a0 a1 -a1 a -a b -b root -root";

#[test]
fn cancel_goes_from_the_innermost_step_outwards_through_all_branches() {
    let log = Log::default();
    let mut execution = tree(&log).execute();
    wait(&mut execution, 0);
    assert!(execution.is_valid());
    execution.cancel();
    assert_eq!(log.take(), TREE);
    assert!(!execution.is_valid());
    assert!(matches!(run(&mut execution, 0), Progress::Done(Outcome::Cancelled)));
    execution.cancel();
    drop(execution);
    assert_eq!(log.take(), "", "cancelled once");
}

#[test]
fn dropping_a_flow_cancels_it() {
    let log = Log::default();
    let mut execution = tree(&log).execute();
    wait(&mut execution, 0);
    drop(execution);
    assert_eq!(log.take(), TREE);
}

#[test]
fn a_flow_that_never_ran_has_nothing_to_cancel() {
    let log = Log::default();
    let mut execution = tree(&log).execute();
    execution.cancel();
    assert!(matches!(run(&mut execution, 0), Progress::Done(Outcome::Cancelled)));
    drop(tree(&log));
    assert_eq!(log.take(), "");
}

#[test]
fn a_canceller_cancels_on_the_next_turn_from_any_thread() {
    let log = Log::default();
    let mut flow = tree(&log);
    let canceller = flow.canceller();
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    let elsewhere = execution.canceller();
    std::thread::spawn(move || elsewhere.cancel()).join().expect("no panic");
    assert_eq!(log.take(), "", "not before the flow runs");
    assert!(matches!(run(&mut execution, 0), Progress::Done(Outcome::Cancelled)));
    assert_eq!(log.take(), TREE);
    canceller.cancel();
    assert!(matches!(run(&mut execution, 0), Progress::Done(Outcome::Cancelled)));
}

#[test]
fn a_flow_cancelled_before_it_ran_runs_no_step() {
    let log = Log::default();
    let mut flow = tree(&log);
    flow.canceller().cancel();
    assert!(matches!(run(&mut flow.execute(), 0), Progress::Done(Outcome::Cancelled)));
    assert_eq!(log.take(), "");
}

#[test]
fn cancelling_a_finished_flow_does_nothing() {
    let mut flow = Flow::new();
    let canceller = flow.canceller();
    flow.add(|asi, ()| {
        asi.set_cancel(|_| unreachable!("it succeeded"));
        asi.success(())
    });
    let mut execution = flow.execute();
    assert!(matches!(run(&mut execution, 0), Progress::Done(Outcome::Success(_))));
    execution.cancel();
    canceller.cancel();
}

#[test]
fn any_abnormal_end_calls_cancel_handlers_before_error_handlers() {
    let log = Log::default();
    let (a, b, c) = (log.clone(), log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.set_cancel(move |asi| a.add(format_args!("outer:{:?}", asi.error_info())));
        asi.add(|asi, ()| asi.error("MyError", "info")).on_error(move |_, _| b.add("inner"));
    })
    .on_error(move |_, _| c.add("handler"));
    assert_eq!(code(flow), "MyError");
    assert_eq!(log.take(), "inner outer:Some(\"info\") handler");
}

#[test]
fn a_failing_branch_cancels_its_siblings_that_have_started() {
    let log = Log::default();
    let mut flow = Flow::new();
    let inner = log.clone();
    let handler = log.clone();
    flow.parallel(|p| {
        p.add(move |asi, ()| {
            waiting(&inner, "a")(asi, ());
            asi.parallel(|p| {
                p.add(waiting(&inner, "a0"));
                p.add(|asi, ()| {
                    asi.repeat(1, |asi, _| {
                        asi.parallel(|p| {
                            p.add(|_, ()| {});
                        });
                    });
                });
            });
        });
        p.add(|asi, ()| asi.error("MyError", ()));
        p.add(|_, ()| unreachable!("it has not started"));
    })
    .on_error(move |asi, error| {
        handler.add(error.code());
        asi.success(())
    });
    assert!(matches!(run(&mut flow.execute(), 0), Progress::Done(Outcome::Success(_))));
    assert_eq!(log.take(), "a -a MyError");
}
