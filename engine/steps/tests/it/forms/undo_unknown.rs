//! What a body that fails by itself may have done (FTN12 §1.2).

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;

use asyncsteps_core::{
    Arg, BodyResult, Error, Flow, Retry, RunContext, StepError, Template, Undo, UndoPolicy,
};

use crate::forms::support::{Log, ms, tool};

thread_local! {
    static LOG: RefCell<Log> = RefCell::default();
}

/// Adds a step of the test to a flow, with an undo that logs its outcome.
type Add = fn(&mut Flow, Log);

/// The log of a flow that ends with an error after this step.
fn undone(add: Add) -> String {
    let (tool, log) = (tool(), Log::default());
    let mut flow = Flow::new();
    add(&mut flow, log.clone());
    flow.error_step(Error::new("Later"));
    let promise = flow.promise::<(), _>(&tool);
    let error = tool.complete(promise).expect("it ends").expect_err("it fails");
    format!("{} {}", error.code(), log.take())
}

/// An undo that logs the outcome.
fn logs<T: std::fmt::Debug>(log: Log) -> impl AsyncFn(Undo<&T>) -> BodyResult<()> + 'static {
    async move |outcome: Undo<&T>| {
        log.add(format_args!("{outcome:?}"));
        Ok(())
    }
}

fn lost() -> StepError {
    Error::new("Lost").into()
}

#[test]
fn a_body_that_fails_is_taken_at_its_word() {
    let at_its_word: Add = |flow, log| {
        flow.run(async |()| Err::<(), _>(Error::new("Declined").into())).undo(logs(log));
    };
    let unknown: Add = |flow, log| {
        let lost = async |()| Err::<(), _>(Error::new("Lost").outcome_unknown().into());
        flow.run(lost).undo(logs(log));
    };
    assert_eq!((undone(at_its_word), undone(unknown)), ("Declined ".into(), "Lost Unknown".into()));
}

#[test]
fn a_body_is_taken_at_its_word_whatever_the_steps_around_it_retry() {
    let add: Add = |flow, log| {
        flow.substeps(move |asi, ()| {
            asi.run(async |()| Err::<(), _>(lost())).undo(logs(log.clone()));
        })
        .retry(Retry::attempts(2).on_code("Lost"));
    };
    assert_eq!(undone(add), "Lost ");
}

#[test]
fn what_is_worth_another_attempt_may_have_been_done() {
    /// The policy of these steps.
    fn retry() -> Retry {
        Retry::attempts(2).on_code("Lost")
    }
    let gives_up: Add = |flow, log| {
        flow.run(async |()| Err::<(), _>(lost())).retry(retry()).undo(logs(log));
    };
    let declined: Add = |flow, log| {
        let declined = async |()| Err::<(), _>(Error::new("Declined").into());
        flow.run(declined).retry(retry()).undo(logs(log));
    };
    let lost_then: Add = |flow, log| {
        let body = async |context: RunContext, ()| match context.attempt {
            1 => Err::<(), _>(lost()),
            _ => Err(Error::new("Declined").into()),
        };
        flow.run_with(body).retry(retry()).undo(logs(log));
    };
    let succeeds: Add = |flow, log| {
        let body = async |context: RunContext, ()| match context.attempt {
            1 => Err(lost()),
            _ => Ok(7),
        };
        flow.run_with(body).shielded().retry(retry()).undo(logs(log));
    };
    let logs = [gives_up, declined, lost_then, succeeds].map(undone);
    assert_eq!(logs, ["Lost Unknown", "Declined ", "Declined Unknown", "Later Done(7)"]);
}

