//! How a host sees the steps of a flow, for traces and consoles.

use std::time::Duration;

use crate::error::Error;
use crate::location::StepLocation;
use crate::outcome::Undo;

/// Is called for the steps of one flow.
///
/// It is set once per flow ([`Flow::observe`](crate::Flow::observe)); a flow without an observer pays
/// a few checks per step. Steps are nested within a branch: each [`begin`](Self::begin) is followed
/// by an [`end`](Self::end) at the same [`depth`](StepRef::depth), and [`enter`](Self::enter) and
/// [`leave`](Self::leave) surround each callback of the step.
pub trait Observer {
    /// A step starts; its body is about to run.
    fn begin(&mut self, step: StepRef);
    /// The future of the step is about to be polled again.
    fn resume(&mut self, step: StepRef) {
        let _ = step;
    }
    /// A callback of the step is about to run: its body, an iteration, its future, its error or its
    /// cancel handler.
    fn enter(&mut self, step: StepRef);
    /// The callback returned; the step may go on waiting.
    fn leave(&mut self, step: StepRef);
    /// The step has ended.
    fn end(&mut self, step: StepRef, end: StepEnd<'_>);
    /// A cancel handler failed; the cancelling goes on.
    fn cancel_failed(&mut self, step: StepRef, error: &Error);
    /// Whether [`enter`](Self::enter) and [`leave`](Self::leave) are to be called; they are by default.
    /// It is asked once, when the observer is set.
    fn watches_callbacks(&self) -> bool {
        true
    }
}

/// Two observers of one flow; the first one is notified first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn begin(&mut self, step: StepRef) {
        self.0.begin(step);
        self.1.begin(step);
    }

    fn resume(&mut self, step: StepRef) {
        self.0.resume(step);
        self.1.resume(step);
    }

    fn enter(&mut self, step: StepRef) {
        self.0.enter(step);
        self.1.enter(step);
    }

    fn leave(&mut self, step: StepRef) {
        self.0.leave(step);
        self.1.leave(step);
    }

    fn end(&mut self, step: StepRef, end: StepEnd<'_>) {
        self.0.end(step, end);
        self.1.end(step, end);
    }

    fn cancel_failed(&mut self, step: StepRef, error: &Error) {
        self.0.cancel_failed(step, error);
        self.1.cancel_failed(step, error);
    }

    fn watches_callbacks(&self) -> bool {
        self.0.watches_callbacks() || self.1.watches_callbacks()
    }
}

/// A step of a flow while it is in progress.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StepRef {
    /// The parallel branch, 0 for the root; never used twice in a flow.
    pub branch: u32,
    /// The branch whose step started this branch; the same as `branch` for the root.
    pub parent: u32,
    /// How many steps of the same branch are around this one.
    pub depth: u32,
    /// The current attempt of this step, or of a step around it, from 1; see
    /// [`Retry`](crate::Retry).
    pub attempt: u32,
    /// Name and source location of the step.
    pub location: StepLocation,
    /// Another number than at the event before if a turn began since, or a callback ran: otherwise no
    /// time has passed, and an observer needs not read a clock again.
    pub moment: u32,
}

/// How a step ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum StepEnd<'a> {
    /// It completed.
    Success,
    /// It failed with this error, and its error handler recovered.
    Recovered(&'a Error),
    /// It failed with this error.
    Error(&'a Error),
    /// `break_loop` or `continue_loop` inside of it left it.
    Left,
    /// It was cancelled.
    Cancelled,
}

impl StepEnd<'_> {
    /// Whether the flow goes on after the step, or after the loop that was left.
    #[must_use]
    pub fn is_success(self) -> bool {
        matches!(self, Self::Success | Self::Recovered(_) | Self::Left)
    }
}

/// A step that was undone, for the log of the host; see
/// [`Execution::take_undone`](crate::Execution::take_undone) (FTN12 §1.2).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UndoneStep {
    /// Name and source location of the step.
    pub step: StepLocation,
    /// The outcome of its body.
    pub outcome: Undo<()>,
    /// The error that caused the undo; `None` if the flow was cancelled.
    pub why: Option<Error>,
    /// How long the undo took, with all its attempts.
    pub time: Duration,
}
