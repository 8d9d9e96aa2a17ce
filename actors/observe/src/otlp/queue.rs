//! The queue of requests between the arbiters and the thread that sends them.

use std::io;
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use opentelemetry_sdk::trace::SpanExporter;
use parking_lot::{Condvar, Mutex};
use tokio::runtime::Runtime;

use super::spans;
use asyncsteps_executor::observe::ExportFigures;
use asyncsteps_executor::observe::RequestRecord;

/// How long requests wait for others, so that few messages are sent and traces are soon to be seen.
const DELAY: Duration = Duration::from_secs(1);

/// This number of requests does not wait for others: with ten steps each, a message of half a
/// megabyte.
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
    figures: ExportFigures,
    /// How many dropped requests have not been reported to the log.
    untold: u64,
}

impl Queue {
    fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Starts the thread that sends.
    pub(super) fn start(
        limit: usize,
        runtime: Runtime,
        exporter: impl SpanExporter + 'static,
    ) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self::new(limit));
        let sent = Arc::clone(&queue);
        let work = move || sent.work(&runtime, &exporter);
        thread::Builder::new().name("otlp".to_owned()).spawn(work)?;
        Ok(queue)
    }

    /// Adds a request, or drops it if there are too many. The thread is only woken for a whole message.
    pub(super) fn push(&self, request: Arc<RequestRecord>) {
        let mut state = self.state.lock();
        if state.is_closed {
            state.figures.failed += 1;
        } else if state.waiting.len() < self.limit {
            state.waiting.push(request);
            if state.waiting.len() == BATCH {
                self.changed.notify_all();
            }
        } else {
            state.figures.queue_full += 1;
            state.untold += 1;
            let is_first = state.untold == 1;
            // the log is written without the lock
            drop(state);
            if is_first {
                tracing::warn!(
                    limit = self.limit,
                    "the queue of the traces is full, and those of some requests are dropped"
                );
            }
        }
    }

    /// The counts of the requests so far.
    pub(super) fn figures(&self) -> ExportFigures {
        self.state.lock().figures
    }

    /// Takes no more requests, and waits until all are sent, no longer than `limit`; then the thread ends.
    pub(super) fn close(&self, limit: Duration) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
        let unsent = |state: &mut State| state.is_sending || !state.waiting.is_empty();
        // requests that are not sent by then are lost
        let _ = self.changed.wait_while_for(&mut self.state.lock(), unsent, limit);
        let requests = mem::take(&mut self.state.lock().untold);
        if requests > 0 {
            tracing::warn!(
                requests,
                "the export of traces ends; those of some requests were dropped"
            );
        }
    }

    /// The thread: sends requests until the queue is closed. The log reports once that traces are lost, and
    /// once when they are not any more.
    fn work(&self, runtime: &Runtime, exporter: &impl SpanExporter) {
        let mut is_failing = false;
        while let Some(requests) = self.take() {
            let count = u64::try_from(requests.len()).unwrap_or(u64::MAX);
            let spans = requests.iter().flat_map(|request| spans::of_request(request)).collect();
            let sent = runtime.block_on(exporter.export(spans));
            let untold = self.count(count, sent.is_ok());
            let was_failing = mem::replace(&mut is_failing, sent.is_err());
            match sent {
                Err(error) if !was_failing => {
                    tracing::warn!(%error, "traces cannot be exported, and are dropped");
                }
                Ok(()) if untold > 0 => tracing::warn!(
                    requests = untold,
                    "traces are exported again; those of some requests were dropped"
                ),
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// Counts requests that were sent or lost. Returns how many dropped ones the log has not reported, once
    /// there is room again: at least half of the queue, so that a queue that is full again and again does
    /// not fill the log.
    fn count(&self, requests: u64, is_sent: bool) -> u64 {
        let mut state = self.state.lock();
        if !is_sent {
            state.figures.failed += requests;
            state.untold += requests;
            return 0;
        }
        state.figures.exported += requests;
        match state.waiting.len() <= self.limit / 2 {
            true => mem::take(&mut state.untold),
            false => 0,
        }
    }

    /// Waits for requests and takes a message full of them; `None` if the queue is closed and nothing is
    /// left.
    fn take(&self) -> Option<Vec<Arc<RequestRecord>>> {
        let mut state = self.state.lock();
        state.is_sending = false;
        self.changed.notify_all();
        while state.waiting.is_empty() && !state.is_closed {
            let few = |state: &mut State| state.waiting.len() < BATCH && !state.is_closed;
            let _ = self.changed.wait_while_for(&mut state, few, DELAY);
        }
        state.is_sending = !state.waiting.is_empty();
        let full = state.waiting.len().min(BATCH);
        let rest = state.waiting.split_off(full);
        let requests = mem::replace(&mut state.waiting, rest);
        state.is_sending.then_some(requests)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::io::Write;
    use std::sync::LazyLock;

    use asyncsteps_executor::iface::{Loader, Source};
    use asyncsteps_executor::observe::Retention;
    use asyncsteps_executor::{Executor, builtin};
    use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
    use opentelemetry_sdk::trace::SpanData;

    use serde_json::{Value, json};

    use super::*;

    /// A request that an executor has served.
    static REQUEST: LazyLock<Arc<RequestRecord>> = LazyLock::new(|| {
        actix::System::new().block_on(async {
            let ping = "futoin.anonping:1.0".parse().expect("an interface");
            let ping = Loader::new([Source::builtin()]).load(&ping).expect("it is there");
            let executor =
                Executor::builder().record(Retention::ALL).interface(ping, |functions| {
                    functions.add("ping", &builtin::ping());
                });
            let executor = executor.build().expect("a right configuration");
            let echo = json!({ "echo": 1 });
            let answer = executor.call_as_system::<Value>("futoin.anonping:1.0:ping", echo).await;
            answer.expect("it answers");
            executor.recent().remove(0)
        })
    });

    impl Queue {
        fn push_many(&self, requests: usize) {
            (0..requests).for_each(|_| self.push(Arc::clone(&REQUEST)));
        }
    }

    /// Events while requests are sent.
    #[derive(Clone, Copy, Debug)]
    struct Sending {
        /// How many other requests arrive.
        come: usize,
        /// The collector takes the requests.
        is_taken: bool,
    }

    #[derive(Debug)]
    struct Planned(Arc<Queue>, Mutex<Vec<Sending>>);

    impl SpanExporter for Planned {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            let mut plan = self.1.lock();
            let Sending { come, is_taken } = plan.remove(0);
            self.0.push_many(come);
            self.0.state.lock().is_closed = plan.is_empty();
            is_taken.then_some(()).ok_or_else(|| OTelSdkError::InternalFailure("gone".to_owned()))
        }
    }

    impl fmt::Debug for Queue {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Queue")
        }
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Sends with a queue of four requests, to which `first` come before; returns how many were dropped
    /// in all, and what the log reported.
    fn told(first: usize, plan: &[(usize, bool)]) -> (u64, Vec<String>) {
        let (figures, lines) = sent(first, plan);
        (figures.dropped(), lines)
    }

    /// The same, with what became of all requests.
    fn sent(first: usize, plan: &[(usize, bool)]) -> (ExportFigures, Vec<String>) {
        let lines = Lines::default();
        let output = lines.clone();
        let log = tracing_subscriber::fmt().without_time().with_ansi(false).with_target(false);
        let log = log.with_writer(move || output.clone()).finish();
        let queue = Arc::new(Queue::new(4));
        LazyLock::force(&REQUEST);
        tracing::subscriber::with_default(log, || {
            queue.push_many(first);
            let plan = plan.iter().map(|&(come, is_taken)| Sending { come, is_taken }).collect();
            let exporter = Planned(Arc::clone(&queue), Mutex::new(plan));
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            queue.work(&runtime, &exporter);
            queue.close(Duration::ZERO);
        });
        let text = String::from_utf8(lines.0.lock().clone());
        let text = text.expect("text");
        (queue.figures(), text.lines().map(|line| line.trim().to_owned()).collect())
    }

    const FULL: &str =
        "WARN the queue of the traces is full, and those of some requests are dropped limit=4";
    const FAILS: &str =
        "WARN traces cannot be exported, and are dropped error=Operation failed: gone";

    fn again(requests: u64) -> String {
        format!(
            "WARN traces are exported again; those of some requests were dropped requests={requests}"
        )
    }

    #[test]
    fn the_log_is_told_once_that_the_queue_is_full_and_how_many_requests_were_dropped() {
        assert_eq!(told(4, &[(0, true)]), (0, vec![]));
        assert_eq!(told(9, &[(0, true)]), (5, vec![FULL.to_owned(), again(5)]));
        // it has room for a moment only: the sum is reported when half of the queue is free
        let plan = [(6, true), (4, true), (0, true)];
        assert_eq!(told(9, &plan), (7, vec![FULL.to_owned(), again(7)]));
        // each time anew
        let plan = [(1, true), (6, true), (0, true)];
        let lines = [FULL.to_owned(), again(5), FULL.to_owned(), again(2)];
        assert_eq!(told(9, &plan), (7, lines.to_vec()));
    }

    #[test]
    fn the_sum_has_what_was_dropped_before_sending_failed_and_while_it_did() {
        // 1 at first, then 4 that were not sent and 2 for which there was no room, then 4 again
        let plan = [(6, false), (4, false), (4, true), (0, true)];
        let lines = [FULL.to_owned(), FAILS.to_owned(), again(11)];
        assert_eq!(told(5, &plan), (11, lines.to_vec()));
    }

    #[test]
    fn what_was_dropped_is_told_at_the_end() {
        let end = "WARN the export of traces ends; those of some requests were dropped requests=3";
        assert_eq!(told(3, &[(0, false)]), (3, vec![FAILS.to_owned(), end.to_owned()]));
    }

    #[test]
    fn each_request_is_counted_once_by_what_became_of_it() {
        // 4 of 5 find room; they are lost while 6 come, of which 4 find room and are sent
        let (figures, _) = sent(5, &[(6, false), (0, true)]);
        assert_eq!(figures, ExportFigures { exported: 4, queue_full: 3, failed: 4 });
    }
}
