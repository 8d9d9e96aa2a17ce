//! Distributions of times, counted by any thread.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds: twelve in each decade from 10 us to 100 s, the numbers
/// of the series E12, so that a percentile is reported with an error of a quarter at the most. Longer
/// times have a bucket of their own.
const BOUNDS: [u64; 7 * STEPS.len() + 1] = bounds();

const STEPS: [u64; 12] = [10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82];

const fn bounds() -> [u64; 7 * STEPS.len() + 1] {
    let (mut bounds, mut at, mut decade) = ([0; 7 * STEPS.len() + 1], 0, 1);
    while at < bounds.len() {
        bounds[at] = STEPS[at % STEPS.len()] * decade;
        at += 1;
        if at % STEPS.len() == 0 {
            decade *= 10;
        }
    }
    bounds
}

/// Counts times; any number of threads may at once, without a lock.
#[derive(Debug)]
pub struct Latency {
    counts: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// The bucket of a time.
#[inline]
fn bucket(micros: u64) -> usize {
    BOUNDS.partition_point(|bound| *bound < micros)
}

/// How often times were how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Distribution {
    /// The times in each bucket, the shortest first; the last one has those beyond all
    /// [bounds](Self::bounds).
    pub counts: Vec<u64>,
    /// The sum of all times, to the microsecond.
    pub sum: Duration,
}

impl Latency {
    /// No times yet. It takes 700 bytes.
    #[must_use]
    pub fn new() -> Self {
        Self { counts: array::from_fn(|_| AtomicU64::new(0)), micros: AtomicU64::new(0) }
    }

    /// Counts a time.
    #[inline]
    pub fn count(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = bucket(micros);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The distribution of all times so far.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let sum = Duration::from_micros(self.micros.load(Ordering::Relaxed));
        Distribution { counts, sum }
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution {
    /// The upper bound of each bucket but the last one, which has none.
    pub fn bounds() -> impl Iterator<Item = Duration> {
        BOUNDS.into_iter().map(Duration::from_micros)
    }

    /// The bucket of a time, as an index of `counts`.
    #[must_use]
    pub fn bucket(time: Duration) -> usize {
        bucket(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }

    /// How many times were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The bound that this share of all times is below, from 0 to 1, with an error of a quarter; zero
    /// if there are none, the last bound for times beyond it.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a number of times, which is not negative"
        )]
        let mut left = (self.count() as f64 * share.clamp(0.0, 1.0)).ceil() as u64;
        for (count, bound) in self.counts.iter().zip(Self::bounds()) {
            left = left.saturating_sub(*count);
            if left == 0 && *count > 0 {
                return bound;
            }
        }
        let is_empty = self.counts.iter().all(|count| *count == 0);
        if is_empty { Duration::ZERO } else { Self::bounds().last().unwrap_or_default() }
    }

    /// The sum of this and another distribution.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let of = |counts: &[u64], at: usize| counts.get(at).copied().unwrap_or_default();
        let buckets = self.counts.len().max(other.counts.len());
        let counts = (0..buckets).map(|at| of(&self.counts, at) + of(&other.counts, at));
        Self { counts: counts.collect(), sum: self.sum + other.sum }
    }

    /// The times since an earlier look at the same distribution.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.counts.iter().chain(std::iter::repeat(&0));
        let counts = self.counts.iter().zip(before);
        Self {
            counts: counts.map(|(now, before)| now.saturating_sub(*before)).collect(),
            sum: self.sum.saturating_sub(earlier.sum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_grow_from_ten_microseconds_to_a_hundred_seconds() {
        assert_eq!(BOUNDS[..5], [10, 12, 15, 18, 22]);
        assert_eq!(BOUNDS[11..14], [82, 100, 120]);
        assert_eq!(BOUNDS[83..], [82_000_000, 100_000_000]);
        assert!(BOUNDS.is_sorted());
    }

    #[test]
    fn percentiles_are_within_a_quarter() {
        let latency = Latency::new();
        assert_eq!(latency.distribution().quantile(0.5), Duration::ZERO);
        for ms in 1..=1000 {
            latency.count(Duration::from_millis(ms));
        }
        let distribution = latency.distribution();
        assert_eq!(distribution.count(), 1000);
        assert_eq!(distribution.sum, Duration::from_millis(500_500));
        for (share, exact) in [(0.5, 500), (0.9, 900), (0.99, 990), (0.001, 1)] {
            let told = distribution.quantile(share);
            let exact = Duration::from_millis(exact);
            assert!(told >= exact && told <= exact.mul_f64(1.25), "{share}: {told:?}");
        }
        latency.count(Duration::from_secs(5000));
        let later = latency.distribution();
        assert_eq!(later.quantile(1.0), Duration::from_secs(100));
        assert_eq!(later.since(&distribution).count(), 1);
        assert_eq!(later.since(&distribution).sum, Duration::from_secs(5000));
        assert_eq!(distribution.and(&later.since(&distribution)), later);
        assert_eq!(Distribution::default().and(&later), later);
    }
}
