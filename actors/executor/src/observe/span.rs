//! Spans of requests through `tracing`.

use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_actors::trace::TraceParent;
use asyncsteps_core::Time;
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::message::Rid;
use tracing::level_filters::LevelFilter;
use tracing::{Span, field};

use crate::channel::Channel;

const REQUEST: &str = "asyncsteps::request";

/// The span of a request that is admitted now. `waited` is the time since it arrived: for the check of its
/// credentials, for its budget and for the limits of its user. `outcome` is recorded when it is answered, and
/// `steps` if it is kept.
pub(crate) fn request_span(
    function: &FunctionName,
    rid: Option<&Rid>,
    trace: TraceParent,
    arrived: Time,
) -> Span {
    // the macro formats the fields also where no subscriber wants the span
    if LevelFilter::current() < LevelFilter::INFO {
        return Span::none();
    }
    tracing::info_span!(
        target: REQUEST,
        "request",
        f = function.as_str(),
        rid = rid.map(Rid::to_string).as_deref(),
        trace = trace.trace_digits().as_str(),
        waited = field::debug(clock::now().saturating_since(arrived)),
        outcome = field::Empty,
        steps = field::Empty,
    )
}

/// Logs a request that was refused before its flow began, after it had waited for so long.
pub(crate) fn refused(
    f: &str,
    rid: Option<&Rid>,
    trace: TraceParent,
    waited: Duration,
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
        waited = field::debug(waited),
        peer = peer.map(field::display),
        outcome = code,
        text,
        "request refused",
    );
}
