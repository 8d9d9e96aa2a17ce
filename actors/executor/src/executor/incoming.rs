//! What a transport passes to the executor.

use std::iter;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::carried;
use asyncsteps_actors::sync::{Call, FencingToken};
use asyncsteps_core::Time;
use asyncsteps_futoin::message::{Headers, Request};
use serde_json::Map;

use super::caller::Caller;
use super::client_limits::ClientPermit;
use super::events::EventReceiver;
use super::invoker::Invocation;
use super::key::IDEMPOTENCY_KEY;
use super::refused::Refused;
use super::reply::Reply;
use super::request::RequestInfo;
use super::request_parts::RequestParts;
use super::result_draft::ResultDraft;
use crate::channel::Channel;
use crate::observe::TraceParent;
use crate::raw::RawInput;
use crate::recorder::{OfRequest, RequestRecorder};
use crate::security::{Credentials, Refusal};

/// A request with all that a transport knows of it.
#[derive(derive_more::Debug)]
#[debug(
    "Incoming {{ channel: {:?}, size: {:?}, input: {:?}, .. }}",
    self.0.parts.channel, self.0.parts.size, self.0.parts.input
)]
pub struct Incoming(pub(super) Box<RequestInfo>);

impl Incoming {
    /// A call within the process.
    pub(super) fn of_invocation(invocation: Invocation) -> Self {
        let Invocation { function, params, caller, trace, fences, key, call, hosted, is_inside } =
            invocation;
        let mut incoming = Self::new(Request::to(function, params), Channel::local());
        incoming.0.parts.hosted = hosted;
        incoming.0.parts.is_inside = is_inside;
        incoming.0.parts.call = call;
        let incoming = incoming.with_caller(caller).with_fences(fences);
        incoming.with_key(key).with_trace(trace)
    }

    /// The same with the key of its caller, as a request over HTTP would have it.
    pub(super) fn with_key(self, key: Option<Arc<str>>) -> Self {
        match key {
            Some(key) => self.with_headers(Rc::new(KeyHeader(key))),
            None => self,
        }
    }

    /// A request that came over a channel.
    #[must_use]
    pub fn new(request: Request, channel: Channel) -> Self {
        // in the box in which its steps see it: it moves through many futures
        Self(Box::new(RequestInfo {
            parts: RequestParts {
                request,
                channel,
                size: 0,
                deadline: None,
                transport_memory: 0,
                caller: None,
                credentials: None,
                headers: None,
                input: None,
                events: None,
                client_permit: ClientPermit::default(),
                permit: None,
                call: None,
                trace: None,
                carried: None,
                fences: Vec::new(),
                hosted: None,
                is_inside: false,
                memory: None,
                #[cfg(feature = "test")]
                undoes_twice: false,
            },
            exchange: None,
            params: Map::new(),
            head: None,
            result: ResultDraft::default(),
            response: None,
            waits: None,
        }))
    }

    /// The same with the size of its message in bytes, which is checked against `maxreqsize`
    /// (FTN3 §1.10).
    #[must_use]
    pub fn with_size(mut self, size: usize) -> Self {
        self.0.parts.size = size;
        self
    }

    /// The same with the bytes that its transport keeps until it is answered, such as headers; they
    /// count in the [`Budget`](asyncsteps_actors::budget::Budget).
    #[must_use]
    pub fn with_transport_memory(mut self, transport_memory: usize) -> Self {
        self.0.parts.transport_memory = transport_memory;
        self
    }

    /// The same with credentials that did not come in the message, such as credentials from
    /// [`Credentials::from_header`]. A field `sec` in the message takes precedence.
    #[must_use]
    pub fn with_credentials(
        mut self,
        credentials: impl Into<Option<Result<Credentials, Refusal>>>,
    ) -> Self {
        self.0.parts.credentials = credentials.into();
        self
    }

