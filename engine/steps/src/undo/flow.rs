//! A flow that runs undos, one after the other.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::args::{Arg, Args};
use crate::error::Error;
use crate::location::StepLocation;
use crate::observe::UndoneStep;
use crate::outcome::Undo;
use crate::plan::{AttemptPolicies, PlannedBody, Policies, RetryPolicy};
use crate::probe::StepProbe;
use crate::stack::{
    AsyncSteps, Locks, NextUndo, QueuedStep, UndoItem, UndoOfStep, UndoWork, UndoWorker, Undone,
};

/// A flow that runs undos as this worker takes them, for the step at this location that failed or was
/// cancelled. It has the probe of the flow of the step.
pub(crate) fn undo_flow(
    worker: UndoWorker<UndoOfStep>,
    location: StepLocation,
    probe: Option<Rc<dyn StepProbe>>,
) -> AsyncSteps {
    let (mut asi, worker) = (AsyncSteps::root(), Rc::new(worker));
    asi.policy_state().undoes = Some(Rc::clone(&worker));
    asi.cold().probe = probe;
    let next = move |asi: &mut AsyncSteps, ()| {
        match worker.start_next() {
            NextUndo::Start(UndoItem::Undo(undone, step)) => begin(asi, undone, step),
            NextUndo::Start(UndoItem::Release(locks)) => release(asi, locks),
            NextUndo::Start(UndoItem::Tell(waiting)) => {
                // the step may have been ended from outside meanwhile
                let _ = waiting.success(());
            }
            NextUndo::Wait => worker.wait(asi.wait_external()),
            NextUndo::Over => return asi.break_loop(None),
        }
        Ok(())
    };
    let undo = QueuedStep::looping_over(location.named("undo"), std::iter::repeat(()), next);
    asi.queue(undo);
    asi
}

/// Undoes a step, as it turns out to be necessary when its body has ended, if that is shielded.
fn begin(asi: &mut AsyncSteps, undone: Undone, UndoOfStep { step, branch }: UndoOfStep) {
    if let Some(body) = step.running() {
        let location = undone.location;
        asi.queue(QueuedStep::body(StepLocation::new(location.source(), None), move |asi, _| {
            asi.poll(Box::pin(poll_fn(move |cx| body.poll_end(cx).map(|()| Ok(Args::none())))));
            Ok(())
        }));
    }
    asi.add(move |asi, ()| {
        if let Some((is_done, work)) = step.into_inner().into_work(branch) {
            add(asi, Undone { is_done, ..undone }, work);
        }
    });
}

/// Adds the step that undoes another one. The host is notified how that ended; if the undo fails
/// for good, the others go on.
fn add(asi: &mut AsyncSteps, undone: Undone, work: UndoWork) {
    let UndoWork { body, timeout, retry } = work;
    let Undone { location, is_done, why } = undone;
    let tries = retry.map(RetryPolicy::new::<()>);
    let policies = Policies {
        tries,
        one: AttemptPolicies { timeout: Some(timeout), ..AttemptPolicies::default() },
        ..Policies::default()
    };
    let step = QueuedStep::body(location, move |asi, args| {
        policies.start(PlannedBody::Again(body), asi, args, None)
    });
    let handler = move |asi: &mut AsyncSteps, error: &Error| {
        let unseen = &mut asi.cold().unseen;
        if error.panic_message().is_some() {
            // it is there already, without this fact
            unseen.retain(|other| !other.is_same(error));
        }
        unseen.push(error.clone().of_undo(is_done));
        asi.success(Unreported)
    };
    asi.queue(step.with_handler(Some(Box::new(handler))));
    let began = asi.now();
    // no second step of the name: records and traces show the undo once
    let nameless = StepLocation::new(location.source(), None);
    asi.queue(QueuedStep::body(nameless, move |asi, end| {
        if !end.is_empty() {
            return Ok(());
        }
        let time = asi.now().saturating_since(began);
        let outcome = if is_done { Undo::Done(()) } else { Undo::Unknown };
        asi.cold().undone.push(UndoneStep { step: location, outcome, why, time });
        Ok(())
    }));
}

/// The result of an undo that has undone nothing: it failed, or did not run.
pub(super) struct Unreported;

impl Arg for Unreported {}

/// Drops the locks of a cancelled step. A destructor that panics stops nothing.
fn release(asi: &mut AsyncSteps, locks: Locks) {
    for lock in locks {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(lock))) {
            let error = Error::panicked(payload, asi.location());
            asi.cold().unseen.push(error);
        }
    }
}
