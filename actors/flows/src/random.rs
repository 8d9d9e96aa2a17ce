//! Random names. No other file of the crates on actix draws the bytes of one.

use asyncsteps_core::sim::fill_seeded;

/// 128 random bits as hexadecimal digits, for ids and keys. In a [simulation](asyncsteps_core::sim::seed_thread) they
/// come from the seed of the thread.
///
/// # Panics
/// If the operating system has no random bytes.
#[must_use]
pub fn id() -> String {
    let mut bytes = [0; 16];
    if !fill_seeded(&mut bytes)
        && let Err(error) = getrandom::fill(&mut bytes)
    {
        panic!("the system gives no random bytes: {error}");
    }
    format!("{:032x}", u128::from_le_bytes(bytes))
}
