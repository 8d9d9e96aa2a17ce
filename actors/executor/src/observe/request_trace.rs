//! The place of a request in its trace.

use asyncsteps_actors::trace::TraceParent;

use super::sampling::Sampling;

/// The span of a request in its trace, and the one that it is below.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestTrace {
    pub(crate) span: TraceParent,
    pub(crate) parent: Option<TraceParent>,
    /// A caller outside of the process has named the trace.
    pub(crate) is_callers: bool,
}

impl RequestTrace {
    /// A request of a caller outside of the process, who may have named a span.
    pub(crate) fn of_caller(caller: Option<TraceParent>, sampling: Sampling) -> Self {
        Self { span: sampling.span(caller), parent: caller, is_callers: caller.is_some() }
    }

    /// A request that is made for a span of this process.
    pub(crate) fn below(span: TraceParent) -> Self {
        Self { span: span.child(), parent: Some(span), is_callers: false }
    }
}
