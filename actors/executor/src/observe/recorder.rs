//! Requests that are over, kept with what their steps did.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use asyncsteps_actors::record::Recorded;
use asyncsteps_actors::trace::TraceParent;
use asyncsteps_futoin::iface::FunctionName;

use super::export::Exporter;
use crate::channel::ChannelKind;

/// Which requests are kept when they are over, with what their steps did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "options")]
pub struct Keep {
    /// The most requests that are kept, about 12 KiB each; the oldest one goes first. 256 by default.
    pub most: usize,
    /// Requests that took so long are kept; those of 500 ms by default, none if `None`.
    pub slow: Option<Duration>,
    /// Requests that were answered with an error are kept; they are by default.
    pub failed: bool,
    /// Of all others, one in so many is kept; none by default, which is 0.
    pub one_in: u64,
}

impl Keep {
    /// All requests, for development and tests.
    pub const ALL: Self = Self { most: 256, slow: None, failed: true, one_in: 1 };

    /// None at all.
    pub const NONE: Self = Self { most: 0, slow: None, failed: false, one_in: 0 };
}

impl Default for Keep {
    fn default() -> Self {
        let slow = Some(Duration::from_millis(500));
        Self { most: 256, slow, failed: true, one_in: 0 }
    }
}

/// A request that is over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestRecord {
    /// Its number among the requests of its executor, which it has had in flight.
    pub number: u64,
    /// The function as the caller named it.
    pub function: FunctionName,
    /// The caller's number of the request.
    pub rid: Option<String>,
    /// Its span in its trace.
    pub trace: TraceParent,
    /// The span of its caller, if the caller has named one.
    pub parent: Option<TraceParent>,
    /// The local id of the user; `None` for an anonymous caller.
    pub user: Option<String>,
    /// The kind of the channel that it came over.
    pub channel: ChannelKind,
    /// When it arrived.
    pub arrived: SystemTime,
    /// How long it waited in the queue of the [`Budget`](asyncsteps_actors::budget::Budget).
    pub queued: Duration,
    /// The time from its arrival to the beginning of its flow, which the times of its steps count from;
    /// `None` if it was refused before.
    pub started: Option<Duration>,
    /// How long it took in all, from its arrival to its reply.
    pub total: Duration,
    /// `success`, the code of its error, or `disconnected`.
    pub outcome: String,
    /// What its steps did, and those that undid it.
    pub steps: Recorded,
}

/// One line: `demo.shop:1.0:order 463ms success { pay 456ms { .. } }`.
impl fmt::Display for RequestRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, outcome, total, steps, .. } = self;
        write!(f, "{function} {}ms {outcome} {{ {steps} }}", total.as_millis())
    }
}

/// Numbers the requests of an executor, keeps some of them and exports some.
pub(crate) struct Recorder {
    keep: Keep,
    exporter: Option<Arc<dyn Exporter>>,
    next: AtomicU64,
    kept: Mutex<VecDeque<Arc<RequestRecord>>>,
}

/// What becomes of a request that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) is_kept: bool,
    is_exported: bool,
}

impl Recorder {
    /// `None` if nothing is to be recorded.
    pub(crate) fn new(
        keep: Option<Keep>,
        exporter: Option<Arc<dyn Exporter>>,
    ) -> Option<Arc<Self>> {
        let is_needed = keep.is_some() || exporter.is_some();
        let (keep, next) = (keep.unwrap_or(Keep::NONE), AtomicU64::new(1));
        is_needed.then(|| Arc::new(Self { keep, exporter, next, kept: Mutex::default() }))
    }

    /// A number for a request.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// What becomes of a request of this span that took so long; `None` if nobody wants it.
    pub(crate) fn wanted(
        &self,
        number: u64,
        span: TraceParent,
        total: Duration,
        is_error: bool,
    ) -> Option<Wanted> {
        let Keep { slow, failed, one_in, .. } = self.keep;
        let is_kept = is_error && failed
            || slow.is_some_and(|slow| total >= slow)
            || one_in > 0 && number.is_multiple_of(one_in);
        let is_exported = self.exports(span);
        (is_kept || is_exported).then_some(Wanted { is_kept, is_exported })
    }

    /// Whether the request of this span is exported.
    pub(crate) fn exports(&self, span: TraceParent) -> bool {
        self.exporter.is_some() && span.is_sampled()
    }

    /// Takes a request that is over.
    pub(crate) fn take(&self, wanted: Wanted, record: RequestRecord) {
        let record = Arc::new(record);
        if wanted.is_kept {
            self.keep(Arc::clone(&record));
        }
        if wanted.is_exported {
            self.export(record);
        }
    }

    /// Exports a request that is over.
    pub(crate) fn export(&self, record: Arc<RequestRecord>) {
        if let Some(exporter) = &self.exporter {
            exporter.export(record);
        }
    }

    fn keep(&self, record: Arc<RequestRecord>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(record);
        if kept.len() > self.keep.most.max(1) {
            kept.pop_front();
        }
    }

    /// Those that are kept, the newest first.
    pub(crate) fn kept(&self) -> Vec<Arc<RequestRecord>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().rev().cloned().collect()
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recorder").field(&self.keep).finish()
    }
}
