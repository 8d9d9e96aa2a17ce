//! How the bank behaves: slow, unreliable, strict.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What calls of the bank meet. By default it answers at once, always, and gives any credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "all of what a program may configure")]
pub struct Conditions {
    /// How long a call takes: half of it on the way to the bank, half of it on the way back. None by
    /// default.
    pub latency: Duration,
    /// How many of a hundred calls fail, 0 by default. Half of these never reach the bank; the others
    /// have their effect, and the answer gets lost.
    pub failures: u32,
    /// What decides which calls fail: equal seeds fail the same ones.
    pub seed: u64,
    /// How much a customer may owe, in cents; without a limit by default.
    pub credit: Option<i64>,
}

impl Default for Conditions {
    fn default() -> Self {
        Self { latency: Duration::ZERO, failures: 0, seed: 1, credit: None }
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    NeverArrives,
    AnswerLost,
}

/// Chooses what becomes of calls; copies share the choices.
#[derive(Clone, Debug)]
pub(super) struct Line {
    failures: u64,
    calls: Arc<AtomicU64>,
}

impl Line {
    pub(super) fn new(conditions: &Conditions) -> Self {
        let calls = Arc::new(AtomicU64::new(conditions.seed));
        Self { failures: conditions.failures.into(), calls }
    }

    pub(super) fn next(&self) -> Fate {
        let random = mixed(self.calls.fetch_add(INCREMENT, Ordering::Relaxed));
        match (random % 100 < self.failures, random >> 63) {
            (false, _) => Fate::Answered,
            (true, 0) => Fate::NeverArrives,
            (true, _) => Fate::AnswerLost,
        }
    }
}

/// The step of the generator `splitmix64`.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Its output.
fn mixed(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(seed: u64) -> Vec<Fate> {
        let line = Line::new(&Conditions { failures: 30, seed, ..Conditions::default() });
        (0..1000).map(|_| line.next()).collect()
    }

    #[test]
    fn a_seed_repeats_its_choices_and_fails_as_many_calls_as_it_is_told() {
        let first = fates(7);
        assert_eq!(first, fates(7));
        assert_ne!(first, fates(8));
        let count = |fate| first.iter().filter(|other| **other == fate).count();
        for fate in [Fate::NeverArrives, Fate::AnswerLost] {
            assert!((100..200).contains(&count(fate)), "{fate:?}: {}", count(fate));
        }
    }
}
