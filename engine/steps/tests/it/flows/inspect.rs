//! A flow shows where each of its branches is and why it waits.

use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::{
    Awaitable, Error, Execution, Flow, Identity, Outcome, Progress, Stale, WaitCause, WaitReason,
    WaitResult,
};

use crate::flows::support::{at, run, wait};

struct Door;

impl Awaitable for Door {
    fn describe(&self, who: Identity) -> String {
        format!("a door, for branch {}", who.branch)
    }
}

/// The last step of each branch's stack and what it waits for.
fn reasons(execution: &mut Execution) -> Vec<(u32, Option<&'static str>, String)> {
    let waits = execution.waits().into_iter();
    waits
        .map(|wait| {
            let name = wait.stack.last().and_then(|place| place.name());
            (wait.branch, name, wait.reason.to_string())
        })
        .collect()
}

#[test]
fn every_branch_shows_what_it_waits_for() {
    let mut flow = Flow::new();
    let handles = Rc::new(RefCell::new(Vec::new()));
    let (external, object) = (Rc::clone(&handles), Rc::clone(&handles));
    flow.parallel(|p| {
        p.add(|asi, ()| asi.set_timeout(Duration::from_millis(70))).named("limit");
        p.add(|asi, ()| {
            asi.add(|asi, ()| asi.wait_until(at(50))).named("until");
        });
        p.add(|asi, ()| {
            asi.await_(pending::<Result<(), Error>>()).named("future");
        });
        p.add(move |asi, ()| external.borrow_mut().push(asi.wait_external())).named("external");
        p.add(move |asi, ()| object.borrow_mut().push(asi.wait_external_for(Arc::new(Door))))
            .named("object");
        p.add(|asi, ()| asi.wait_only()).named("only");
        p.add(|_, ()| {}).named("gone");
    })
    .named("around");
    let mut execution = flow.execute();
    wait(&mut execution, 10);
    let told = reasons(&mut execution);
    let told: Vec<_> =
        told.iter().map(|(branch, name, reason)| (*branch, *name, &**reason)).collect();
    assert_eq!(
        told,
        [
            (1, Some("limit"), "a time limit or a cancel"),
            (2, Some("until"), "until 0.05 s"),
            (3, Some("future"), "a future"),
            (4, Some("external"), "a completion from outside"),
            (5, Some("object"), "a door, for branch 5"),
            (6, Some("only"), "a time limit or a cancel"),
        ]
    );
    let waits = execution.waits();
    assert!(waits.iter().all(|wait| wait.stack[0].name() == Some("around")));
    assert_eq!(waits[1].stack.len(), 3);
    let causes = ["end", "pause", "future", "external", "object", "end"];
    assert_eq!(waits.iter().map(|wait| wait.cause.as_str()).collect::<Vec<_>>(), causes);
    let mut counted: Vec<_> = execution.causes().map(WaitCause::as_str).collect();
    counted.sort_unstable();
    assert_eq!(counted, ["end", "end", "external", "future", "object", "pause"]);
    assert!(waits.iter().all(|wait| wait.contention.is_none()), "a door tells nothing of it");
    assert_eq!(waits[0].limit, Some(at(80)));
    assert_eq!(waits[1].limit, None, "the limit of a sibling is not its own");
    assert_eq!(execution.last_turn(), at(10));
}

#[test]
fn limits_around_a_parallel_step_hold_in_its_branches() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.set_timeout(Duration::from_millis(70));
        asi.parallel(|p| {
            p.add(|asi, ()| {
                asi.set_timeout(Duration::from_millis(90));
                asi.add(|asi, ()| asi.set_timeout(Duration::from_millis(80)));
            });
        });
    })
    .named("outside");
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    let waits = execution.waits();
    assert_eq!((waits.len(), waits[0].limit), (1, Some(at(70))));
    assert_eq!(waits[0].limited_by.and_then(|step| step.name()), Some("outside"));
}

#[test]
fn what_steps_keep_is_told_with_the_branch_and_the_step() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.stack("outside");
        asi.parallel(|p| {
            p.add(|asi, ()| {
                asi.stack("inside");
                asi.wait_only();
            })
            .named("one");
            p.add(|asi, ()| asi.wait_only()).named("other");
        });
    })
    .named("around");
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    let kept = execution.kept::<&str>().map(|(branch, step, value)| (branch, step.name(), *value));
    let mut kept: Vec<_> = kept.collect();
    kept.sort_unstable();
    assert_eq!(kept, [(0, Some("around"), "outside"), (1, Some("one"), "inside")]);
}

#[test]
fn a_runnable_flow_waits_for_its_turn_and_one_that_is_over_has_no_waits() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.relinquish();
        asi.add(|_, ()| {});
    });
    let mut execution = flow.execute();
    let _ = execution.run(at(0), std::task::Waker::noop());
    assert_eq!(execution.waits()[0].reason, WaitReason::Turn);
    let _ = run(&mut execution, 0);
    assert_eq!(execution.waits(), []);
}

#[test]
fn a_wait_is_completed_by_its_name_once_and_by_no_other_name() {
    let waiting = || {
        let mut flow = Flow::new();
        flow.add(|asi, ()| {
            let handle = asi.wait_external();
            asi.stack(handle);
        });
        let mut execution = flow.execute();
        wait(&mut execution, 0);
        execution
    };
    let (mut flow, mut other) = (waiting(), waiting());
    let name = |flow: &mut Execution| flow.waits()[0].id.expect("it waits");
    let (wait, foreign) = (name(&mut flow), name(&mut other));
    assert_eq!((wait.flow(), foreign.flow()), (flow.id(), other.id()));
    assert_eq!(flow.complete(foreign, WaitResult::success(1)), Err(Stale));
    assert_eq!(flow.complete(wait, WaitResult::success(2)), Ok(()));
    assert_eq!(flow.complete(wait, WaitResult::success(3)), Err(Stale));
    let Progress::Done(Outcome::Success(result)) = flow.run(at(0), std::task::Waker::noop()) else {
        panic!("it was completed")
    };
    assert_eq!(result.into_typed::<i32>().ok(), Some(2));
    assert_eq!(flow.complete(wait, WaitResult::success(4)), Err(Stale));
}
