//! One turn of a flow, and its end: nothing that a flow does gets past here, panics included.

use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use asyncsteps_core::{Error, Execution, Flow, Outcome, Progress, Time, Undo, UndoneStep, codes};
use tracing::Span;
use tracing::span::Entered;

use super::guarded::{guarded, log_panic};
use super::{FlowEnd, FlowOwner, Stack, deadline};
use crate::clock;
use crate::stuck;
use crate::trace::{self, TraceParent};

/// The log's text for a panic of an owner that is asked about its flow.
const OWNER: &str = "the owner of a flow panicked when it was asked for deadline, trace and span";

/// Flows that steps or cancel handlers launched, and the span and trace that they did it in.
pub(super) struct Launched {
    pub(super) launcher: Span,
    pub(super) trace: Option<TraceParent>,
    pub(super) flows: Vec<Flow>,
}

/// Whether a flow has more to do.
pub(super) enum AfterTurn {
    Turn,
    Wait,
}

/// Runs one turn of a flow, unless the deadline of its owner has passed. Flows that its steps launched
/// are added to `launched`.
///
/// A panic outside of the callbacks, in a destructor for example, ends the flow and not the arbiter.
#[inline]
pub(super) fn turn(
    execution: &mut Execution,
    owner: &impl FlowOwner,
    waker: &Waker,
    launched: &mut Vec<Launched>,
) -> Result<AfterTurn, FlowEnd> {
    let now = clock::now();
    let about = || {
        let span = owner.span();
        (owner.deadline(), owner.trace(), span.and_then(Span::id), span.map(Span::enter))
    };
    let Some((limit, span, id, _entered)) = guarded(OWNER, about) else {
        return Err(broken(execution, launched, "the owner of the flow panicked"));
    };
    if limit.is_some_and(|limit| limit <= now) {
        return Err(FlowEnd::Expired(Stack::of(execution)));
    }
    let (_scope, _trace) = (deadline::enter(limit), trace::enter(span));
    let progress = stuck::turn(id, || catch_unwind(AssertUnwindSafe(|| execution.run(now, waker))));
    report(execution);
    take_launched(execution, launched);
    match progress {
        Ok(Progress::Ready) => Ok(AfterTurn::Turn),
        Ok(Progress::Waiting) => Ok(AfterTurn::Wait),
        Ok(Progress::Done(Outcome::Cancelled)) => Err(FlowEnd::Cancelled),
        Ok(Progress::Done(outcome)) => Err(FlowEnd::Done(outcome)),
        Err(payload) => {
            log_panic("a flow panicked outside of its callbacks", payload);
            Err(broken(execution, launched, "panic outside of the callbacks of the flow"))
        }
    }
}

/// Ends a flow that cannot go on; its effects are undone.
#[cold]
fn broken(execution: &mut Execution, launched: &mut Vec<Launched>, why: &'static str) -> FlowEnd {
    cancel(execution, launched);
    FlowEnd::Done(Outcome::Error(Error::with_info(codes::INTERNAL_ERROR, why)))
}

/// The deadline of an owner; none if it panics.
#[inline]
pub(super) fn deadline_of(owner: &impl FlowOwner) -> Option<Time> {
    guarded(OWNER, || owner.deadline()).flatten()
}

/// The trace of an owner; none if it panics.
#[inline]
fn trace_of(owner: &impl FlowOwner) -> Option<TraceParent> {
    guarded(OWNER, || owner.trace()).flatten()
}

#[inline]
fn enter_span(owner: &impl FlowOwner) -> Option<Entered<'_>> {
    owner.span().map(Span::enter)
}

/// Cancels the flow, unless it ended by itself. Flows that cancel handlers launched are added to
/// `launched`.
#[inline]
pub(super) fn settle(
    execution: &mut Execution,
    owner: &impl FlowOwner,
    end: &FlowEnd,
    launched: &mut Vec<Launched>,
) {
    if end.is_done() {
        return;
    }
    let _entered = guarded(OWNER, || enter_span(owner));
    let _scope = deadline::enter(deadline_of(owner));
    let _trace = trace::enter(trace_of(owner));
    cancel(execution, launched);
}

fn cancel(execution: &mut Execution, launched: &mut Vec<Launched>) {
    stuck::turn(Span::current().id(), || {
        guarded("a flow panicked when cancelled", || execution.cancel());
    });
    report(execution);
    take_launched(execution, launched);
}

/// Notifies the owner of a flow that it ended; returns the outcome for its handle, nothing if the
/// owner panics.
#[inline]
pub(super) fn tell(
    execution: &mut Execution,
    owner: &mut impl FlowOwner,
    end: FlowEnd,
) -> Option<Outcome> {
    let about = || (owner.span().cloned(), owner.deadline(), owner.trace());
    let (span, limit, trace) = guarded(OWNER, about).unwrap_or_default();
    let _entered = span.as_ref().map(Span::enter);
    let (_scope, _trace) = (deadline::enter(limit), trace::enter(trace));
    let ended = "the owner of a flow panicked when the flow ended";
    let told = guarded(ended, || owner.ended(execution, end));
    told.flatten()
}

#[inline]
fn take_launched(execution: &mut Execution, launched: &mut Vec<Launched>) {
    let flows = execution.take_launched();
    if !flows.is_empty() {
        let (launcher, trace) = (Span::current(), trace::current());
        launched.push(Launched { launcher, trace, flows });
    }
}

/// Logs what a flow did that is seen nowhere else: steps that were undone, and what callbacks did.
#[inline]
fn report(execution: &mut Execution) {
    let (undone, unseen) = (execution.take_undone(), execution.take_unreported_errors());
    if !(undone.is_empty() && unseen.is_empty()) {
        log(undone, &unseen);
    }
}

#[cold]
fn log(undone: Vec<UndoneStep>, unseen: &[Error]) {
    for UndoneStep { step, outcome, why, time, .. } in undone {
        let why = why.as_ref().map_or("cancelled", Error::code);
        tracing::info!(%step, outcome = outcome_text(outcome), why, ?time, "a step was undone");
    }
    unseen.iter().for_each(log_unseen);
}

/// Logs an error that nothing else shows.
pub(crate) fn log_unseen(error: &Error) {
    if let Some(undone) = error.failed_undo() {
        return log_failed_undo(error, undone);
    }
    let place = error.location().map(tracing::field::display);
    match error.panic_message() {
        Some(panic) => tracing::error!(panic, place, "a step panicked"),
        None => {
            let cause = error.source().map(tracing::field::display);
            tracing::error!(%error, cause, place, "a cancel handler failed");
        }
    }
}

/// Logs the error that has ended a flow whose result is not wanted.
pub(crate) fn log_end(error: &Error) {
    let place = error.location().map(tracing::field::display);
    let cause = error.source().map(tracing::field::display);
    tracing::error!(%error, cause, place, "a flow failed");
}

/// Logs an effect that has to be undone by hand.
#[cold]
fn log_failed_undo(error: &Error, undone: Undo<()>) {
    let (step, attempts) = (error.location().map(tracing::field::display), error.attempts());
    let cause = error.source().map(tracing::field::display);
    let panic = error.panic_message();
    let outcome = outcome_text(undone);
    tracing::error!(%error, cause, panic, step, outcome, attempts, "an undo failed");
}

/// The outcome of a step that is undone, as text.
fn outcome_text(outcome: Undo<()>) -> &'static str {
    match outcome {
        Undo::Done(()) => "done",
        Undo::Unknown => "unknown",
    }
}