#[test]
fn one_of_several_things_that_fails_leaves_the_others_unknown() {
    let each: Add = |flow, log| {
        let body = async |item: u32| match item {
            1 => Ok(1),
            2 => Err(lost()),
            _ => pending().await,
        };
        flow.each([1, 2, 3], 3, body).undo(logs(log));
    };
    let first: Add = |flow, log| {
        flow.each([1, 2], 1, async |_| Err::<u32, _>(lost())).undo(logs(log));
    };
    let second: Add = |flow, log| {
        let body = async |item: u32| if item == 1 { Ok(1) } else { Err(lost()) };
        flow.each([1, 2], 1, body).undo(logs(log));
    };
    let join: Add = |flow, log| {
        flow.join(async || Ok(1), async || Err::<u32, _>(lost())).undo(logs(log));
    };
    let join_first: Add = |flow, log| {
        flow.join(async || Err::<u32, _>(lost()), async || Ok(1)).undo(logs(log));
    };
    let join3: Add = |flow, log| {
        let hangs = async || pending::<Result<u32, _>>().await;
        let fails = async || {
            asyncsteps_core::sleep(ms(5)).await;
            Err::<u32, _>(lost())
        };
        flow.join3(fails, hangs, async || Ok(1)).undo(logs(log));
    };
    let all = [each, first, second, join, join_first, join3].map(undone);
    let (unknown, nothing) = ("Lost Unknown", "Lost ");
    assert_eq!(all, [unknown, nothing, unknown, unknown, nothing, unknown]);
}

#[test]
fn a_race_that_all_lose_is_unknown_if_one_of_them_may_have_done_something() {
    let lost_first: Add = |flow, log| {
        let body = async |item: u32| match item {
            1 => Err::<u32, _>(Error::new("Lost").outcome_unknown().into()),
            _ => Err(Error::new("Declined").into()),
        };
        flow.race([1, 2], body).undo(logs(log));
    };
    let worth_another: Add = |flow, log| {
        let body = async |item: u32| match item {
            1 => Err::<u32, _>(lost()),
            _ => Err(Error::new("Declined").into()),
        };
        flow.race([1, 2], body).retry(Retry::attempts(2).on_code("Lost")).undo(logs(log));
    };
    let alone: Add = |flow, log| {
        flow.race([1], async |_| Err::<u32, _>(lost())).undo(logs(log));
    };
    let all = [lost_first, worth_another, alone].map(undone);
    assert_eq!(all, ["Declined Unknown", "Declined Unknown", "Lost "]);
}

/// A result whose clone panics the first time.
#[derive(Debug)]
struct Brittle(Rc<Cell<bool>>);

impl Arg for Brittle {}

impl Clone for Brittle {
    fn clone(&self) -> Self {
        assert!(self.0.replace(true), "a clone panics");
        Self(Rc::clone(&self.0))
    }
}

#[test]
fn a_result_that_could_not_be_kept_is_unknown_also_after_another_attempt() {
    let (tool, log) = (tool(), Log::default());
    let panicked = Rc::new(Cell::new(false));
    let mut flow = Flow::new();
    flow.run_with(async move |context: RunContext, ()| match context.attempt {
        1 => Ok(Brittle(Rc::clone(&panicked))),
        _ => Err(Error::new("Declined").into()),
    })
    .retry(Retry::attempts(2).on_code("InternalError"))
    .undo(logs(log.clone()));
    let promise = flow.promise::<(), _>(&tool);
    let error = tool.complete(promise).expect("it ends").expect_err("it fails");
    assert_eq!((error.code(), &*log.take()), ("Declined", "Unknown"));
}

#[test]
fn an_undo_of_a_template_can_take_what_its_step_took() {
    let log = Log::default();
    let template = Template::build(|asi| {
        asi.run_with(async |run: RunContext, (seat, row): (u32, String)| {
            match (seat, run.attempt) {
                (_, 1) => Err(lost()),
                (7, _) => Ok(format!("{row}{seat}")),
                _ => Err(Error::new("Taken").into()),
            }
        })
        .retry(Retry::attempts(2).on_code("Lost"))
        .undo_keeping(
            UndoPolicy::default(),
            |_, (seat, row)| (*seat, row.to_lowercase()),
            async |(seat, row): &(u32, String), outcome: Undo<&String>| {
                LOG.with_borrow(|log| log.add(format_args!("{row}{seat} {outcome:?}")));
                Ok(())
            },
        );
        asi.error_step(Error::new("Later"));
    });
    for (seat, expected) in [(7, "Later g7 Done(\"G7\")"), (8, "Taken g8 Unknown")] {
        let (tool, mut flow) = (tool(), template.flow());
        LOG.set(log.clone());
        flow.pass((seat, "G".to_owned()));
        let promise = flow.promise::<(), _>(&tool);
        let error = tool.complete(promise).expect("it ends").expect_err("it fails");
        assert_eq!(format!("{} {}", error.code(), log.take()), expected);
    }
}
