//! The limits of a simulation and of its disturbances.

use std::time::Duration;

/// Limits and disturbances of a simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many turns one simulation may take: beyond it, it fails, because a flow seems to run for
    /// ever. A turn is one run of a flow or one callback.
    pub max_turns: u64,
    /// How late timers may be, as on a busy event loop. Zero for exact times.
    pub lateness: Duration,
    /// On average one in this many flows is cancelled (FTN12 §2.2.3); 0 for none.
    pub cancel_one_in: u32,
    /// How long after its start a flow may be cancelled.
    pub cancel_within: Duration,
    /// Whether error handlers of the flow may recover from a panic in a callback. Otherwise a panic
    /// fails the simulation, also if a handler recovers: it is a broken check or a bug.
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
