//! The connection of a node, and what its parts share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// The client of now: one whose task has ended is replaced.
    client: watch::Sender<Arc<Client>>,
    pub(super) config: Config,
    pub(super) node: NodeId,
    pub(super) subjects: Subjects,
    pub(super) state: Arc<LinkState>,
}

/// What changes when the connection does.
#[derive(Debug)]
pub(super) struct LinkState {
    pub(super) calls: Calls,
    /// How often the connection was lost since it was made.
    losses: AtomicU64,
    /// Its client has ended, and another one takes its place.
    has_ended: AtomicBool,
    /// The node has left.
    is_closed: AtomicBool,
    reconnected: Mutex<Option<Instant>>,
    /// The node was told to drain.
    drain: watch::Sender<bool>,
}

impl Link {
    pub(super) fn new(
        client: Client,
        config: Config,
        node: NodeId,
        subjects: Subjects,
        state: Arc<LinkState>,
    ) -> Self {
        Self { client: watch::Sender::new(Arc::new(client)), config, node, subjects, state }
    }

    pub(super) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.borrow())
    }

    /// The client of now, and each one that takes its place.
    pub(super) fn clients(&self) -> watch::Receiver<Arc<Client>> {
        self.client.subscribe()
    }

    /// Puts a client in the place of one that has ended.
    pub(super) fn replace_client(&self, client: Client) {
        self.client.send_replace(Arc::new(client));
        self.state.has_ended.store(false, Ordering::Relaxed);
    }

    /// Ends the connection for good; no answers come.
    pub(super) async fn leave(&self) {
        self.state.is_closed.store(true, Ordering::Relaxed);
        self.state.calls.lose_all();
        // tells what waits for another client
        self.client.send_modify(|_| ());
        // a client that has ended needs no drain
        let _ = self.client().drain().await;
    }

    /// Whether messages can be sent now.
    pub(super) fn is_connected(&self) -> bool {
        let LinkState { is_closed, has_ended, .. } = &*self.state;
        let is_there = !is_closed.load(Ordering::Relaxed) && !has_ended.load(Ordering::Relaxed);
        is_there && self.client.borrow().connection_state() == State::Connected
    }

    /// Sends a message when there is room, if the connection is there; what is lost is answered by time
    /// limits.
    pub(super) async fn publish(
        &self,
        subject: impl async_nats::subject::ToSubject,
        payload: Bytes,
    ) {
        if let Err(error) = self.client().publish(subject, payload).await {
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
        if let Err(error) = self.client().publish_with_headers(subject, headers, payload).await {
            tracing::warn!(%error, "a message was not sent");
        }
    }
}

impl LinkState {
    pub(super) fn new(calls: Calls) -> Self {
        let no = || AtomicBool::new(false);
        let drain = watch::Sender::new(false);
        let reconnected = Mutex::default();
        let losses = AtomicU64::new(0);
        Self { calls, losses, has_ended: no(), is_closed: no(), reconnected, drain }
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
            Event::Disconnected => self.lose(),
            Event::Connected => {
                if self.losses() > 0 {
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
            // the inbox ends with it
            Event::LameDuckMode | Event::Draining | Event::Closed => {}
        }
    }

    /// The client has ended, and the connection with it.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.lose();
    }

    /// The connection is lost, and with it the answers to all calls.
    fn lose(&self) {
        let losses = self.losses.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::warn!(losses, "the connection to the NATS server was lost");
        self.calls.lose_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// How often the connection was lost since it was made.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// Whether callers have had the time to reconnect.
    pub(super) fn is_settled(&self) -> bool {
        self.reconnected().is_none_or(|at| at.elapsed() >= AFTER_RECONNECT)
    }

    fn reconnected(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.reconnected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
