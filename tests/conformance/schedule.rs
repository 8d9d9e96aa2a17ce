//! Which of the ready flows runs next, and how late timers are: a trace must not depend on it.

use super::program::Millis;

/// How late a timer may be, in milliseconds (FORMAT.md, section 5).
const MAX_LATENESS: u64 = 12;

/// A reproducible choice; the seed 0 is first come, first served, without lateness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    seed: u64,
    state: u64,
}

impl Schedule {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    pub(crate) fn is_exact(self) -> bool {
        self.seed == 0
    }

    /// Which of `count` ready flows runs next.
    pub(crate) fn pick(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap_or(0)
    }

    pub(crate) fn lateness(&mut self) -> Millis {
        Millis(self.below(MAX_LATENESS + 1))
    }

    /// SplitMix64: a few lines, and every seed is a good one.
    fn below(&mut self, limit: u64) -> u64 {
        if self.is_exact() {
            return 0;
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }
}
