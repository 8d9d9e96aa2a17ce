//! The limits of a `Limiter` (FTN12 §1.11.7, §2.5): a mutex around a throttle.

use std::time::Duration;

use super::{mutex, throttle};

/// Limits on how many are inside at once and on how many enter per period.
///
/// A limiter is a mutex with the limits [`mutex`](Self::mutex) around a throttle with the limits
/// [`throttle`](Self::throttle): who waits for the throttle holds the mutex. An owner that is
/// inside enters again without a further place in the mutex, but as a further entry of the
/// throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many owners may be inside at once, at least 1.
    pub concurrent: u32,
    /// How many may wait to be inside; `None` = no limit, 0 = nobody waits.
    pub max_queue: Option<u32>,
    /// How many entries there may be in one period, at least 1.
    pub rate: u32,
    /// The length of a period, more than zero.
    pub period: Duration,
    /// How many of those inside may wait for the next period; `None` = no limit, 0 = nobody waits.
    pub burst: Option<u32>,
}

impl Default for Options {
    /// One owner, one entry per second, and nobody waits (FTN12 §2.5).
    fn default() -> Self {
        let period = Duration::from_secs(1);
        Self { concurrent: 1, max_queue: Some(0), rate: 1, period, burst: Some(0) }
    }
}

impl Options {
    /// The limits of the outer part.
    #[must_use]
    pub const fn mutex(&self) -> mutex::Options {
        mutex::Options { max: self.concurrent, max_queue: self.max_queue }
    }

    /// The limits of the inner part.
    #[must_use]
    pub const fn throttle(&self) -> throttle::Options {
        throttle::Options { max: self.rate, period: self.period, max_queue: self.burst }
    }
}
