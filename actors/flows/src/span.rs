//! Spans of flows and steps through `tracing`.
//!
//! | target | level | span |
//! |---|---|---|
//! | `asyncsteps::flow` | DEBUG | a flow that [`start_flow`](crate::flow::start_flow) or a pool starts |
//! | `asyncsteps::launched` | INFO | a flow that a step launched |
//! | `asyncsteps::step` | DEBUG | a step, below the span of the step around it |
//!
//! Whether the steps of a flow are traced is decided once, when it starts: by the filter of the
//! subscriber, and, if the flow belongs to a [trace](crate::trace), by whether that is sampled.

use asyncsteps_core::{Error, Flow, Observer, StepEnd, StepRef};
use tracing::span::EnteredSpan;
use tracing::{Level, Span, field};

use crate::trace::{TraceDigits, TraceParent};

const FLOW: &str = "asyncsteps::flow";
const STEP: &str = "asyncsteps::step";
const LAUNCHED: &str = "asyncsteps::launched";

/// The span of flows that the flow of `launcher` launched: it follows from that one, and does not keep
/// it open.
pub(crate) fn launched_span(launcher: &Span, trace: Option<TraceParent>) -> Span {
    let trace = trace.map(TraceParent::trace_digits);
    let trace = trace.as_ref().map(TraceDigits::as_str);
    let span = tracing::info_span!(target: LAUNCHED, parent: None, "launched", trace);
    span.follows_from(launcher);
    span
}

/// The span of a flow that serves no request.
pub(crate) struct FlowSpan {
    span: Span,
    /// It is not the span that the flow was started in.
    is_own: bool,
}

impl FlowSpan {
    /// The span of a flow of this trace that starts now: its own, if a subscriber wants it, or the current one.
    #[inline]
    pub(crate) fn start(current: Option<TraceParent>) -> Self {
        if is_left_out(current) || !tracing::enabled!(target: FLOW, Level::DEBUG) {
            return Self { span: Span::current(), is_own: false };
        }
        let trace = current.map(TraceParent::trace_digits);
        let trace = trace.as_ref().map(TraceDigits::as_str);
        let span = tracing::debug_span!(target: FLOW, "flow", trace, outcome = field::Empty);
        Self { span, is_own: true }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.span.is_none()
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// The flow ended like this.
    pub(crate) fn ended(&self, outcome: &str) {
        if self.is_own {
            self.span.record("outcome", outcome);
        }
    }
}

/// Opens a span for each step of a flow that starts, if a subscriber wants the target `asyncsteps::step` at level
/// DEBUG, unless it is observed already; `about` returns its trace and its span.
#[inline]
pub(crate) fn trace_started(
    flow: &mut Flow,
    about: impl FnOnce() -> (Option<TraceParent>, Option<Span>),
) {
    if tracing::enabled!(target: STEP, Level::DEBUG) {
        let (trace, root) = about();
        observe_started(flow, trace, &root.unwrap_or_else(Span::none));
    }
}

#[cold]
fn observe_started(flow: &mut Flow, trace: Option<TraceParent>, root: &Span) {
    if let Some(spans) = SpanObserver::wanted(root, trace)
        && !flow.is_observed()
    {
        flow.observe(spans);
    }
}

/// Whether the steps of a trace are left out because it is not sampled.
#[inline]
fn is_left_out(trace: Option<TraceParent>) -> bool {
    trace.is_some_and(|trace| !trace.is_sampled())
}

/// Opens a span for each step, below the span of the step around it.
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
    /// Spans below `root`, if the trace is sampled or there is none, and a subscriber wants them.
    #[inline]
    pub(crate) fn wanted(root: &Span, trace: Option<TraceParent>) -> Option<Self> {
        let is_wanted = !is_left_out(trace) && tracing::enabled!(target: STEP, Level::DEBUG);
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
            error = field::Empty,
            info = field::Empty,
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
            StepEnd::Recovered(error) => {
                span.record("outcome", "recovered").record("error", error.code());
                span.record("info", error.info())
            }
            StepEnd::Left => span.record("outcome", "left"),
            StepEnd::Error(error) => {
                span.record("outcome", error.code()).record("info", error.info())
            }
            StepEnd::Cancelled | _ => span.record("outcome", "cancelled"),
        };
    }

    fn cancel_failed(&mut self, step: StepRef, error: &Error) {
        tracing::warn!(parent: &self.root, place = %step.location, %error, "a cancel handler failed");
    }
}
