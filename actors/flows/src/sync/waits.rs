//! Counts of the waits for a lock. An uncontended lock costs none of this.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use crate::clock;
use crate::latency::{Distribution, Latency};

/// The waits for a lock since it was made, over all of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitFigures {
    /// How long the waiters that got it waited; acquisitions without a wait are not counted.
    pub waited: Distribution,
    /// How many left the queue before their turn: by a time limit, a cancel or an error beside them.
    pub given_up: u64,
    /// How many were refused because the queue was full (FTN12 §1.11.6).
    pub rejected: u64,
}

/// Counts the waits for a lock.
#[derive(Debug, Default)]
pub(super) struct WaitCounts {
    /// Made by the first wait: most locks have few.
    waited: OnceLock<Box<Latency>>,
    given_up: AtomicU64,
    rejected: AtomicU64,
}

/// Since when a waiter is in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedSince(Instant);

impl QueuedSince {
    pub(super) fn now() -> Self {
        Self(clock::read())
    }

    pub(super) fn elapsed(self) -> std::time::Duration {
        clock::read().saturating_duration_since(self.0)
    }
}

impl WaitCounts {
    /// The turn of a waiter has come.
    pub(super) fn admitted(&self, since: QueuedSince) {
        self.waited.get_or_init(Box::default).count(since.elapsed());
    }

    pub(super) fn given_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> WaitFigures {
        WaitFigures {
            waited: self.waited.get().map(|waited| waited.distribution()).unwrap_or_default(),
            given_up: self.given_up.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
        }
    }
}

impl WaitFigures {
    /// These waits, and those for another part of the same lock.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self {
            waited: self.waited.and(&other.waited),
            given_up: self.given_up + other.given_up,
            rejected: self.rejected + other.rejected,
        }
    }
}
