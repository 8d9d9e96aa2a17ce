//! What chance may do in a simulation, and how long one may take.

use std::time::Duration;

/// Limits and disturbances of a simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many turns there may be in one simulation: beyond it a flow is said to run for ever.
    /// A turn is one run of a flow or one callback.
    pub max_turns: u64,
    /// How late timers may be: event loops are busy. Zero for exact times.
    pub lateness: Duration,
    /// One in so many flows is cancelled (FTN12 §2.2.3) at some time; 0 for none.
    pub cancel_one_in: u32,
    /// How long after its start a flow may be cancelled.
    pub cancel_within: Duration,
    /// Whether a panic in a callback is left to the error handlers of the flow. Otherwise it fails
    /// the simulation, also if a handler recovers: it is a broken check or a bug.
    pub allow_panics: bool,
}

impl Default for Options {
    /// A hundred thousand turns, timers up to 10 ms late, no cancels, and no panics.
    fn default() -> Self {
        Self {
            max_turns: 100_000,
            lateness: Duration::from_millis(10),
            cancel_one_in: 0,
            cancel_within: Duration::from_secs(1),
            allow_panics: false,
        }
    }
}
