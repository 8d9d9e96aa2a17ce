//! The kinds of locks, and their limits.

use asyncsteps_core::sync::{ZeroLimit, limiter, mutex, throttle};

/// The kind of a lock, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limits {
    /// A mutex.
    Mutex(mutex::Options),
    /// A throttle.
    Throttle(throttle::Options),
    /// A limiter.
    Limiter(limiter::Options),
}

impl Limits {
    pub(super) fn check(&self) -> Result<(), ZeroLimit> {
        match self {
            Self::Mutex(options) => options.check(),
            Self::Throttle(options) => options.check(),
            Self::Limiter(options) => options.check(),
        }
    }

    /// `mutex`, `throttle` or `limiter`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Mutex(_) => "mutex",
            Self::Throttle(_) => "throttle",
            Self::Limiter(_) => "limiter",
        }
    }
}

impl From<mutex::Options> for Limits {
    fn from(options: mutex::Options) -> Self {
        Self::Mutex(options)
    }
}

impl From<throttle::Options> for Limits {
    fn from(options: throttle::Options) -> Self {
        Self::Throttle(options)
    }
}

impl From<limiter::Options> for Limits {
    fn from(options: limiter::Options) -> Self {
        Self::Limiter(options)
    }
}
