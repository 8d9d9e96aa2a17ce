//! Random bytes of whole programs in a simulation, each of which has a thread of its own.

use std::cell::RefCell;

use crate::random::Random;

thread_local! {
    static RANDOM: RefCell<Option<Random>> = const { RefCell::new(None) };
}

/// Makes the code on this thread draw its random bytes from this seed, instead of from the operating system, and its flows
/// their [chance](crate::Flow::seed). For a simulation of several programs: their random bytes are no secret any more.
pub fn seed_thread(seed: u64) {
    RANDOM.set(Some(Random::new(seed)));
}

/// Fills `bytes` if the thread [has a seed](seed_thread); returns whether it has.
#[must_use]
pub fn fill_seeded(bytes: &mut [u8]) -> bool {
    RANDOM.with_borrow_mut(|random| {
        let Some(random) = random else { return false };
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&random.number().to_le_bytes()[..part.len()]);
        }
        true
    })
}

/// A number from the seed of the thread; `None` if it has none.
pub(crate) fn seeded_number() -> Option<u64> {
    RANDOM.with_borrow_mut(|random| random.as_mut().map(Random::number))
}
