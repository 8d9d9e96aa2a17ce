//! The state that the parts of a node share: its connection, its names, and the calls that it has
//! made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::message::OutboundMessage;
use async_nats::{HeaderMap, Subject};
use asyncsteps_actors::random;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::calls::NatsCalls;
use super::config::Config;
use super::connection::{Connection, NotSent, Subscription};
use super::pulse::Pulse;
use super::subjects::Subjects;
use crate::node::NodeId;

/// How long missed probes do not count after a reconnect: callers reconnect too.
const AFTER_RECONNECT: Duration = Duration::from_secs(2);

/// The end of a node, to which its connection leads.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Arc<dyn Connection>,
    pub(super) config: Config,
    pub(super) node: NodeId,
    /// Distinguishes the node from another one of its name.
    pub(super) id: String,
    /// Another node has the name.
    pub(super) has_twin: AtomicBool,
    pub(super) subjects: Subjects,
    pub(super) calls: NatsCalls,
    pub(super) pulse: Pulse,
    /// The node has left.
    is_closed: AtomicBool,
    pub(super) reconnected: Mutex<Option<Instant>>,
    /// The node was ordered to drain.
    drain: watch::Sender<bool>,
}

impl Link {
    pub(super) fn new(connection: Arc<dyn Connection>, config: Config, node: NodeId) -> Self {
        // each node has an inbox of its own: one that was restarted gets no old answers
        let calls = NatsCalls::new(&random::id(), config.max_calls);
        let subjects = Subjects::new(&config.prefix);
        Self {
            connection,
            config,
            node,
            id: random::id(),
            has_twin: AtomicBool::new(false),
            subjects,
            calls,
            pulse: Pulse::new(),
            is_closed: AtomicBool::new(false),
            reconnected: Mutex::default(),
            drain: watch::Sender::new(false),
        }
    }

    /// Ends the connection for good; no answers come.
    pub(super) async fn leave(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.calls.lose_all();
        self.connection.drain().await;
    }

    /// Whether messages can be sent now.
    pub(super) fn is_connected(&self) -> bool {
        !self.is_closed() && self.connection.is_connected()
    }

    /// Sends a message when there is room, if the connection is there; calls of lost messages end by
    /// their time limits.
    pub(super) async fn publish(&self, subject: Subject, payload: Bytes) {
        self.publish_with_headers(subject, None, payload).await;
    }

    /// The same with headers.
    pub(super) async fn publish_with_headers(
        &self,
        subject: Subject,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) {
        let message = OutboundMessage { subject, reply: None, payload, headers };
        if let Err(error) = self.connection.publish(message).await {
            tracing::warn!(%error, "a message was not sent");
        }
    }

    /// Subscribes to a subject, in a queue group if there is one.
    pub(super) async fn subscribe(
        &self,
        subject: String,
        queue_group: Option<String>,
    ) -> Result<Box<dyn Subscription>, NotSent> {
        Arc::clone(&self.connection).subscribe(subject, queue_group).await
    }

    /// Orders the application to drain; false if it does not wait for that.
    pub(super) fn order_drain(&self) -> bool {
        self.drain.send(true).is_ok()
    }

    /// Waits until the node is ordered to drain.
    pub(super) fn drain_ordered(&self) -> impl Future<Output = ()> + use<> {
        let mut drain = self.drain.subscribe();
        async move {
            if drain.wait_for(|is_ordered| *is_ordered).await.is_err() {
                // the connection is gone, and no order comes
                std::future::pending::<()>().await;
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// How often the connection was lost since it was made.
    pub(super) fn losses(&self) -> u64 {
        self.connection.losses().borrow().count
    }

    /// Whether callers have had the time to reconnect.
    pub(super) fn is_settled(&self) -> bool {
        self.reconnected.lock().is_none_or(|at| at.elapsed() >= AFTER_RECONNECT)
    }
}
