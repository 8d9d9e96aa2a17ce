//! The replies of an executor.

use std::cell::Cell;
use std::sync::Arc;

use asyncsteps_core::codes;
use asyncsteps_futoin::message::{Coding, RefusedMessage, Response, Rid};

use super::refused::{RefusalReason, Refused};
use super::registry::HostedFunction;
use crate::raw::{Head, RawBody};

/// Room of more bytes is not kept for the next message.
const LARGE: usize = 16 << 10;

thread_local! {
    /// Where messages are written.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Keeps the room of a message for the next one, unless it is large.
fn keep(mut bytes: Vec<u8>) {
    if bytes.capacity() <= LARGE {
        bytes.clear();
        ROOM.set(bytes);
    }
}

/// The reply to a request, for a transport to send.
#[derive(Debug)]
pub struct Reply {
    head: Option<Box<Head>>,
    body: ReplyBody,
}

/// The body of a [`Reply`].
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a transport must know what to send")]
pub enum ReplyBody {
    /// A message.
    Message(Message),
    /// The function has no result and the caller did not ask for one.
    Nothing,
    /// Raw data.
    Raw(RawBody),
}

/// A reply that is a message; it is written by [`into_bytes`](Self::into_bytes).
#[derive(derive_more::Debug)]
pub struct Message {
    response: Response,
    coding: Coding,
    /// The function that replies, if it is known.
    #[debug(skip)]
    function: Option<Arc<HostedFunction>>,
    #[debug(skip)]
    refused: Option<RefusalReason>,
}

impl Reply {
    pub(super) fn new(body: ReplyBody, head: Option<Box<Head>>) -> Self {
        Self { head, body }
    }

    pub(super) fn message(
        response: Response,
        coding: Coding,
        function: Option<Arc<HostedFunction>>,
    ) -> Self {
        let message = Message { response, coding, function, refused: None };
        Self::new(ReplyBody::Message(message), None)
    }

    pub(super) fn with_head(self, head: Option<Box<Head>>) -> Self {
        Self { head, ..self }
    }

    /// The reply to a request that a transport refuses before it is dispatched, such as with what
    /// [`Executor::admit`](super::Executor::admit) says.
    #[must_use]
    pub fn refused(refused: &Refused, rid: Option<&Rid>, coding: Coding) -> Self {
        Self::new(ReplyBody::Message(Message::refused(refused, rid, coding)), None)
    }

    /// The same with what a transport has to know of a refusal.
    pub(super) fn with_refused(mut self, refused: &Refused) -> Self {
        if let ReplyBody::Message(message) = &mut self.body {
            message.refused = Some(refused.reason());
        }
        self
    }

    /// The status and headers that the function set for HTTP, if any, and the body.
    #[must_use]
    pub fn into_parts(self) -> (Option<Box<Head>>, ReplyBody) {
        (self.head, self.body)
    }

    /// The code of its error, if it is one.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match &self.body {
            ReplyBody::Message(message) => message.response.code(),
            ReplyBody::Nothing | ReplyBody::Raw(_) => None,
        }
    }

    pub(super) fn into_body(self) -> ReplyBody {
        self.body
    }

    /// The message as bytes, for transports without raw data; `None` for no message. Raw data is
    /// dropped, which cancels its flow.
    #[must_use]
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self.body {
            ReplyBody::Message(message) => Some(message.into_bytes()),
            ReplyBody::Nothing | ReplyBody::Raw(_) => None,
        }
    }

    /// The same for transports that copy the bytes, or send them at once.
    pub fn with_bytes<R>(self, send: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match self.body {
            ReplyBody::Message(message) => Some(message.with_bytes(send)),
            ReplyBody::Nothing | ReplyBody::Raw(_) => None,
        }
    }
}

impl Message {
    pub(super) fn refused(refused: &Refused, rid: Option<&Rid>, coding: Coding) -> Self {
        let response = refused.to_response().with_rid(rid);
        Self { response, coding, function: None, refused: Some(refused.reason()) }
    }

    /// The coding of the bytes: the coding of the request.
    #[must_use]
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// The message itself.
    #[must_use]
    pub fn response(&self) -> &Response {
        &self.response
    }

    /// Why it refuses a request that was read; `None` also if the function has answered.
    #[must_use]
    pub fn refusal_reason(&self) -> Option<RefusalReason> {
        self.refused
    }

    pub(super) fn into_response(self) -> Response {
        self.response
    }

    /// The message as bytes; an InternalError if it would be larger than its function may answer
    /// (FTN3 §1.10).
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.written();
        if bytes.len() > LARGE {
            // it may wait for its client
            bytes.shrink_to_fit();
            return bytes;
        }
        // without room behind them, which would cost a transport another allocation
        let exact = bytes.to_vec();
        keep(bytes);
        exact
    }

    fn with_bytes<R>(self, send: impl FnOnce(&[u8]) -> R) -> R {
        let bytes = self.written();
        let sent = send(&bytes);
        keep(bytes);
        sent
    }

    /// The message in the room that its arbiter keeps.
    fn written(self) -> Vec<u8> {
        let mut bytes = ROOM.take();
        self.write(&mut bytes);
        bytes
    }

    fn write(self, bytes: &mut Vec<u8>) {
        let Self { response, coding, function, .. } = self;
        let function = function.as_ref().map(|function| function.declared());
        response.write(coding, function, bytes);
        if function.is_some_and(|function| bytes.len() > function.max_response_size()) {
            bytes.clear();
            let text = "Response size has exceeded the limit";
            let too_large = Response::error(codes::INTERNAL_ERROR, Some(text));
            too_large.with_rid(response.rid()).write(coding, None, bytes);
        }
    }
}

impl From<RefusedMessage> for Reply {
    fn from(refusal: RefusedMessage) -> Self {
        let coding = refusal.coding();
        Self::message(refusal.into_response(), coding, None)
    }
}
