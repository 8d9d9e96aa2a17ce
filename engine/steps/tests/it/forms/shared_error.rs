//! One error object with which several steps fail: each failure has its own facts (FTN12 §1.7).

use std::future::pending;

use asyncsteps_core::tool::AsyncTool;
use asyncsteps_core::{Error, Flow, Retry, StepError, Undo, run_to_end};

use crate::forms::support::tool;

/// A flow whose two undos fail with `down`; it is cancelled in its second step.
fn failed_undos(down: &Error) -> Vec<Error> {
    let (first, second) = (down.clone(), down.clone());
    let (tool, waker) = (tool(), std::task::Waker::noop());
    let mut flow = Flow::new();
    flow.run(async |()| Ok(1))
        .named("first")
        .undo(async move |_| Err(StepError::from(first.clone())));
    flow.run(async |_: i32| pending::<Result<i32, _>>().await)
        .named("second")
        .undo(async move |_| Err(StepError::from(second.clone())));
    let mut execution = flow.execute();
    let _ = execution.run(tool.now(), waker);
    execution.cancel();
    let mut undo = execution.take_launched().pop().expect("its undo").execute();
    let _ = undo.run(tool.now(), waker);
    undo.take_unreported_errors()
}

#[test]
fn each_undo_that_fails_is_reported_as_itself() {
    let down = Error::new("BankDown");
    let failed = failed_undos(&down);
    let facts: Vec<_> = failed
        .iter()
        .map(|error| (error.location().and_then(|step| step.name()), error.failed_undo()))
        .collect();
    let expected = [(Some("second"), Some(Undo::Unknown)), (Some("first"), Some(Undo::Done(())))];
    assert_eq!(facts, expected);
    assert!(failed.iter().all(|error| error.code() == "BankDown"));
    assert_eq!((down.location(), down.failed_undo()), (None, None));
}

#[test]
fn each_step_that_gives_up_counts_its_own_attempts() {
    let down = Error::new("BankDown");
    let errors = [2, 5].map(|most| {
        let raised = down.clone();
        let mut flow = Flow::new();
        flow.run(async move |()| Err::<(), _>(StepError::from(raised.clone())))
            .retry(Retry::attempts(most).on_code("BankDown"));
        run_to_end::<()>(flow).expect_err("it gives up")
    });
    assert_eq!(errors.map(|error| error.attempts()), [Some(2), Some(5)]);
    assert_eq!(down.attempts(), None);
}

#[test]
fn an_error_that_is_raised_again_keeps_its_cause_and_attempts() {
    let fails = |code: &'static str| {
        let mut flow = Flow::new();
        flow.run(async |()| {
            let cause = "x".parse::<u32>().expect_err("no digits");
            Err::<(), _>(Error::caused_by("Busy", cause).into())
        })
        .retry(Retry::attempts(2).on_code("Busy"))
        .on_error(move |asi, _| asi.error(code, "the bank is busy"));
        crate::forms::support::run::<()>(flow).0.expect_err("it fails")
    };
    let again = fails("Busy");
    assert_eq!((again.info(), again.attempts()), (Some("the bank is busy"), Some(2)));
    assert!(again.find::<std::num::ParseIntError>().is_some() && again.is_deliberate());
    let other = fails("Sorry");
    assert_eq!((other.attempts(), std::error::Error::source(&other).is_some()), (None, false));
}
