//! The link to the bank: how long calls take, and which of them are lost.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps::sim::Random;
use parking_lot::Mutex;

/// How the link behaves; a perfect one by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "options of a program, not of a library")]
pub struct LinkOptions {
    /// The longest time of a way to the bank or back; each takes a random part of it. Zero by
    /// default.
    pub latency: Duration,
    /// How many of a hundred calls are lost, half of them on the way to the bank and half on the way
    /// back. Zero by default.
    pub failures: u32,
    /// The seed of the random choices, so that they can be repeated.
    pub seed: u64,
}

/// The link; clones share its random choices.
#[derive(Clone, Debug)]
pub(super) struct FlakyLink {
    options: LinkOptions,
    random: Arc<Mutex<Random>>,
}

/// The fate of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) there: Duration,
    pub(super) back: Duration,
    pub(super) lost: Option<Leg>,
}

/// Where a call is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    There,
    Back,
}

impl FlakyLink {
    pub(super) fn new(options: LinkOptions) -> Self {
        Self { options, random: Arc::new(Mutex::new(Random::new(options.seed))) }
    }

    /// Decides about the next call.
    pub(super) fn next(&self) -> Fate {
        let LinkOptions { latency, failures, .. } = self.options;
        let mut random = self.random.lock();
        let (there, back) = (random.within(latency), random.within(latency));
        let is_lost = random.below(100) < failures as usize;
        let leg = if random.one_in(2) { Leg::There } else { Leg::Back };
        Fate { there, back, lost: is_lost.then_some(leg) }
    }
}
