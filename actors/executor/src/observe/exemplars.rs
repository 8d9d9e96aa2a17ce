//! Exemplars: requests that represent others that took as long.

use std::time::{Duration, SystemTime};

use asyncsteps_actors::clock;
use asyncsteps_actors::latency::Distribution;
use asyncsteps_actors::trace::TraceParent;
use parking_lot::Mutex;

/// A request of a trace, which shows why requests took as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "figures")]
pub struct Exemplar {
    /// The trace that it belongs to.
    pub trace: TraceParent,
    /// How long it took.
    pub time: Duration,
    /// When it ended.
    pub at: SystemTime,
}

/// The last request of each bucket of a distribution whose trace was sampled.
#[derive(Debug, Default)]
pub(crate) struct Exemplars(Mutex<Vec<Option<Exemplar>>>);

impl Exemplars {
    /// Adds an ended request of a sampled trace.
    pub(crate) fn add(&self, trace: TraceParent, time: Duration) {
        let mut last = self.0.lock();
        let bucket = Distribution::bucket(time);
        if last.len() <= bucket {
            last.resize(bucket + 1, None);
        }
        last[bucket] = Some(Exemplar { trace, time, at: clock::wall() });
    }

    /// The exemplars, in ascending order of their times.
    pub(crate) fn all(&self) -> Vec<Exemplar> {
        let last = self.0.lock();
        last.iter().copied().flatten().collect()
    }
}
