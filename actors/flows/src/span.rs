//! Spans of steps and of launched flows through `tracing`.
//!
//! Whether the steps of a flow are traced is decided once, when it starts: by the filter for the
//! target `asyncsteps::step` at level DEBUG.

use asyncsteps::{Error, Flow, Observer, StepEnd, StepRef};
use tracing::span::EnteredSpan;
use tracing::{Level, Span, field};

const STEP: &str = "asyncsteps::step";
const LAUNCHED: &str = "asyncsteps::launched";

/// The span of flows that the flow of `launcher` launched: it follows from that one, and does not keep
/// it open.
pub(crate) fn launched_span(launcher: &Span) -> Span {
    let span = tracing::info_span!(target: LAUNCHED, parent: None, "launched");
    span.follows_from(launcher);
    span
}

/// Opens a span below `root` for each step of `flow`, if a subscriber wants the target
/// `asyncsteps::step` at level DEBUG. This is decided now, before the flow starts.
pub fn trace_steps(flow: &mut Flow, root: &Span) {
    if let Some(spans) = SpanObserver::wanted(root) {
        flow.observe(spans);
    }
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
    /// Spans below `root`, if a subscriber wants them.
    pub(crate) fn wanted(root: &Span) -> Option<Self> {
        let is_wanted = tracing::enabled!(target: STEP, Level::DEBUG);
        is_wanted.then(|| Self { root: root.clone(), open: Vec::new(), entered: Vec::new() })
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
            name = step.location.name(),
            place = %format_args!("{}:{}", step.location.file(), step.location.line()),
            depth = step.depth,
            branch = step.branch,
            attempt = (step.attempt > 1).then_some(step.attempt),
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
        tracing::warn!(parent: &self.root, place = %step.location, %error, "a cancel handler failed");
    }
}
