//! The time limit of a request: fixed, or counted anew while raw data moves (FTN6 §1.2).

use std::time::Duration;

use asyncsteps_core::Time;

/// When the flow of a request is cancelled.
///
/// A request without raw data has one deadline. While raw data moves, the deadline is counted from
/// the last chunk; an upload below the least rate loses the time that it is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeLimit {
    deadline: Option<Time>,
    /// How long raw data may pause; zero when the handler has set a limit of its own.
    patience: Duration,
    /// How far an upload is behind its least rate.
    behind: Duration,
    /// Since when the handler waits for data of the client.
    waiting_since: Option<Time>,
}

impl TimeLimit {
    pub(super) fn new(deadline: Time, patience: Duration) -> Self {
        let (behind, waiting_since) = (Duration::ZERO, None);
        Self { deadline: Some(deadline), patience, behind, waiting_since }
    }

    /// A limit that nothing moves; `None` for no limit.
    pub(super) fn fixed(deadline: Option<Time>) -> Self {
        let (patience, behind) = (Duration::ZERO, Duration::ZERO);
        Self { deadline, patience, behind, waiting_since: None }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// The handler waits for data of the client from now on.
    pub(super) fn wait_for_data(&mut self, now: Time) {
        if !self.patience.is_zero() && self.waiting_since.is_none() {
            self.waiting_since = Some(now);
            self.deadline = Some(now + self.patience.saturating_sub(self.behind));
        }
    }

    /// Data of the client came; `rate` is the least rate in bytes per second, 0 for any.
    pub(super) fn received(&mut self, bytes: usize, rate: u64, now: Time) {
        if let Some(since) = self.waiting_since.take() {
            let worth = (bytes as u64).saturating_mul(1_000_000).checked_div(rate);
            let worth = worth.map_or(Duration::MAX, Duration::from_micros);
            self.behind = (self.behind + now.saturating_since(since)).saturating_sub(worth);
        }
        self.wait_for_client(Duration::ZERO, now);
    }

    /// It is up to the client to take data; it has `at_least` this long.
    pub(super) fn wait_for_client(&mut self, at_least: Duration, now: Time) {
        if !self.patience.is_zero() {
            self.deadline = Some(now + self.patience.max(at_least));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn each_chunk_at_the_least_rate_renews_the_whole_limit() {
        let mut limit = TimeLimit::new(at(5), Duration::from_secs(5));
        for second in 1..100 {
            limit.wait_for_data(at(second - 1));
            limit.received(1_000, 1_000, at(second));
            assert_eq!(limit.deadline(), Some(at(second + 5)));
        }
    }

    #[test]
    fn a_trickle_uses_its_limit_up() {
        let mut limit = TimeLimit::new(at(5), Duration::from_secs(5));
        for second in 1..5 {
            limit.wait_for_data(at(second - 1));
            limit.received(1, 1_000, at(second));
        }
        limit.wait_for_data(at(4));
        assert!(limit.deadline().is_some_and(|deadline| deadline < at(6)));
    }

    #[test]
    fn a_limit_of_the_handler_is_not_moved() {
        let mut limit = TimeLimit::fixed(None);
        limit.wait_for_data(at(1));
        limit.received(1, 1_000, at(2));
        limit.wait_for_client(Duration::from_secs(60), at(3));
        assert_eq!(limit, TimeLimit::fixed(None));
    }
}
