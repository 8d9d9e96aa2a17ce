//! Messages that are no requests: counted, and logged now and then.

use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use asyncsteps_core::Time;
use parking_lot::Mutex;

/// The least time between two lines of the log, so that a flood of messages does not flood it.
const QUIET: Duration = Duration::from_secs(10);

/// Counts messages of one kind, and says when a line of the log is due.
pub(super) struct MessageCount {
    clock: Clock,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    all: u64,
    /// The messages that are in the log, up to its last line.
    logged: u64,
    at: Option<Time>,
}

impl MessageCount {
    pub(super) fn new() -> Self {
        Self { clock: Clock::start(), counts: Mutex::default() }
    }

    pub(super) fn all(&self) -> u64 {
        self.counts.lock().all
    }

    /// Counts a message; returns how many are not in the log yet, if a line is due.
    pub(super) fn add(&self) -> Option<u64> {
        let now = self.clock.now();
        self.counts.lock().add(now)
    }
}

impl Counts {
    /// Counts a message; returns how many are not in the log yet, if a line is due.
    fn add(&mut self, now: Time) -> Option<u64> {
        self.all += 1;
        if self.at.is_some_and(|at| now.saturating_since(at) < QUIET) {
            return None;
        }
        let unlogged = self.all - self.logged;
        (self.at, self.logged) = (Some(now), self.all);
        Some(unlogged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_logged_now_and_then() {
        let mut counts = Counts::default();
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        assert_eq!(counts.add(at(0)), Some(1));
        assert!((0..1_000).all(|_| counts.add(at(9)).is_none()));
        assert_eq!(counts.add(at(10)), Some(1_001));
        assert_eq!(counts.add(at(19)), None);
        assert_eq!(counts.add(at(3_600)), Some(2));
        assert_eq!(counts.all, 1_004);
    }
}
