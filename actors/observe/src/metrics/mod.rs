//! Figures of an executor and of locks, for Prometheus.
//!
//! ```
//! use asyncsteps_actors::sync::Mutex;
//! use asyncsteps_executor::Executor;
//! use asyncsteps_observe::metrics::Metrics;
//! use asyncsteps_observe::Locks;
//! use asyncsteps_transport::http::{Server, service};
//!
//! # actix::System::new().block_on(async {
//! let executor = Executor::builder().build()?;
//! let stock = Mutex::named("stock", Default::default());
//! let metrics = Metrics::with_locks(&executor, Locks::new().mutex(&stock));
//! // GET /metrics, beside the functions
//! let server = Server::new(service("/ftn/", executor)).page("/metrics", metrics.service());
//! let text = metrics.text().await;
//! assert!(text.contains("asyncsteps_lock_queued{kind=\"mutex\",lock=\"stock\"} 0"), "{text}");
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! | metric | labels | what |
//! |---|---|---|
//! | `asyncsteps_request_duration_seconds` | function | histogram of the times from arrival to reply; its count is the number of requests; with a request of a sampled trace as exemplar (`trace_id`) |
//! | `asyncsteps_request_queue_seconds` | function | histogram of the times in the queue of the budget |
//! | `asyncsteps_request_errors_total` | function, code | answers with an error, and callers that left (`disconnected`) |
//! | `asyncsteps_requests_refused_total` | code | requests that did not get to a function |
//! | `asyncsteps_refusals_total` | reason | requests that were refused before their flow began, by [reason](asyncsteps_executor::RefusalReason) |
//! | `asyncsteps_waits` | cause | branches of requests in flight by what they wait for, by [cause](asyncsteps_core::WaitCause): `mutex`, `throttle`, `external`, `future`, `pause`, ... |
//! | `asyncsteps_ready` | | 1 if the executor should get requests, 0 if not; see [`health`](asyncsteps_executor::health) |
//! | `asyncsteps_requests_running`, `asyncsteps_requests_queued` | | requests that have a permit of the budget, or wait for one |
//! | `asyncsteps_requests_admitted_total`, `asyncsteps_requests_rejected_total`, `asyncsteps_requests_withdrawn_total` | | what the budget decided |
//! | `asyncsteps_admission_memory_bytes` | | what the budget counts for requests |
//! | `asyncsteps_messages_unanswerable_total` | | messages that were malformed or had no id |
//! | `asyncsteps_arbiter_delay_seconds` | arbiter | how long an arbiter took to answer a message, one second at the most; of arbiters where a request has waited |
//! | `asyncsteps_arbiters_blocked`, `asyncsteps_arbiter_blocks_total` | | arbiters of the process that a step blocks now, and how often one did, for a second or longer; each is in the log with its function and the place of its step |
//! | `asyncsteps_lock_keys`, `asyncsteps_lock_holders`, `asyncsteps_lock_queued` | kind, lock | keys in use, holders inside, waiters |
//! | `asyncsteps_lock_wait_seconds` | kind, lock | histogram of the waits that ended with the lock; acquisitions without a wait are not counted |
//! | `asyncsteps_lock_given_up_total`, `asyncsteps_lock_rejected_total` | kind, lock | waits that ended without the lock; refused because the queue was full |
//! | `asyncsteps_durable_requests`, `asyncsteps_durable_oldest_seconds` | function, state | durable requests that have not ended, of the functions of this process (the first 100 by name), and the time since the oldest of them was submitted; 10,000 stand for more as well; states as `jobs list` has them, and those without a request are missing |
//! | `asyncsteps_durable_queue_head_seconds` | function | how long the same request is the next that waits for a node: a queue that stands still; none is shown while none waits |
//! | `asyncsteps_durable_schedule_lag_seconds` | function | how late the latest request of a schedule is that is due and has not begun; none is shown while all have |
//! | `asyncsteps_durable_journal_up` | | 1 if the journal answered these questions within a second, and 0; it is asked every 5 s at most, when the figures are read |
//! | `asyncsteps_durable_stored_requests`, `asyncsteps_durable_stored_bytes`, `asyncsteps_durable_log_bytes` | | requests in the journal, also ended ones; its bytes on disk, and those of a write-ahead log of its own, where it has them |
//! | `asyncsteps_durable_oldest_body_seconds` | function | how long the oldest body of a durable function has run, of those that run in this process |
//! | `asyncsteps_durable_lease_age_seconds` | node | the time since a node of this process asked for the lease that it has: it is renewed each third of the 10 s that it lasts |
//! | `asyncsteps_durable_lease_renewals_total`, `asyncsteps_durable_leases_lost_total` | | leases of this process that were renewed, or lost |
//! | `asyncsteps_durable_entities`, `asyncsteps_durable_entity_calls_queued` | | entities that this process owns, and calls that wait for their turn in one |
//! | `asyncsteps_deadlocks_total` | | deadlocks found in the process |
//! | `asyncsteps_connections`, `asyncsteps_connections_accepted_total` | protocol | open connections, and connections on which a protocol began: `new`, `http1`, `http2`, `websocket`, `nats`; one may go from one to the next |
//! | `asyncsteps_connections_refused_total` | reason | connections over a limit, or that failed in the TLS handshake |
//! | `asyncsteps_connections_cut_total` | | connections that were cut before their client had all of its answers: it took nothing for too long, or the grace of a stop was over; each is in the log |
//! | `asyncsteps_dependency_up`, `asyncsteps_dependency_losses_total`, `asyncsteps_dependency_silence_seconds` | connection | of each connection that the executor [depends on](asyncsteps_executor::Executor::depends_on): 1 while it is there, and 0; how often it was lost; since when its other end was not heard |
//! | `asyncsteps_received_bytes_total`, `asyncsteps_sent_bytes_total` | | bytes of connections, without the overhead of TLS; of NATS the bytes of request and answer messages |
//! | `asyncsteps_traces_exported_total` | | sampled requests that the [exporter](asyncsteps_executor::Builder::export) has handed over |
//! | `asyncsteps_traces_dropped_total` | reason | sampled requests that it dropped: `queue_full`, because too many waited, or `failed`, because they could not be sent |
//!
//! Connections and bytes are counted by the own server; of an actix-web application only WebSockets
//! are counted.
//!
//! The format is OpenMetrics 1.0; over HTTP it is the older text format (0.0.4) unless OpenMetrics is asked for. A program adds its own with [`Metrics::register`].