    /// The same for a caller that watches it and has the events up to this number, with what its function
    /// [emits](crate::Cx::emit). Who asks for the reply takes them.
    #[must_use]
    pub fn watched(mut self, after: u64) -> (Self, EventReceiver) {
        let (sender, events) = EventReceiver::after(after);
        self.0.parts.events = Some(Box::new(sender));
        (self, events)
    }

    /// The same with the time of this arbiter until which its caller waits: the request ends then, unless its own
    /// time limit is shorter.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Time) -> Self {
        self.0.parts.deadline = Some(deadline);
        self
    }

    /// The same on behalf of a caller that the transport knows, without credentials. Credentials of the
    /// request go before it. With the level System its field `obf` may name another user (FTN3 §1.11).
    #[must_use]
    pub fn with_caller(mut self, caller: Caller) -> Self {
        self.0.parts.caller = Some(caller);
        self
    }

    /// The same with what its host [remembers](crate::recorder) of it, and the random id from which the idempotency keys
    /// of its steps are made: the same whenever the request is carried out again. It has no time limit except the
    /// limits of its steps.
    #[must_use]
    pub fn with_memory(mut self, id: Arc<str>, recorder: Rc<dyn RequestRecorder>) -> Self {
        self.0.parts.memory = Some(OfRequest { id, recorder });
        self
    }

    /// The same with the wait of the flow that makes it, for the deadlock detection.
    #[must_use]
    pub fn with_call(mut self, call: Option<Arc<Call>>) -> Self {
        self.0.parts.call = call;
        self
    }

    /// The same made by a request in flight of the same executor: it is carried out also while the executor closes, so
    /// that the requests in flight can end.
    #[must_use]
    pub fn inside(mut self) -> Self {
        self.0.parts.is_inside = true;
        self
    }

    /// The same made by this span.
    #[must_use]
    pub fn with_trace(mut self, trace: Option<TraceParent>) -> Self {
        self.0.parts.trace = trace;
        self
    }

    /// The same with the trace, and what it carries, of [a record](carried::to_record).
    #[must_use]
    pub fn with_recorded_trace(mut self, recorded: Option<&str>) -> Self {
        let parts = &mut self.0.parts;
        (parts.trace, parts.carried) = recorded.map(carried::from_record).unwrap_or_default();
        self
    }

    /// The same with the tokens of the locks that its caller holds: for channels between nodes that trust
    /// each other, because a token that is too high keeps the holders of its lock from writing.
    #[must_use]
    pub fn with_fences(mut self, fences: Vec<FencingToken>) -> Self {
        self.0.parts.fences = fences;
        self
    }

    /// The same with the headers of its HTTP request, or of the one that its connection began with.
    #[must_use]
    pub fn with_headers(mut self, headers: Rc<dyn Headers>) -> Self {
        self.0.parts.headers = Some(headers);
        self
    }

    /// The same with raw data, for a function that is declared with `rawupload`.
    #[must_use]
    pub fn with_input(mut self, input: impl Into<Option<RawInput>>) -> Self {
        self.0.parts.input = input.into();
        self
    }

    /// The same with the permit of its client's limits, which is held until the request has ended.
    #[must_use]
    pub fn with_client_permit(mut self, client_permit: ClientPermit) -> Self {
        self.0.parts.client_permit = client_permit;
        self
    }

    /// The reply to this request when it is refused and not dispatched, for example because
    /// [`Executor::admit`](super::Executor::admit) refused it.
    #[must_use]
    pub fn refused(&self, refused: &Refused) -> Reply {
        let request = &self.0.parts.request;
        Reply::refused(refused, request.rid(), request.coding())
    }
}

/// The key of a call as a header.
struct KeyHeader(Arc<str>);

impl Headers for KeyHeader {
    fn header(&self, name: &str) -> Option<&str> {
        (name == IDEMPOTENCY_KEY).then_some(&self.0)
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(iter::once((IDEMPOTENCY_KEY, &*self.0)))
    }
}
