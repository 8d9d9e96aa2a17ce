//! Requests that have ended, kept with what their steps did.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use asyncsteps_actors::trace::TraceParent;
use parking_lot::Mutex;

use super::export::{ExportFigures, Exporter};
use super::record::RequestRecord;

/// The retention policy of request records: which requests are kept after their end, with what their steps did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "options")]
pub struct Retention {
    /// The most requests that are kept, about 12 KiB each at the most; the oldest one goes first. 1,000 by default, so
    /// that a request in the log can be looked up for a while, in 12 MB.
    pub most: usize,
    /// Requests that took at least this time are kept; 500 ms by default, none if `None`.
    pub slow: Option<Duration>,
    /// Requests that were answered with an error are kept; they are by default.
    pub failed: bool,
    /// One request in this number is kept whatever its end; none by default, which is 0.
    pub one_in: u64,
}

impl Retention {
    /// All requests, for development and tests.
    pub const ALL: Self = Self { most: 256, slow: None, failed: true, one_in: 1 };

    /// None at all.
    pub const NONE: Self = Self { most: 0, slow: None, failed: false, one_in: 0 };
}

impl Default for Retention {
    fn default() -> Self {
        let slow = Some(Duration::from_millis(500));
        Self { most: 1_000, slow, failed: true, one_in: 0 }
    }
}

/// Numbers the requests of an executor, keeps some of them and exports some.
#[derive(derive_more::Debug)]
#[debug("Recorder({keep:?})")]
pub(crate) struct Recorder {
    keep: Retention,
    exporter: Option<Arc<dyn Exporter>>,
    next: AtomicU64,
    kept: Mutex<VecDeque<Arc<RequestRecord>>>,
}

/// The destinations of a request that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) is_kept: bool,
    is_exported: bool,
}

impl Recorder {
    /// `None` if nothing is to be recorded.
    pub(crate) fn new(
        keep: Option<Retention>,
        exporter: Option<Arc<dyn Exporter>>,
    ) -> Option<Arc<Self>> {
        let is_needed = keep.is_some() || exporter.is_some();
        let (keep, next) = (keep.unwrap_or(Retention::NONE), AtomicU64::new(1));
        is_needed.then(|| Arc::new(Self { keep, exporter, next, kept: Mutex::default() }))
    }

    /// A number for a request.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The destinations of a request of this span that took this time; `None` if it is neither kept
    /// nor exported.
    pub(crate) fn wanted(
        &self,
        number: u64,
        span: TraceParent,
        total: Duration,
        is_error: bool,
    ) -> Option<Wanted> {
        let Retention { slow, failed, one_in, .. } = self.keep;
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

    /// Takes a request that has ended.
    pub(crate) fn take(&self, wanted: Wanted, record: RequestRecord) {
        let record = Arc::new(record);
        if wanted.is_kept {
            self.keep(Arc::clone(&record));
        }
        if wanted.is_exported {
            self.export(record);
        }
    }

    /// Exports a request that has ended.
    pub(crate) fn export(&self, record: Arc<RequestRecord>) {
        if let Some(exporter) = &self.exporter {
            exporter.export(record);
        }
    }

    /// The counts of the requests that were exported.
    pub(crate) fn export_figures(&self) -> ExportFigures {
        self.exporter.as_ref().map(|exporter| exporter.figures()).unwrap_or_default()
    }

    fn keep(&self, record: Arc<RequestRecord>) {
        let mut kept = self.kept.lock();
        kept.push_back(record);
        if kept.len() > self.keep.most.max(1) {
            kept.pop_front();
        }
    }

    /// The requests that are kept, the newest first.
    pub(crate) fn kept(&self) -> Vec<Arc<RequestRecord>> {
        let kept = self.kept.lock();
        kept.iter().rev().cloned().collect()
    }
}
