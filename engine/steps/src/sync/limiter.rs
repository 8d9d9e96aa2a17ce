//! The limits of a `Limiter` (FTN12 §1.11.7, §2.5): a mutex around a throttle.

use std::time::Duration;

use super::zero::ZeroLimit;
use super::{mutex, throttle};

/// Limits on how many owners are inside at once and on how many enter per period.
///
/// A limiter is a mutex with the limits [`mutex`](Self::mutex) around a throttle with the limits
/// [`throttle`](Self::throttle): an owner that waits for the throttle holds the mutex. An owner that
/// is inside may enter again: that counts as an entry of the throttle, but takes no more of the
/// mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many owners may be inside at once, at least 1.
    pub concurrent: u32,
    /// How many owners may wait to be inside; `None` = no limit, 0 = no queue.
    pub max_queue: Option<u32>,
    /// How many entries there may be in one period, at least 1.
    pub rate: u32,
    /// The length of a period, more than zero.
    pub period: Duration,
    /// How many of the owners inside may wait for the next period; `None` = no limit, 0 = no
    /// queue.
    pub burst: Option<u32>,
}

impl Default for Options {
    /// One owner, one entry per second, and no queue (FTN12 §2.5).
    fn default() -> Self {
        let period = Duration::from_secs(1);
        Self { concurrent: 1, max_queue: Some(0), rate: 1, period, burst: Some(0) }
    }
}

impl Options {
    /// The limits of the mutex.
    #[must_use]
    pub const fn mutex(&self) -> mutex::Options {
        mutex::Options { max: self.concurrent, max_queue: self.max_queue }
    }

    /// The limits of the throttle.
    #[must_use]
    pub const fn throttle(&self) -> throttle::Options {
        throttle::Options { max: self.rate, period: self.period, max_queue: self.burst }
    }

    /// Checks limits that come from outside, such as a configuration (FTN12 §2.5).
    ///
    /// # Errors
    /// [`ZeroLimit`] if `concurrent` or `rate` is 0 or `period` is zero.
    pub fn check(&self) -> Result<(), ZeroLimit> {
        if self.concurrent == 0 {
            return Err(ZeroLimit::of("`concurrent` of a limiter"));
        }
        if self.rate == 0 {
            return Err(ZeroLimit::of("`rate` of a limiter"));
        }
        self.throttle().check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_of_zero_is_refused() {
        let (mutex, throttle) = (mutex::Options::default(), throttle::Options::default());
        let limiter = Options::default();
        assert_eq!(mutex.check(), Ok(()));
        assert_eq!(throttle.check(), Ok(()));
        assert_eq!(limiter.check(), Ok(()));
        let refused = [
            mutex::Options { max: 0, ..mutex }.check(),
            throttle::Options { max: 0, ..throttle }.check(),
            throttle::Options { period: Duration::ZERO, ..throttle }.check(),
            Options { concurrent: 0, ..limiter }.check(),
            Options { rate: 0, ..limiter }.check(),
            Options { period: Duration::ZERO, ..limiter }.check(),
        ];
        for refused in refused {
            let text = refused.expect_err("no flow could enter").to_string();
            assert!(text.ends_with(" is 0: no flow could enter"), "{text}");
        }
    }
}
