//! A request as it came, before its function is known.

use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::budget::Permit;
use asyncsteps_actors::carried::Carried;
use asyncsteps_actors::sync::{Call, FencingToken};
use asyncsteps_core::Time;
use asyncsteps_futoin::message::{Headers, Request};

use super::caller::Caller;
use super::client_limits::ClientPermit;
use super::events::EventSender;
use super::received_parts::ReceivedParts;
use super::registry::HostedFunction;
use crate::channel::Channel;
use crate::observe::TraceParent;
use crate::raw::RawInput;
use crate::recorder::OfRequest;
use crate::security::{Credentials, Refusal};

/// The parts of an incoming request.
pub(super) struct RequestParts {
    pub(super) request: Request,
    pub(super) channel: Channel,
    pub(super) size: usize,
    /// Until when its caller waits, if that is known.
    pub(super) deadline: Option<Time>,
    pub(super) transport_memory: usize,
    /// The caller, unless there are credentials.
    pub(super) caller: Option<Caller>,
    pub(super) credentials: Option<Result<Credentials, Refusal>>,
    pub(super) headers: Option<Rc<dyn Headers>>,
    pub(super) input: Option<RawInput>,
    /// Where its events go, if its caller watches.
    pub(super) events: Option<Box<EventSender>>,
    pub(super) client_permit: ClientPermit,
    /// Its permit of the budget, if it needed one before its parameters were known.
    pub(super) permit: Option<Permit>,
    /// The call of a flow that holds up others while it waits, for the deadlock detection.
    pub(super) call: Option<Arc<Call>>,
    /// The span that makes the call, in this process.
    pub(super) trace: Option<TraceParent>,
    /// What its trace carries, if that was recorded.
    pub(super) carried: Option<Arc<Carried>>,
    /// The tokens of the locks that its caller holds.
    pub(super) fences: Vec<FencingToken>,
    /// Its function, if that was looked up.
    pub(super) hosted: Option<Arc<HostedFunction>>,
    /// A request in flight of the executor makes it.
    pub(super) is_inside: bool,
    /// The recorder of its host.
    pub(super) memory: Option<OfRequest>,
    /// A test has each of its undos run twice.
    #[cfg(feature = "test")]
    pub(super) undoes_twice: bool,
}

impl RequestParts {
    /// What steps see of it later, which is taken out.
    pub(super) fn received(&mut self) -> ReceivedParts {
        ReceivedParts::new(self.headers.take(), self.input.take(), self.events.take())
    }
}
