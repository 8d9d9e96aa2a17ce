//! The clock of an event loop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use asyncsteps_core::Time;

/// Real time, or a number that the loop advances.
pub(crate) enum LoopClock {
    Real(Instant),
    /// Nanoseconds.
    Virtual(AtomicU64),
}

impl LoopClock {
    #[expect(clippy::disallowed_methods, reason = "the one clock of this library")]
    pub(crate) fn new(is_virtual: bool) -> Self {
        if is_virtual { Self::Virtual(AtomicU64::new(0)) } else { Self::Real(Instant::now()) }
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_epoch(match self {
            Self::Real(start) => start.elapsed(),
            Self::Virtual(now) => Duration::from_nanos(now.load(Ordering::Acquire)),
        })
    }

    /// Advances virtual time to `at`; `false` for real time.
    pub(crate) fn pass(&self, at: Time) -> bool {
        let Self::Virtual(now) = self else { return false };
        let at = u64::try_from(at.since_epoch().as_nanos()).unwrap_or(u64::MAX);
        now.fetch_max(at, Ordering::AcqRel);
        true
    }
}
