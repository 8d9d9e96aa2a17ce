//! Limits of zero, which would let no flow in.

use std::fmt;
use std::time::Duration;

use super::{limiter, mutex, throttle};

/// A limit of a mutex, throttle or limiter is zero, so that no flow could ever enter
/// (FTN12 §2.3 to §2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroLimit(&'static str);

impl fmt::Display for ZeroLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} is 0: no flow could enter", self.0)
    }
}

impl std::error::Error for ZeroLimit {}

impl mutex::Options {
    /// Checks limits that come from outside, such as a configuration (FTN12 §2.3).
    ///
    /// # Errors
    /// [`ZeroLimit`] if `max` is 0.
    pub const fn check(&self) -> Result<(), ZeroLimit> {
        if self.max == 0 { Err(ZeroLimit("`max` of a mutex")) } else { Ok(()) }
    }
}

impl throttle::Options {
    /// Checks limits that come from outside, such as a configuration (FTN12 §2.4).
    ///
    /// # Errors
    /// [`ZeroLimit`] if `max` is 0 or `period` is zero.
    pub fn check(&self) -> Result<(), ZeroLimit> {
        if self.max == 0 {
            return Err(ZeroLimit("`max` of a throttle"));
        }
        if self.period == Duration::ZERO {
            return Err(ZeroLimit("`period` of a throttle"));
        }
        Ok(())
    }
}

impl limiter::Options {
    /// Checks limits that come from outside, such as a configuration (FTN12 §2.5).
    ///
    /// # Errors
    /// [`ZeroLimit`] if `concurrent` or `rate` is 0 or `period` is zero.
    pub fn check(&self) -> Result<(), ZeroLimit> {
        if self.concurrent == 0 {
            return Err(ZeroLimit("`concurrent` of a limiter"));
        }
        if self.rate == 0 {
            return Err(ZeroLimit("`rate` of a limiter"));
        }
        self.throttle().check()
    }
}

/// Refuses limits that were checked or are known when the program is written.
#[track_caller]
pub(crate) fn refuse(checked: Result<(), ZeroLimit>) {
    if let Err(zero) = checked {
        panic!("{zero}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_of_zero_is_refused() {
        let (mutex, throttle) = (mutex::Options::default(), throttle::Options::default());
        let limiter = limiter::Options::default();
        assert_eq!(mutex.check(), Ok(()));
        assert_eq!(throttle.check(), Ok(()));
        assert_eq!(limiter.check(), Ok(()));
        let refused = [
            mutex::Options { max: 0, ..mutex }.check(),
            throttle::Options { max: 0, ..throttle }.check(),
            throttle::Options { period: Duration::ZERO, ..throttle }.check(),
            limiter::Options { concurrent: 0, ..limiter }.check(),
            limiter::Options { rate: 0, ..limiter }.check(),
            limiter::Options { period: Duration::ZERO, ..limiter }.check(),
        ];
        for refused in refused {
            let text = refused.expect_err("no flow could enter").to_string();
            assert!(text.ends_with(" is 0: no flow could enter"), "{text}");
        }
    }
}