mod encode;
mod service;
mod shared_text;

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use asyncsteps_actors::stuck;
use asyncsteps_actors::sync::deadlock;

use crate::locks::{LockDetail, Locks};
use asyncsteps_executor::Executor;

pub use prometheus_client;
pub use service::MetricsService;

use encode::Snapshot;
use shared_text::SharedText;

/// The figures of an executor and of its watched locks. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("Metrics {{ .. }}")]
pub struct Metrics(Arc<Inner>);

struct Inner {
    executor: Executor,
    locks: Locks,
    registry: Mutex<Registry>,
    /// The texts for scrapes over HTTP, by whether they are in the older format.
    scraped: [SharedText; 2],
}

impl Metrics {
    /// The figures of an executor.
    #[must_use]
    pub fn new(executor: &Executor) -> Self {
        Self::with_locks(executor, Locks::new())
    }

    /// The figures of an executor, and of locks over all of their keys.
    #[must_use]
    pub fn with_locks(executor: &Executor, locks: Locks) -> Self {
        Self(Arc::new(Inner {
            executor: executor.clone(),
            locks,
            registry: Mutex::default(),
            scraped: Default::default(),
        }))
    }

    /// Adds metrics of the program.
    ///
    /// ```
    /// use asyncsteps_executor::Executor;
    /// use asyncsteps_observe::metrics::Metrics;
    /// use asyncsteps_observe::metrics::prometheus_client::metrics::counter::Counter;
    ///
    /// let metrics = Metrics::new(&Executor::builder().build()?);
    /// let mails = Counter::<u64>::default();
    /// metrics.register(|registry| registry.register("mails", "Mails sent", mails.clone()));
    /// mails.inc();
    /// # Ok::<(), asyncsteps_executor::ConfigError>(())
    /// ```
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.0.registry.lock());
    }

    /// All figures as they are now, in the format OpenMetrics.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn text(&self) -> String {
        let Inner { executor, locks, registry, .. } = &*self.0;
        let delays = executor.arbiter_delays().await;
        let snapshot = Snapshot {
            waits: executor.waits_by_cause().await,
            locks: locks.look(LockDetail::default()).await,
            figures: executor.figures(),
            refusals: executor.refusals(),
            usage: executor.usage(),
            unanswerable: executor.unanswerable(),
            is_ready: executor.readiness_with(&delays).is_ready,
            delays,
            deadlocks: deadlock::count(),
            dependencies: executor.connection_states(),
            stuck: stuck::figures(),
            traffic: executor.traffic_figures(),
            hosts: executor.host_metrics().await,
            exports: executor.export_figures(),
        };
        let registry = registry.lock();
        encode::text(snapshot, &registry)
    }

    /// The text for a scrape, which others that wait at the same time share.
    async fn scrape(&self, is_plain: bool) -> Bytes {
        let make = async || match is_plain {
            true => encode::plain(&self.text().await),
            false => self.text().await,
        };
        self.0.scraped[usize::from(is_plain)].get(make).await
    }

    /// A service that answers `GET /metrics` with the figures, and anything else with 404: for
    /// `Server::page` of `asyncsteps-transport`, or as a route of a router. The format is OpenMetrics if `Accept` names it, as
    /// Prometheus does; otherwise the text format 0.0.4, which has no exemplars.
    ///
    /// It makes one text of a format at a time: requests that arrived before a text was begun share it. No request gets
    /// a text that was begun before the request arrived, unless 16 texts wait for clients that do not read
    /// them: then it gets one that is at most a second old, which bounds the memory of such clients.
    #[must_use]
    pub fn service(&self) -> MetricsService {
        MetricsService(self.clone())
    }
}
