//! Spans through `tracing`: one per request, one per step below it.
//!
//! Whether the steps of a flow are traced is decided once, when it starts: by the filter for the
//! target `asyncsteps::step` at level DEBUG.

use asyncsteps::{Error, Observer, StepEnd, StepRef};
use tracing::span::EnteredSpan;
use tracing::{Level, Span, field};

use crate::channel::Channel;
use crate::iface::FunctionName;
use crate::message::Rid;

const REQUEST: &str = "asyncsteps::request";
const STEP: &str = "asyncsteps::step";
const LAUNCHED: &str = "asyncsteps::launched";

/// The span of a request; `outcome` is recorded when it is answered.
pub(crate) fn request_span(function: &FunctionName, rid: Option<&Rid>) -> Span {
    tracing::info_span!(
        target: REQUEST,
        "request",
        f = function.as_str(),
        rid = rid.map(Rid::to_string).as_deref(),
        outcome = field::Empty,
    )
}

/// The span of flows that the flow of `launcher` launched: it follows from that one, and does not keep
/// it open.
pub(crate) fn launched_span(launcher: &Span) -> Span {
    let span = tracing::info_span!(target: LAUNCHED, parent: None, "launched");
    span.follows_from(launcher);
    span
}

/// Tells of a request that was refused before its flow began.
pub(crate) fn refused(
    f: &str,
    rid: Option<&Rid>,
    channel: &Channel,
    code: &str,
    text: Option<&str>,
) {
    let rid = rid.map(Rid::to_string);
    let peer = channel.peer().map(|peer| peer.ip());
    tracing::info!(
        target: REQUEST,
        f,
        rid = rid.as_deref(),
        peer = peer.map(field::display),
        outcome = code,
        text,
        "request refused",
    );
}

/// Whether somebody wants to see steps.
pub(crate) fn steps_enabled() -> bool {
    tracing::enabled!(target: STEP, Level::DEBUG)
}

/// Opens a span for each step, below that of the step around it.
pub(crate) struct SpanObserver {
    root: Span,
    /// The spans of the steps in progress; within a branch the outer ones come first.
    open: Vec<OpenStep>,
    entered: Vec<EnteredSpan>,
}

struct OpenStep {
    branch: u32,
    depth: u32,
    span: Span,
}

impl SpanObserver {
    pub(crate) fn new(root: Span) -> Self {
        Self { root, open: Vec::new(), entered: Vec::new() }
    }

    fn find(&self, step: StepRef) -> Option<usize> {
        self.open.iter().rposition(|open| open.branch == step.branch && open.depth == step.depth)
    }

    /// The innermost open step around `step`, in its branch or in the branch that started it.
    fn parent(&self, step: StepRef) -> &Span {
        let innermost = |branch| self.open.iter().rev().find(move |open| open.branch == branch);
        let around = innermost(step.branch).or_else(|| innermost(step.parent));
        around.map_or(&self.root, |open| &open.span)
    }
}

impl Observer for SpanObserver {
    fn begin(&mut self, step: StepRef) {
        let span = tracing::debug_span!(
            target: STEP,
            parent: self.parent(step),
            "step",
            name = step.place.name(),
            place = %format_args!("{}:{}", step.place.file(), step.place.line()),
            depth = step.depth,
            branch = step.branch,
            outcome = field::Empty,
        );
        self.open.push(OpenStep { branch: step.branch, depth: step.depth, span });
    }

    fn enter(&mut self, step: StepRef) {
        let span = self.find(step).map_or_else(Span::none, |at| self.open[at].span.clone());
        self.entered.push(span.entered());
    }

    fn leave(&mut self, _: StepRef) {
        self.entered.pop();
    }

    fn end(&mut self, step: StepRef, end: StepEnd<'_>) {
        let Some(at) = self.find(step) else { return };
        let OpenStep { span, .. } = self.open.remove(at);
        match end {
            StepEnd::Success => span.record("outcome", "success"),
            StepEnd::Error(error) => span.record("outcome", error.code()),
            StepEnd::Cancelled | _ => span.record("outcome", "cancelled"),
        };
    }

    fn cancel_failed(&mut self, step: StepRef, error: &Error) {
        tracing::warn!(parent: &self.root, place = %step.place, %error, "a cancel handler failed");
    }
}
