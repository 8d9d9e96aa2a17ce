//! What goes wrong in a cluster, and how often.

use std::time::Duration;

/// How often things go wrong: each rate is how many times in a virtual second it happens to a node.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "it is given to `Cluster::faults`"]
pub struct Faults {
    pub(crate) kills: f64,
    pub(crate) stops: f64,
    pub(crate) jumps: f64,
    pub(crate) stalls: f64,
    pub(crate) errors: f64,
    pub(crate) most_jump: Duration,
    pub(crate) most_stall: Duration,
}

impl Faults {
    /// Nothing goes wrong.
    pub const fn none() -> Self {
        Self {
            kills: 0.0,
            stops: 0.0,
            jumps: 0.0,
            stalls: 0.0,
            errors: 0.0,
            most_jump: Duration::from_secs(25 * 3600),
            most_stall: Duration::from_secs(2),
        }
    }

    /// Each kind of fault: a kill in 100 s, a stop and a jump of the clock in 200 s, a stall of the journal in 50 s, and
    /// one operation of the journal in 200 that fails or whose answer is lost.
    pub const fn all() -> Self {
        Self {
            kills: 0.01,
            stops: 0.005,
            jumps: 0.005,
            stalls: 0.02,
            errors: 0.005,
            ..Self::none()
        }
    }

    /// A node is killed, and starts again within 20 s.
    pub const fn kills(self, per_second: f64) -> Self {
        Self { kills: per_second, ..self }
    }

    /// A node does not run for up to 30 s, as after SIGSTOP, and then goes on.
    pub const fn stops(self, per_second: f64) -> Self {
        Self { stops: per_second, ..self }
    }

    /// The time of day of a node jumps by up to `most`, forward or back.
    pub const fn clock_jumps(self, per_second: f64, most: Duration) -> Self {
        Self { jumps: per_second, most_jump: most, ..self }
    }

    /// The journal answers a node no sooner than after up to `most`.
    pub const fn slow_disk(self, per_second: f64, most: Duration) -> Self {
        Self { stalls: per_second, most_stall: most, ..self }
    }

    /// An operation of the journal is not done, or its answer is lost, with this probability.
    pub const fn disk_errors(self, probability: f64) -> Self {
        Self { errors: probability, ..self }
    }
}

/// How often something went wrong, and how often that was while requests were open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Struck {
    /// Nodes that were killed.
    pub kills: u32,
    /// Those that ran a request then.
    pub kills_in_flight: u32,
    /// Nodes that stood still for a time.
    pub stops: u32,
    /// Clocks that jumped.
    pub jumps: u32,
    /// Times in which the journal was slow.
    pub stalls: u32,
    /// Operations of the journal that were not done.
    pub not_done: u32,
    /// Operations of the journal whose answer was lost.
    pub answers_lost: u32,
}
