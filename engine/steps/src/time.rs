//! Time as a value: the engine never reads a clock.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A point in time, in nanoseconds since an epoch that the host chooses.
///
/// A host passes the current time to [`Execution::run`](crate::Execution::run) and gets deadlines
/// back ([`Execution::deadline`](crate::Execution::deadline)). The host chooses the epoch: process
/// start, the Unix epoch or the start of a simulation. It must not change it, and time must not go
/// back. The range is 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The host's epoch.
    pub const ZERO: Self = Self(0);

    /// The time this long after the epoch; more than 584 years saturate.
    #[must_use]
    pub fn from_epoch(since: Duration) -> Self {
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time passed since the epoch.
    #[must_use]
    pub fn since_epoch(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(Self::from_epoch(after).0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.since_epoch())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_saturate_instead_of_wrapping() {
        let end = Time::ZERO + Duration::MAX;
        assert_eq!(end, end + Duration::from_secs(1));
        assert_eq!(Time::ZERO.saturating_since(end), Duration::ZERO);
    }
}
