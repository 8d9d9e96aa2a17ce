//! Messages that cannot be answered: nothing tells what the answer would be to.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use asyncsteps::Time;

use crate::channel::Channel;
use asyncsteps_actors::clock::Clock;

/// The least time between two lines of the log: a flood of such messages is one line now and then.
const QUIET: Duration = Duration::from_secs(10);

/// Counts such messages, and says when it is time for a line in the log.
pub(super) struct Unanswerable {
    clock: Clock,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    all: u64,
    /// How many of them the log tells of, and since when.
    logged: u64,
    at: Option<Time>,
}

impl Unanswerable {
    pub(super) fn new() -> Self {
        Self { clock: Clock::start(), counts: Mutex::default() }
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).all
    }

    pub(super) fn note(&self, channel: &Channel) {
        let now = self.clock.now();
        let news = self.counts.lock().unwrap_or_else(PoisonError::into_inner).add(now);
        if let Some(count) = news {
            let (kind, peer) = (channel.kind().name(), channel.peer());
            tracing::warn!(count, channel = kind, ?peer, "messages that cannot be answered");
        }
    }
}

impl Counts {
    /// Counts one; gives how many the log does not tell of yet, if it is time to.
    fn add(&mut self, now: Time) -> Option<u64> {
        self.all += 1;
        if self.at.is_some_and(|at| now.saturating_since(at) < QUIET) {
            return None;
        }
        let news = self.all - self.logged;
        (self.at, self.logged) = (Some(now), self.all);
        Some(news)
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
