//! Messages of an entity to itself: calls that are carried out once, later, wherever it is then.
//!
//! A message is a request in the journal of its own, which any node carries out when its time has come. It is stored
//! before the changes of the call that sends it, so it is not lost; and the entity keeps the names of messages that it has
//! sent with its state, so one of a call that was not stored is not carried out, and none is carried out twice.

use std::fmt;
use std::time::Duration;

use asyncsteps_core::{Error, codes};
use asyncsteps_journal::record::Started;
use asyncsteps_journal::request::{FirstOwner, Submit};
use asyncsteps_journal::{Journal, Uid};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::kind::{EntityKind, EntityName};
use crate::answered::answered;
use crate::json;
use crate::submit::{NotSubmitted, error_of_submit};

/// How many messages a call may send.
pub const MESSAGES: usize = 100;

/// How many messages of an entity may wait: their names are loaded with it.
pub(super) const WAITING: usize = 1000;

/// The version of the requests that carry messages.
pub(crate) const MESSAGE_VERSION: u32 = 1;

/// A message of an entity to itself: see [`EntityState::send`](super::EntityState::send).
#[derive(Clone, Debug)]
#[must_use = "it is sent with `EntityState::send`"]
pub struct Message {
    function: String,
    params: Map<String, Value>,
    after: Duration,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub(super) Uid);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for MessageId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
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

    /// The names of what is sent.
    pub(super) fn sent(&self) -> impl Iterator<Item = MessageId> + '_ {
        self.sent.iter().map(|(id, _)| *id)
    }

    /// Stores the messages, each of which is carried out if the entity says then that it has sent it.
    pub(super) async fn store(
        &self,
        journal: &dyn Journal,
        (kind, name): (&EntityKind, &EntityName),
    ) -> Result<(), Error> {
        for (id, Message { function, params, after }) in &self.sent {
            let params = kind.addressed(name, params.clone());
            let parameters = json::encode_params(&params);
            let started = Started {
                template: kind.template(function),
                version: MESSAGE_VERSION,
                parameters: parameters.map_err(|error| error_of_submit(&error.into()))?,
                user: None,
                deadline: None,
                trace: asyncsteps_actors::trace::current().map(|trace| trace.to_string()),
                schedule: None,
            };
            let owner = match after.is_zero() {
                true => FirstOwner::Any,
                false => FirstOwner::AnyAfter(*after),
            };
            let submit = Submit { uid: id.0, started, key: None, owner, quota: None };
            let stored = answered(|| journal.submit(submit.clone())).await;
            stored.map_err(|error| error_of_submit(&error.into()))?;
        }
        Ok(())
    }
}
