//! Messages of an entity to itself: calls that are carried out once, later, wherever it is then.

use std::fmt;
use std::time::Duration;

use asyncsteps_core::{Error, codes};
use asyncsteps_journal::Uid;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json;
use crate::submit::{NotSubmitted, error_of_submit};

/// How many messages a call may send.
pub const MESSAGES: usize = 100;

/// How many messages of an entity may wait: their names are loaded with it.
pub(super) const WAITING: usize = 1000;

/// A message of an entity to itself: see [`EntityState::send`](super::EntityState::send).
#[derive(Clone, Debug)]
#[must_use = "it is sent with `EntityState::send`"]
pub struct Message {
    pub(super) function: String,
    pub(super) params: Map<String, Value>,
    pub(super) after: Duration,
}

impl Message {
    /// A call of this function of the same interface, such as `expire`, with these parameters beside the key of the
    /// entity; at once unless there is a time.
    ///
    /// # Errors
    /// InvokerError if the parameters are no map.
    pub fn new(function: &str, params: impl Serialize) -> Result<Self, Error> {
        let wrong = |error: asyncsteps_journal::ValueError| {
            Error::with_info(codes::INVOKER_ERROR, format!("a message to {function}: {error}"))
        };
        let params = json::params(&params).map_err(wrong)?;
        Ok(Self { function: function.to_owned(), params, after: Duration::ZERO })
    }

    /// The same after this time.
    pub fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }
}

/// The name of a message that was sent, to be kept in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(pub(super) Uid);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What a call sends, and takes back.
#[derive(Debug, Default)]
pub(super) struct Mail {
    sent: Vec<(MessageId, Message)>,
    pub(super) withdrawn: Vec<MessageId>,
}

impl Mail {
    pub(super) fn send(&mut self, message: Message) -> Result<MessageId, Error> {
        if self.sent.len() >= MESSAGES {
            let info = format!("a call sends {MESSAGES} messages at the most");
            return Err(Error::with_info(codes::INTERNAL_ERROR, info));
        }
        let id = Uid::random().map_err(|error| error_of_submit(&NotSubmitted::NoRandom(error)))?;
        self.sent.push((MessageId(id), message));
        Ok(MessageId(id))
    }

    pub(super) fn withdraw(&mut self, message: MessageId) {
        let before = self.sent.len();
        self.sent.retain(|(id, _)| *id != message);
        if self.sent.len() == before {
            self.withdrawn.push(message);
        }
    }

    pub(super) fn messages(&self) -> &[(MessageId, Message)] {
        &self.sent
    }

    /// The names of what is sent.
    pub(super) fn sent(&self) -> impl Iterator<Item = MessageId> + '_ {
        self.sent.iter().map(|(id, _)| *id)
    }
}
