//! From the connection to an arbiter: each request is taken at once, and carried out or refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::Message;
use asyncsteps_actors::drain::{Drain, DrainGuard};
use asyncsteps_actors::watched::WatchedValue;
use asyncsteps_core::codes;
use asyncsteps_executor::Executor;
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Coding, Response};
use asyncsteps_executor::observe::{OpenConnection, Traffic};
use futures_util::StreamExt;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use super::connection::Subscription;
use super::headers::deadline;
use super::link::Link;
use super::request::answer;
use super::ways::Ways;
use super::wind_down::wind_down;
use crate::endpoint::Endpoint;

/// How long a request waited on its way whose caller is asked whether it still waits: it may know that the connection, or
/// this node, was lost.
const LATE: Duration = Duration::from_millis(500);

/// How many cancels may wait for the workers; each has some hundred bytes.
pub(super) const CANCELS_THAT_WAIT: usize = 4_096;

/// Serves the functions of an executor to other nodes.
#[derive(Debug)]
pub(super) struct NodeServer {
    pub(super) link: Arc<Link>,
    pub(super) executor: Executor,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) drain: Arc<Drain>,
    pub(super) phase: Arc<WatchedValue<ServePhase>>,
    pub(super) workers: Vec<WorkerHandle>,
    /// The bytes of the requests that are admitted.
    pub(super) bytes: Arc<AtomicUsize>,
    /// Room for cancels that wait.
    pub(super) cancels: Arc<Semaphore>,
    pub(super) ways: Ways,
    /// Messages from other nodes, and refusals that go to them.
    pub(super) traffic: Traffic,
    /// Counts the connection among the connections of the executor.
    pub(super) _connection: OpenConnection,
    /// When serving began, as RFC 3339 has it.
    pub(super) started: String,
}

/// How far serving is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServePhase {
    Serving,
    /// Subscriptions end.
    Draining,
    /// No more messages are taken, and requests in flight are cancelled.
    Ended,
}

impl ServePhase {
    /// A phase after the first one.
    fn ends(self) -> Option<Self> {
        (self != Self::Serving).then_some(self)
    }
}

/// Waits until the node serves no more.
pub(super) async fn ended(phase: &WatchedValue<ServePhase>) {
    phase.wait_for(|phase| (*phase == ServePhase::Ended).then_some(())).await;
}

/// An arbiter that carries out requests.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    pub(super) orders: mpsc::UnboundedSender<WorkerOrder>,
    /// How many requests it has.
    pub(super) load: Arc<AtomicUsize>,
}

/// An order to a worker. The queue is bounded by the requests that are admitted, and by
/// [`CANCELS_THAT_WAIT`].
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "almost all of them are requests, and none allocates"
)]
pub(super) enum WorkerOrder {
    CarryOut(AdmittedRequest),
    /// The call with this reply subject is not wanted.
    Cancel {
        reply: Arc<str>,
        _room: OwnedSemaphorePermit,
    },
}

/// A request that a worker has to carry out; counted until this is dropped.
#[derive(Debug)]
pub(super) struct AdmittedRequest {
    pub(super) message: Message,
    /// When its caller waits no more.
    pub(super) deadline: Option<Instant>,
    /// Whether it may have been given up meanwhile.
    pub(super) is_late: bool,
    pub(super) entered: DrainGuard,
    pub(super) _load: LoadGuard,
}

/// Counts a request of a worker, and its bytes, until it is dropped.
#[derive(Debug)]
pub(super) struct LoadGuard {
    requests: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
    size: usize,
}

impl NodeServer {
    /// Takes the requests of a subscription until serving ends.
    pub(super) async fn take_requests(self: Arc<Self>, mut requests: Box<dyn Subscription>) {
        let mut received: u64 = 0;
        let mut changed = std::pin::pin!(self.phase.wait_for(|phase| phase.ends()));
        loop {
            tokio::select! {
                biased;
                request = requests.next() => match request {
                    Some(request) => {
                        received += 1;
                        self.take(request).await;
                    }
                    None => return,
                },
                phase = &mut changed => match phase {
                    ServePhase::Ended => return,
                    ServePhase::Serving | ServePhase::Draining => break,
                },
            }
        }
        let link = Arc::clone(&self.link);
        // after a reconnect the two ends have counted different numbers
        let received = (link.losses() == 0).then_some(received);
        let rest = wind_down(requests, received, move || link.is_connected());
        let mut rest = std::pin::pin!(rest);
        while let Some(request) = rest.next().await {
            self.take(request).await;
        }
    }

