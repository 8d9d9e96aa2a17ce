//! What a transport gives to the executor.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::caller::Caller;
use super::gate::Pass;
use crate::channel::Channel;
use crate::raw::RawInput;
use crate::security::{Credentials, Denied};
use asyncsteps_actors::budget::Permit;
use asyncsteps_actors::sync::Call;
use asyncsteps_futoin::message::{Headers, Request};

/// A request with all that a transport knows of it.
pub struct Incoming {
    pub(super) request: Request,
    pub(super) channel: Channel,
    pub(super) size: usize,
    pub(super) held: usize,
    /// Who calls unless there are credentials.
    pub(super) caller: Option<Caller>,
    pub(super) credentials: Option<Result<Credentials, Denied>>,
    pub(super) headers: Option<Rc<dyn Headers>>,
    pub(super) input: Option<RawInput>,
    pub(super) pass: Pass,
    /// Its place in the budget, if it needed one before its parameters were known.
    pub(super) permit: Option<Permit>,
    /// The call of a flow that holds up others while it waits.
    pub(super) call: Option<Arc<Call>>,
}

impl Incoming {
    /// A request that came over a channel.
    #[must_use]
    pub fn new(request: Request, channel: Channel) -> Self {
        Self {
            request,
            channel,
            size: 0,
            held: 0,
            caller: None,
            credentials: None,
            headers: None,
            input: None,
            pass: Pass::default(),
            permit: None,
            call: None,
        }
    }

    /// The same with the size of its message in bytes, which is checked against `maxreqsize`
    /// (FTN3 §1.10).
    #[must_use]
    pub fn with_size(self, size: usize) -> Self {
        Self { size, ..self }
    }

    /// The same with how many bytes its transport keeps until it is answered, such as headers; they
    /// count in the [`Budget`](asyncsteps_actors::budget::Budget).
    #[must_use]
    pub fn with_held(self, held: usize) -> Self {
        Self { held, ..self }
    }

    /// The same with credentials that did not come in the message, such as those of
    /// [`Credentials::from_header`]. A field `sec` in the message goes before them.
    #[must_use]
    pub fn with_credentials(
        self,
        credentials: impl Into<Option<Result<Credentials, Denied>>>,
    ) -> Self {
        Self { credentials: credentials.into(), ..self }
    }

    pub(super) fn with_caller(self, caller: Caller) -> Self {
        Self { caller: Some(caller), ..self }
    }

    pub(super) fn with_call(self, call: Option<Arc<Call>>) -> Self {
        Self { call, ..self }
    }

    /// The same with the headers of its HTTP request, or of the one that its connection began with.
    #[must_use]
    pub fn with_headers(self, headers: Rc<dyn Headers>) -> Self {
        Self { headers: Some(headers), ..self }
    }

    /// The same with raw data, for a function that is declared with `rawupload`.
    #[must_use]
    pub fn with_input(self, input: impl Into<Option<RawInput>>) -> Self {
        Self { input: input.into(), ..self }
    }

    /// The same with the pass that it came in by: the place in the limits is taken until the request
    /// is answered.
    #[must_use]
    pub fn with_pass(self, pass: Pass) -> Self {
        Self { pass, ..self }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("channel", &self.channel)
            .field("size", &self.size)
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}
