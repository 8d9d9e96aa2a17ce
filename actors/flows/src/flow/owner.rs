//! The owners of flows: they start a flow and are notified of its end.

use std::any::Any;
use std::time::Duration;

use asyncsteps_core::{Error, Execution, Outcome, Time, codes};
use tracing::Span;

use super::{FlowRef, Stack, deadline};
use crate::clock;
use crate::record::Recording;
use crate::span::FlowSpan;
use crate::trace::{self, TraceParent};

/// The owner of a flow: it limits the flow in time and is notified how it ended.
///
/// A pointer is best: with an owner of eight bytes, the task of a flow takes 128 bytes instead of 256.
///
/// [`start_flow`](super::start_flow) brings an owner of its own, which keeps the outcome for the
/// handle. A server that answers requests implements one and starts its flows with
/// [`host_flow`](super::host_flow).
pub trait FlowOwner: Unpin + 'static {
    /// When the flow is to be cancelled. It is asked before each turn, so that it may change.
    fn deadline(&self) -> Option<Time> {
        None
    }

    /// The span that the flow runs in.
    fn span(&self) -> Option<&Span> {
        None
    }

    /// The span of a distributed trace that the flow works for: flows that it starts belong to it.
    fn trace(&self) -> Option<TraceParent> {
        None
    }

    /// The recording of the steps of the flow and of its undos.
    fn recording(&self) -> Option<&Recording> {
        None
    }

    /// A flow starts that is a [part](asyncsteps_core::Flow::is_part) of this one: an undo, or the body of a shielded
    /// step. It may outlive this one, has no deadline, and runs in the same span. What this returns is kept until the
    /// part has ended: a permit, for example.
    fn part_started(&mut self, part: &FlowRef) -> Option<Box<dyn Any>> {
        let _ = part;
        None
    }

    /// The flow ended; called once, on the arbiter of the flow, within its span. The result is what
    /// the handle of the flow gets, `None` if it has none.
    fn ended(&mut self, execution: &mut Execution, end: FlowEnd) -> Option<Outcome>;
}

/// How a hosted flow ended.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "an owner answers for each way to end")]
pub enum FlowEnd {
    /// By itself, with a result or an error.
    Done(Outcome),
    /// The deadline of its owner passed; where the flow was then.
    Expired(Stack),
    /// It was cancelled, or its arbiter ended.
    Cancelled,
}

impl FlowEnd {
    /// Whether the flow ended by itself.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// One word for it: `success`, `cancelled`, or the code of the error.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Done(Outcome::Success(_)) => "success",
            Self::Done(Outcome::Error(error)) => error.code(),
            Self::Expired(_) => codes::TIMEOUT,
            Self::Done(Outcome::Cancelled) | Self::Cancelled => "cancelled",
        }
    }

    /// The end as a flow has it: a deadline that passed is a `Timeout`, which is logged with the
    /// stack.
    #[must_use]
    #[inline]
    pub fn into_outcome(self) -> Outcome {
        match self {
            Self::Done(outcome) => outcome,
            Self::Expired(stack) => {
                tracing::warn!(stack = stack.one_line(), "the deadline of a flow passed");
                let error = Error::with_info(codes::TIMEOUT, "the deadline of the flow passed");
                Outcome::Error(error)
            }
            Self::Cancelled => Outcome::Cancelled,
        }
    }
}

/// The owner of a flow that has a handle: the handle gets the outcome.
pub(super) struct KeepsOutcome(Option<Box<Inherited>>);

struct Inherited {
    deadline: Option<Time>,
    span: FlowSpan,
    trace: Option<TraceParent>,
}

impl KeepsOutcome {
    /// The owner of a flow that starts now: it inherits deadline and trace, and its span is below the
    /// current one.
    #[inline]
    pub(super) fn inherit(limit: Option<Duration>) -> Self {
        let deadline = deadline::earliest(limit.map(|limit| clock::now() + limit));
        let trace = trace::current();
        let span = FlowSpan::start(trace);
        let needed = deadline.is_some() || !span.is_none() || trace.is_some();
        Self(needed.then(|| Box::new(Inherited { deadline, span, trace })))
    }
}

impl FlowOwner for KeepsOutcome {
    fn deadline(&self) -> Option<Time> {
        self.0.as_ref()?.deadline
    }

    fn span(&self) -> Option<&Span> {
        self.0.as_ref().map(|inherited| inherited.span.span()).filter(|span| !span.is_none())
    }

    fn trace(&self) -> Option<TraceParent> {
        self.0.as_ref()?.trace
    }

    fn ended(&mut self, _: &mut Execution, end: FlowEnd) -> Option<Outcome> {
        if let Some(inherited) = &self.0 {
            inherited.span.ended(end.as_str());
        }
        Some(end.into_outcome())
    }
}

/// The owner of a flow without a handle: its outcome goes nowhere.
pub(super) struct Unattended(Option<Box<Attached>>);

struct Attached {
    span: Span,
    trace: Option<TraceParent>,
    /// The value that the flow keeps until it has ended.
    kept: Option<Box<dyn Any>>,
}

impl Unattended {
    /// The owner of a flow that runs in this span and trace, and keeps a value until it has ended.
    pub(super) fn new(span: Span, trace: Option<TraceParent>, kept: Option<Box<dyn Any>>) -> Self {
        let needed = !span.is_none() || trace.is_some() || kept.is_some();
        Self(needed.then(|| Box::new(Attached { span, trace, kept })))
    }
}

impl FlowOwner for Unattended {
    fn span(&self) -> Option<&Span> {
        self.0.as_ref().map(|attached| &attached.span).filter(|span| !span.is_none())
    }

    fn trace(&self) -> Option<TraceParent> {
        self.0.as_ref()?.trace
    }

    fn ended(&mut self, _: &mut Execution, _: FlowEnd) -> Option<Outcome> {
        if let Some(attached) = &mut self.0 {
            drop(attached.kept.take());
        }
        None
    }
}
