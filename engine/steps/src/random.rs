//! Random choices that can be repeated.

use std::time::Duration;

/// A generator of choices: the same seed yields the same choices, on every machine and in every
/// version.
///
/// SplitMix64 (Steele, Lea, Flood 2014): a counter that grows by a constant, and a mix of its
/// bits. Every seed is a good one, 0 included. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    counter: u64,
}

/// Into how many parts delays are divided.
const PARTS: u32 = 16;

/// How much longer than typical the longest delay is.
const LONGEST: u32 = 64;

impl Random {
    /// The choices of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { counter: seed }
    }

    /// Any number.
    pub const fn number(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.counter;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // the upper half of the product spreads the number evenly over the range
        let scaled = (u128::from(self.number()) * limit as u128) >> u64::BITS;
        usize::try_from(scaled).unwrap_or(0)
    }

    /// True once in this many calls on average; never for 0.
    pub fn one_in(&mut self, times: u32) -> bool {
        times > 0 && self.below(times as usize) == 0
    }

    /// One of the items; `None` if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// A time from zero to `most`, both included, in sixteenths of it: coarse, so that several events
    /// happen at the same time, where their order matters.
    pub fn within(&mut self, most: Duration) -> Duration {
        let parts = u32::try_from(self.below(PARTS as usize + 1)).unwrap_or(0);
        most.checked_mul(parts).map_or(most, |sum| sum / PARTS)
    }

    /// A delay like that of networks and disks: three of four are at most `typical`, a few are much
    /// longer, up to 64 times.
    pub fn delay(&mut self, typical: Duration) -> Duration {
        let mut factor = 1;
        while factor < LONGEST && self.one_in(4) {
            factor *= 4;
        }
        self.within(typical.saturating_mul(factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_numbers_for_ever() {
        let mut random = Random::new(1_234_567);
        let numbers = [(); 3].map(|()| random.number());
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn choices_stay_in_range_and_reach_its_ends() {
        let mut random = Random::new(0);
        let most = Duration::from_millis(160);
        let times: Vec<Duration> = (0..1000).map(|_| random.within(most)).collect();
        assert_eq!(times.iter().max(), Some(&most));
        assert_eq!(times.iter().min(), Some(&Duration::ZERO));
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert_eq!((random.below(0), random.below(1), random.one_in(0)), (0, 0, false));
        assert_eq!(random.within(Duration::MAX), Duration::MAX, "it saturates");
        let delays: Vec<Duration> = (0..1000).map(|_| random.delay(most)).collect();
        let typical = delays.iter().filter(|delay| **delay <= most).count();
        assert!((700..900).contains(&typical), "{typical} are typical");
        assert!(delays.iter().all(|delay| *delay <= most * LONGEST));
    }
}
