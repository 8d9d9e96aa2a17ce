//! The connection of a node, and what its parts share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Event, HeaderMap};
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use super::calls::Calls;
use super::config::Config;
use super::subjects::Subjects;
use crate::node::NodeId;

/// How long missed probes do not count after a reconnect: callers reconnect too.
const AFTER_RECONNECT: Duration = Duration::from_secs(2);

/// The connection of a node.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) config: Config,
    pub(super) node: NodeId,
    pub(super) subjects: Subjects,
    pub(super) state: Arc<LinkState>,
}

/// What changes when the connection does.
#[derive(Debug)]
pub(super) struct LinkState {
    pub(super) calls: Calls,
    /// The connection was lost since it was made.
    was_lost: AtomicBool,
    /// It ended for good.
    is_closed: AtomicBool,
    reconnected: Mutex<Option<Instant>>,
    /// The node was told to drain.
    drain: watch::Sender<bool>,
}

impl Link {
    /// Whether messages can be sent now.
    pub(super) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected && !self.state.is_closed()
    }

    /// Sends a message when there is room, if the connection is there; what is lost is answered by time
    /// limits.
    pub(super) async fn publish(
        &self,
        subject: impl async_nats::subject::ToSubject,
        payload: Bytes,
    ) {
        if let Err(error) = self.client.publish(subject, payload).await {
            tracing::warn!(%error, "a message was not sent");
        }
    }

    /// The same with headers.
    pub(super) async fn publish_with_headers(
        &self,
        subject: impl async_nats::subject::ToSubject,
        headers: HeaderMap,
        payload: Bytes,
    ) {
        if let Err(error) = self.client.publish_with_headers(subject, headers, payload).await {
            tracing::warn!(%error, "a message was not sent");
        }
    }
}

impl LinkState {
    pub(super) fn new(calls: Calls) -> Self {
        let no = || AtomicBool::new(false);
        let drain = watch::Sender::new(false);
        Self { calls, was_lost: no(), is_closed: no(), reconnected: Mutex::default(), drain }
    }

    /// Tells the application to drain; false if it does not wait for that.
    pub(super) fn order_drain(&self) -> bool {
        self.drain.send(true).is_ok()
    }

    /// Waits until the node is told to drain.
    pub(super) fn drain_ordered(&self) -> impl Future<Output = ()> + use<> {
        let mut drain = self.drain.subscribe();
        async move {
            if drain.wait_for(|is_ordered| *is_ordered).await.is_err() {
                // the connection is gone, and no order comes
                std::future::pending::<()>().await;
            }
        }
    }

    /// The connection changed.
    pub(super) fn changed(&self, event: &Event) {
        match event {
            Event::Disconnected => {
                self.was_lost.store(true, Ordering::Relaxed);
                self.calls.lose_all();
            }
            Event::Closed => self.close(),
            Event::Connected => {
                if self.was_lost() {
                    *self.reconnected() = Some(Instant::now());
                }
            }
            Event::SlowConsumer(_) => {
                tracing::error!(
                    "a message was dropped: the node does not keep up with its connection"
                );
            }
            Event::ServerError(error) => tracing::warn!(%error, "the NATS server reports an error"),
            Event::ClientError(error) => tracing::warn!(%error, "the connection reports an error"),
            Event::LameDuckMode | Event::Draining => {}
        }
    }

    /// The connection has ended for good, and no answers come.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.calls.lose_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Whether the connection was lost since it was made.
    pub(super) fn was_lost(&self) -> bool {
        self.was_lost.load(Ordering::Relaxed)
    }

    /// Whether callers have had the time to reconnect.
    pub(super) fn is_settled(&self) -> bool {
        self.reconnected().is_none_or(|at| at.elapsed() >= AFTER_RECONNECT)
    }

    fn reconnected(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.reconnected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
