//! The queue of requests between the arbiters and the thread that sends them.

use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::runtime::Runtime;

use super::spans;
use crate::observe::record::RequestRecord;

/// How long requests wait for others, so that few messages are sent and traces are soon to be seen.
const DELAY: Duration = Duration::from_secs(1);

/// So many requests do not wait for others: with ten steps each, a message of half a megabyte.
const BATCH: usize = 128;

/// How long the end of a program waits until its last requests are sent: a collector that works needs
/// milliseconds, and one that is gone must not keep the program alive.
pub(super) const LAST_REQUESTS: Duration = Duration::from_secs(3);

/// Requests that wait to be sent, up to a limit.
pub(super) struct Queue {
    limit: usize,
    state: Mutex<State>,
    /// There are enough requests for a message, all were sent, or the queue was closed.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<Arc<RequestRecord>>,
    /// The thread has taken requests and not sent all of them.
    is_sending: bool,
    is_closed: bool,
    /// Requests that were dropped, in all.
    dropped: u64,
}

impl Queue {
    /// Starts the thread that sends.
    pub(super) fn start(
        limit: usize,
        runtime: Runtime,
        exporter: SpanExporter,
    ) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self { limit, state: Mutex::default(), changed: Condvar::new() });
        let sender = Sender { queue: Arc::clone(&queue), runtime, exporter, failed: None };
        thread::Builder::new().name("otlp".to_owned()).spawn(move || sender.work())?;
        Ok(queue)
    }

    /// Adds a request, or drops it if there are too many. The thread is only woken for a whole message.
    pub(super) fn push(&self, request: Arc<RequestRecord>) {
        let mut state = self.lock();
        if state.is_closed || state.waiting.len() >= self.limit {
            state.dropped += 1;
            return;
        }
        state.waiting.push(request);
        if state.waiting.len() == BATCH {
            self.changed.notify_all();
        }
    }

    /// How many requests were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Takes no more requests, and waits until all are sent, no longer than `limit`; then the thread ends.
    pub(super) fn close(&self, limit: Duration) {
        self.lock().is_closed = true;
        self.changed.notify_all();
        let unsent = |state: &mut State| state.is_sending || !state.waiting.is_empty();
        // what is not sent by then is lost
        let _ = self.changed.wait_timeout_while(self.lock(), limit, unsent);
    }

    /// Waits for requests and takes a message full of them; `None` if the queue is closed and nothing is
    /// left.
    fn take(&self) -> Option<Vec<Arc<RequestRecord>>> {
        let mut state = self.lock();
        state.is_sending = false;
        self.changed.notify_all();
        while state.waiting.is_empty() && !state.is_closed {
            let few = |state: &mut State| state.waiting.len() < BATCH && !state.is_closed;
            let waited = self.changed.wait_timeout_while(state, DELAY, few);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.waiting.is_empty() {
            return None;
        }
        state.is_sending = true;
        let full = state.waiting.len().min(BATCH);
        let rest = state.waiting.split_off(full);
        Some(mem::replace(&mut state.waiting, rest))
    }

    /// Nothing can panic while it is held.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that sends.
struct Sender {
    queue: Arc<Queue>,
    runtime: Runtime,
    exporter: SpanExporter,
    /// How many requests had been dropped before sending failed; `None` while it works.
    failed: Option<u64>,
}

impl Sender {
    /// Sends requests until the queue is closed.
    fn work(mut self) {
        while let Some(requests) = self.queue.take() {
            let before = self.queue.dropped();
            let spans = requests.iter().flat_map(|request| spans::of_request(request)).collect();
            let sent = self.runtime.block_on(self.exporter.export(spans));
            match sent {
                Ok(()) => self.works(),
                Err(error) => {
                    self.queue.lock().dropped += u64::try_from(requests.len()).unwrap_or(u64::MAX);
                    self.fails(before, &error);
                }
            }
        }
    }

    /// The log is told once that traces are lost, and once when they are not any more.
    fn fails(&mut self, before: u64, error: &OTelSdkError) {
        if self.failed.is_none() {
            self.failed = Some(before);
            tracing::warn!(%error, "traces cannot be exported, and are dropped");
        }
    }

    fn works(&mut self) {
        if let Some(before) = self.failed.take() {
            let requests = self.queue.dropped().saturating_sub(before);
            tracing::warn!(
                requests,
                "traces are exported again; those of some requests were dropped"
            );
        }
    }
}
