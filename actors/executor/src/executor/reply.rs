//! What a request is answered with.

use std::fmt;
use std::sync::Arc;

use asyncsteps::codes;

use super::registry::Target;
use crate::raw::{Head, RawBody};
use asyncsteps_futoin::message::{Coding, Refusal, Response};

/// The answer to a request, for a transport to send.
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

/// A message to be written.
pub struct Message {
    response: Response,
    coding: Coding,
    /// What is answered, if it is known.
    target: Option<Arc<Target>>,
}

impl Reply {
    pub(super) fn new(body: ReplyBody, head: Option<Box<Head>>) -> Self {
        Self { head, body }
    }

    pub(super) fn message(response: Response, coding: Coding, target: Option<Arc<Target>>) -> Self {
        Self::new(ReplyBody::Message(Message { response, coding, target }), None)
    }

    pub(super) fn with_head(self, head: Option<Box<Head>>) -> Self {
        Self { head, ..self }
    }

    /// What goes with the body over HTTP, if anything was said, and the body.
    #[must_use]
    pub fn into_parts(self) -> (Option<Box<Head>>, ReplyBody) {
        (self.head, self.body)
    }

    /// The message as bytes, for transports that know no other answer; `None` for no message. Raw
    /// data is dropped, which cancels its flow.
    #[must_use]
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self.body {
            ReplyBody::Message(message) => Some(message.into_bytes()),
            ReplyBody::Nothing | ReplyBody::Raw(_) => None,
        }
    }
}

impl Message {
    /// The coding of the bytes: that of the request.
    #[must_use]
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// The message itself.
    #[must_use]
    pub fn response(&self) -> &Response {
        &self.response
    }

    pub(super) fn into_response(self) -> Response {
        self.response
    }

    /// The message as bytes; an InternalError if it would be larger than its function may answer
    /// (FTN3 §1.10).
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        let Self { response, coding, target } = self;
        let function = target.as_ref().map(|target| target.function());
        let mut bytes = Vec::with_capacity(128);
        response.write(coding, function, &mut bytes);
        if function.is_some_and(|function| bytes.len() > function.max_response_size()) {
            bytes.clear();
            let text = "Response size has exceeded the limit";
            let too_large = Response::error(codes::INTERNAL_ERROR, Some(text));
            too_large.with_rid(response.rid()).write(coding, None, &mut bytes);
        }
        bytes
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("response", &self.response)
            .field("coding", &self.coding)
            .finish_non_exhaustive()
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        let coding = refusal.coding();
        Self::message(refusal.into_response(), coding, None)
    }
}
