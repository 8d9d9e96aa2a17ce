//! How the reply to a request has to look, whatever it says.

use std::sync::Arc;

use asyncsteps_actors::carried::{self, Carried, Held};
use asyncsteps_core::codes;
use asyncsteps_futoin::message::{Coding, Response, Rid};

use super::caller::Caller;
use super::guarded::guarded;
use super::handle::Shared;
use super::registry::HostedFunction;
use super::reply::Reply;
use super::request_parts::RequestParts;
use crate::channel::Channel;
use crate::observe::{RequestTrace, Sampling, TraceParent};

/// The context of a reply, from its request.
pub(super) struct ReplyContext {
    pub(super) shared: Arc<Shared>,
    pub(super) channel: Channel,
    pub(super) rid: Option<Rid>,
    pub(super) trace: RequestTrace,
    /// What its trace carries to what it calls.
    _carried: Option<Held>,
    /// Anonymous until the caller is known.
    pub(super) caller: Caller,
    /// The function, once it is found.
    pub(super) function: Option<Arc<HostedFunction>>,
    coding: Coding,
    /// `forcersp` (FTN3 §1.5): the caller waits for a reply even if there is no result.
    forced: bool,
}

/// The place of a request in its trace: below the step that makes it, or below the span that its headers
/// name. The headers of a WebSocket belong to the request that opened it, and so do its messages.
fn trace_of(incoming: &RequestParts, sampling: Sampling) -> RequestTrace {
    if let Some(span) = incoming.trace {
        return RequestTrace::below(span);
    }
    let header = incoming.headers.as_ref().and_then(|it| it.header(TraceParent::HEADER));
    RequestTrace::of_caller(header.and_then(|header| header.parse().ok()), sampling)
}

/// What the trace of a request carries: as its caller in this process, as it was recorded, or by its headers.
fn carried_of(incoming: &RequestParts, trace: &RequestTrace) -> Option<Arc<Carried>> {
    if let Some(recorded) = &incoming.carried {
        return Some(Arc::clone(recorded));
    }
    if let Some(span) = incoming.trace {
        return carried::of(span);
    }
    let headers = incoming.headers.as_deref()?;
    let all = |name, is_wanted: bool| match is_wanted && headers.has_header(name) {
        true => {
            let values = headers.headers().filter(|(other, _)| *other == name);
            values.map(|(_, value)| value).collect::<Vec<_>>().join(",")
        }
        false => String::new(),
    };
    // a state without its trace means nothing
    let (state, baggage) = (all("tracestate", trace.is_callers), all("baggage", true));
    Carried::new(&state, &baggage)
}

impl ReplyContext {
    pub(super) fn new(shared: &Arc<Shared>, incoming: &RequestParts) -> Self {
        let RequestParts { request, channel, .. } = incoming;
        let trace = trace_of(incoming, shared.config.sampling);
        let carried = carried_of(incoming, &trace);
        Self {
            shared: Arc::clone(shared),
            channel: channel.clone(),
            rid: request.rid().cloned(),
            _carried: carried.map(|carried| carried::hold(trace.span, carried)),
            trace,
            caller: Caller::default(),
            function: None,
            coding: request.coding(),
            forced: request.forcersp(),
        }
    }

    /// Whether the caller waits for the success of a function without a result (FTN3 §1.5).
    pub(super) fn is_forced(&self) -> bool {
        self.forced
    }

    /// The response with the id of the request, and with a signature if the request had one;
    /// an InternalError if the signer panics.
    pub(super) fn complete(
        &self,
        response: Response,
        function: Option<&HostedFunction>,
    ) -> Response {
        let response = response.with_rid(self.rid.as_ref());
        let Some(signer) = self.caller.signer() else { return response };
        let declared = function.map(HostedFunction::declared);
        let fields = response.signed_fields(self.coding, declared);
        match guarded("a signer panicked", || signer.sign(&fields)) {
            Some(sec) => response.with_sec(sec.into()),
            None => Response::error(codes::INTERNAL_ERROR, None).with_rid(self.rid.as_ref()),
        }
    }

    /// How many bytes the complete response takes.
    pub(super) fn size_of(&self, response: Response, function: &HostedFunction) -> usize {
        let mut bytes = Vec::new();
        let response = self.complete(response, Some(function));
        response.write(self.coding, Some(function.declared()), &mut bytes);
        bytes.len()
    }

    /// The reply with a complete response.
    pub(super) fn reply(&self, response: Response, function: Option<Arc<HostedFunction>>) -> Reply {
        Reply::message(response, self.coding, function)
    }
}
