//! What goes with a call of an entity that comes from this process.

use std::any::Any;
use std::cell::Cell;

use asyncsteps_core::{AsyncSteps, Error};
use asyncsteps_executor::message::Headers;
use asyncsteps_executor::{IDEMPOTENCY_KEY, RequestSteps};

use super::mail::MessageId;

/// A message that a call carries out.
#[derive(Clone, Copy, Debug)]
pub(super) struct CarriedMessage {
    pub(super) id: MessageId,
    /// It was cancelled, and only ends.
    pub(super) is_cancelled: bool,
}

/// What goes with a call of an entity that comes from another arbiter of this process, or is a message.
#[derive(Debug)]
pub(super) struct CallHeaders {
    /// The key of its caller.
    key: Option<String>,
    /// The message that it carries out.
    pub(super) message: Option<CarriedMessage>,
    /// How that ended; `None` if it is to be tried again.
    pub(super) end: Cell<Option<MessageEnd>>,
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageEnd {
    /// Its call has ended.
    CarriedOut,
    /// The call that would have sent it has not ended well, or it was taken back, or was carried out before.
    NotSent,
}

impl CallHeaders {
    pub(super) fn new(key: Option<String>, message: Option<CarriedMessage>) -> Self {
        Self { key, message, end: Cell::new(None) }
    }
}

/// Notes how the message ended that a request carries out, if it does.
pub(super) fn message_ends(asi: &AsyncSteps, end: Option<MessageEnd>) -> Result<(), Error> {
    if let Some(headers) = asi.request()?.transport::<CallHeaders>() {
        headers.end.set(end);
    }
    Ok(())
}

impl Headers for CallHeaders {
    fn header(&self, name: &str) -> Option<&str> {
        self.key.as_deref().filter(|_| name == IDEMPOTENCY_KEY)
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(self.key.iter().map(|key| (IDEMPOTENCY_KEY, key.as_str())))
    }

    fn transport(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
