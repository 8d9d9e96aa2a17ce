//! A node's interface to a server of NATS: async-nats implements it, and so does a simulated network.

use std::fmt::Debug;
use std::sync::Arc;

pub use async_nats::message::OutboundMessage;
pub use async_nats::{Message, StatusCode, Subject};
use futures_util::Stream;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};

/// The queue group of a subscription that a node has for itself, so that each message comes once while it goes from one
/// server to another. A connection that takes the place of a lost one adds to the name: a server of the cluster may know
/// the lost one for minutes, and would send it every second message.
pub const OWN_GROUP: &str = "own.";

/// The connection of a node to a server of NATS. It connects again by itself when it is lost, and its subscriptions go
/// on then.
pub trait Connection: Debug + Send + Sync {
    /// Sends a message, as soon as there is room for it. Messages of one task are sent in order.
    fn publish(&self, message: OutboundMessage) -> BoxFuture<'_, Result<(), NotSent>>;

    /// Subscribes to a subject, which may have wildcards; in a queue group, one of its members gets each message. See
    /// [`OWN_GROUP`].
    fn subscribe(
        self: Arc<Self>,
        subject: String,
        queue_group: Option<String>,
    ) -> BoxFuture<'static, Result<Box<dyn Subscription>, NotSent>>;

    /// Sends pending messages, and ends the connection and its subscriptions.
    fn drain(&self) -> BoxFuture<'_, ()>;

    /// Ends a connection whose server is silent, and connects again, to another server if there is one: it is lost until
    /// then. Returns at once.
    fn renew(&self);

    /// What the server does not permit, as a sentence.
    fn denial(&self) -> Option<String> {
        None
    }

    /// The subjects of messages that the server did not permit, from the first one on; `None` if they are taken elsewhere,
    /// or if all messages are permitted.
    fn refused(&self) -> Option<mpsc::UnboundedReceiver<String>> {
        None
    }

    /// Whether the server can be reached now, as far as is known.
    fn is_connected(&self) -> bool;

    /// How often the connection was lost, and whether it is there again.
    fn losses(&self) -> watch::Receiver<Losses>;

    /// The largest message that the server takes, in bytes with its headers.
    fn max_payload(&self) -> usize;
}

/// The messages of a subscription, which ends when the connection is [drained](Connection::drain). Dropping it ends it
/// too.
pub trait Subscription: Stream<Item = Message> + Send + Unpin {
    /// Ends the subscription: after this number of messages since it was made, or after the messages in flight.
    ///
    /// An error says that the connection has ended.
    fn unsubscribe(&mut self, after: Option<u64>) -> BoxFuture<'_, Result<(), NotSent>>;
}

/// How often a connection was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "other connections make it")]
pub struct Losses {
    /// How often.
    pub count: u64,
    /// It is there again after the last loss.
    pub is_over: bool,
}

impl Losses {
    /// The connection is lost.
    pub const fn lose(&mut self) {
        self.count += 1;
        self.is_over = false;
    }

    /// The connection is there again.
    pub const fn end(&mut self) {
        self.is_over = self.count > 0;
    }
}

/// Why a connection does not take a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "nothing else happens to a message before it is sent")]
pub enum NotSent {
    /// It is larger than the server takes.
    #[error("the message is too large")]
    TooLarge,
    /// The connection has ended.
    #[error("{0}")]
    Ended(String),
}
