//! What a transport passes to the executor.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::budget::Permit;
use asyncsteps_actors::sync::{Call, FencingToken};
use asyncsteps_futoin::message::{Headers, Request};

use super::caller::Caller;
use super::client_limits::ClientPermit;
use super::invoker::Invocation;
use crate::channel::Channel;
use crate::observe::TraceParent;
use crate::raw::RawInput;
use crate::recorder::RequestRecorder;
use crate::security::{Credentials, Refusal};

/// A request with all that a transport knows of it.
#[derive(derive_more::Debug)]
#[debug(
    "Incoming {{ channel: {:?}, size: {:?}, input: {:?}, .. }}",
    self.0.channel, self.0.size, self.0.input
)]
pub struct Incoming(pub(super) Box<RequestParts>);

/// The parts of an incoming request. It is in a box, because it moves through many futures.
pub(super) struct RequestParts {
    pub(super) request: Request,
    pub(super) channel: Channel,
    pub(super) size: usize,
    /// How long its caller waits, if that is known.
    pub(super) time_left: Option<Duration>,
    pub(super) transport_memory: usize,
    /// The caller, unless there are credentials.
    pub(super) caller: Option<Caller>,
    pub(super) credentials: Option<Result<Credentials, Refusal>>,
    pub(super) headers: Option<Rc<dyn Headers>>,
    pub(super) input: Option<RawInput>,
    pub(super) client_permit: ClientPermit,
    /// Its permit of the budget, if it needed one before its parameters were known.
    pub(super) permit: Option<Permit>,
    /// The call of a flow that holds up others while it waits, for the deadlock detection.
    pub(super) call: Option<Arc<Call>>,
    /// The span that makes the call, in this process.
    pub(super) trace: Option<TraceParent>,
    /// The tokens of the locks that its caller holds.
    pub(super) fences: Vec<FencingToken>,
    /// The recorder of its host.
    pub(super) memory: Option<Rc<dyn RequestRecorder>>,
    /// A test has each of its undos run twice.
    #[cfg(feature = "test")]
    pub(super) undoes_twice: bool,
}

impl Incoming {
    /// A call within the process.
    pub(super) fn of_invocation(invocation: Invocation, call: Option<Arc<Call>>) -> Self {
        let Invocation { function, params, caller, trace, fences } = invocation;
        let incoming = Self::new(Request::to(function, params), Channel::local());
        incoming.with_caller(caller).with_fences(fences).with_call(call).with_trace(trace)
    }

    /// A request that came over a channel.
    #[must_use]
    pub fn new(request: Request, channel: Channel) -> Self {
        Self(Box::new(RequestParts {
            request,
            channel,
            size: 0,
            time_left: None,
            transport_memory: 0,
            caller: None,
            credentials: None,
            headers: None,
            input: None,
            client_permit: ClientPermit::default(),
            permit: None,
            call: None,
            trace: None,
            fences: Vec::new(),
            memory: None,
            #[cfg(feature = "test")]
            undoes_twice: false,
        }))
    }

    /// The same with the size of its message in bytes, which is checked against `maxreqsize`
    /// (FTN3 §1.10).
    #[must_use]
    pub fn with_size(mut self, size: usize) -> Self {
        self.0.size = size;
        self
    }

    /// The same with the bytes that its transport keeps until it is answered, such as headers; they
    /// count in the [`Budget`](asyncsteps_actors::budget::Budget).
    #[must_use]
    pub fn with_transport_memory(mut self, transport_memory: usize) -> Self {
        self.0.transport_memory = transport_memory;
        self
    }

    /// The same with credentials that did not come in the message, such as credentials from
    /// [`Credentials::from_header`]. A field `sec` in the message takes precedence.
    #[must_use]
    pub fn with_credentials(
        mut self,
        credentials: impl Into<Option<Result<Credentials, Refusal>>>,
    ) -> Self {
        self.0.credentials = credentials.into();
        self
    }

    /// The same with the time that its caller still waits: the request ends with it, unless its own
    /// time limit is shorter.
    #[must_use]
    pub fn with_time_left(mut self, time_left: Duration) -> Self {
        self.0.time_left = Some(time_left);
        self
    }

    /// The same on behalf of a caller that the transport knows, without credentials. Credentials of the
    /// request go before it. With the level System its field `obf` may name another user (FTN3 §1.11).
    #[must_use]
    pub fn with_caller(mut self, caller: Caller) -> Self {
        self.0.caller = Some(caller);
        self
    }

    /// The same with what its host [remembers](crate::recorder) of it. It has no time limit except the
    /// limits of its steps.
    #[must_use]
    pub fn with_memory(mut self, memory: Rc<dyn RequestRecorder>) -> Self {
        self.0.memory = Some(memory);
        self
    }

    pub(super) fn with_call(mut self, call: Option<Arc<Call>>) -> Self {
        self.0.call = call;
        self
    }

    /// The same made by this span.
    #[must_use]
    pub fn with_trace(mut self, trace: Option<TraceParent>) -> Self {
        self.0.trace = trace;
        self
    }

    /// The same with the tokens of the locks that its caller holds: for channels between nodes that trust
    /// each other, because a token that is too high keeps the holders of its lock from writing.
    #[must_use]
    pub fn with_fences(mut self, fences: Vec<FencingToken>) -> Self {
        self.0.fences = fences;
        self
    }

    /// The same with the headers of its HTTP request, or of the one that its connection began with.
    #[must_use]
    pub fn with_headers(mut self, headers: Rc<dyn Headers>) -> Self {
        self.0.headers = Some(headers);
        self
    }

    /// The same with raw data, for a function that is declared with `rawupload`.
    #[must_use]
    pub fn with_input(mut self, input: impl Into<Option<RawInput>>) -> Self {
        self.0.input = input.into();
        self
    }

    /// The same with the permit of its client's limits, which is held until the request has ended.
    #[must_use]
    pub fn with_client_permit(mut self, client_permit: ClientPermit) -> Self {
        self.0.client_permit = client_permit;
        self
    }
}
