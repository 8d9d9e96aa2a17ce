//! Spans of requests through `tracing`.

use asyncsteps_actors::trace::TraceParent;
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::message::Rid;
use tracing::{Span, field};

use crate::channel::Channel;

const REQUEST: &str = "asyncsteps::request";

/// The span of a request; `outcome` is recorded when it is answered, and `steps` if it is kept.
pub(crate) fn request_span(function: &FunctionName, rid: Option<&Rid>, trace: TraceParent) -> Span {
    tracing::info_span!(
        target: REQUEST,
        "request",
        f = function.as_str(),
        rid = rid.map(Rid::to_string).as_deref(),
        trace = trace.trace_digits().as_str(),
        outcome = field::Empty,
        steps = field::Empty,
    )
}

/// Logs a request that was refused before its flow began.
pub(crate) fn refused(
    f: &str,
    rid: Option<&Rid>,
    trace: TraceParent,
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
        trace = trace.trace_digits().as_str(),
        peer = peer.map(field::display),
        outcome = code,
        text,
        "request refused",
    );
}