    /// Lets a worker carry out a request, or refuses it.
    pub(super) async fn take(&self, message: Message) {
        self.traffic.received(message.payload.len());
        let reply = message.reply.as_deref();
        let Some(reply) = reply.filter(|reply| self.link.subjects.is_answerable(reply)) else {
            self.executor.count_unanswerable(&Channel::new(ChannelKind::Node));
            return;
        };
        match deadline(message.headers.as_ref(), |way| self.ways.wait(reply, way)) {
            Ok(ends) => {
                if let Some(message) = self.admit(message, ends) {
                    self.refuse(message, codes::DEFENSE_REJECTED, "Too many requests").await;
                }
            }
            Err(wrong) => self.refuse(message, codes::INVALID_REQUEST, wrong).await,
        }
    }

    /// Hands a request to the worker with the fewest; returns it if there are too many, or too much.
    fn admit(&self, message: Message, ends: Option<(Instant, Duration)>) -> Option<Message> {
        if self.drain.count() >= self.link.config.max_in_flight {
            return Some(message);
        }
        let Some(entered) = self.drain.admit() else { return Some(message) };
        let worker = self.workers.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed));
        let Some(worker) = worker else { return Some(message) };
        let load = LoadGuard::new(&worker.load, &self.bytes, message.length);
        if self.bytes.load(Ordering::Relaxed) > self.link.config.max_bytes_in_flight {
            return Some(message);
        }
        let deadline = ends.map(|(deadline, _)| deadline);
        let is_late = ends.is_some_and(|(_, waited)| waited >= LATE);
        let admitted = AdmittedRequest { message, deadline, is_late, entered, _load: load };
        let order = WorkerOrder::CarryOut(admitted);
        match worker.orders.send(order) {
            Err(SendError(WorkerOrder::CarryOut(admitted))) => Some(admitted.message),
            Ok(()) | Err(SendError(WorkerOrder::Cancel { .. })) => None,
        }
    }

    async fn refuse(&self, message: Message, code: &'static str, text: &'static str) {
        let Some(reply) = message.reply else { return };
        let refused = Response::error(code, Some(text));
        let mut bytes = Vec::with_capacity(64);
        refused.write(Coding::detect(&message.payload), None, &mut bytes);
        answer(&self.link, &self.traffic, reply, bytes.into(), refused.code()).await;
    }

    /// The call with this reply subject is not wanted, if it is one of these. Without room among the cancels
    /// that wait, the next probe says it.
    pub(super) fn cancel(&self, reply: &str) {
        let reply: Arc<str> = reply.into();
        for worker in &self.workers {
            let Ok(room) = Arc::clone(&self.cancels).try_acquire_owned() else { return };
            let reply = Arc::clone(&reply);
            // a worker that is gone has no requests
            let _ = worker.orders.send(WorkerOrder::Cancel { reply, _room: room });
        }
    }

    pub(super) fn interfaces(&self) -> impl Iterator<Item = String> + '_ {
        self.endpoints.iter().map(|endpoint| endpoint.interface().to_string())
    }

    pub(super) fn in_flight(&self) -> usize {
        self.drain.count()
    }

    pub(super) fn is_draining(&self) -> bool {
        self.phase.with(|phase| *phase != ServePhase::Serving)
    }
}

impl LoadGuard {
    fn new(requests: &Arc<AtomicUsize>, bytes: &Arc<AtomicUsize>, size: usize) -> Self {
        requests.fetch_add(1, Ordering::Relaxed);
        bytes.fetch_add(size, Ordering::Relaxed);
        Self { requests: Arc::clone(requests), bytes: Arc::clone(bytes), size }
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(self.size, Ordering::Relaxed);
    }
}
