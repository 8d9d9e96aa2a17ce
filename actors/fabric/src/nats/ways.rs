//! How late requests are that waited on their way, although the clocks of two machines differ.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::calls::is_of_node;

/// How long the shortest way counts at least; a clock that was set is believed after twice as long.
const PERIOD: Duration = Duration::from_secs(10);

/// The most callers whose ways are known.
const MAX_CALLERS: usize = 10_000;

/// The ways of requests by caller: from the clock of the caller to the clock here. What a way is longer than the
/// shortest one of late, the request has waited.
#[derive(Debug)]
pub(super) struct Ways {
    /// How far clocks may differ.
    max_difference: Duration,
    shortest: Mutex<BTreeMap<Box<str>, ShortestWay>>,
}

/// The shortest way of a caller, in milliseconds, in this period and in the one before.
#[derive(Debug)]
struct ShortestWay {
    since: Instant,
    now: i64,
    before: i64,
}

impl Ways {
    pub(super) fn new(max_difference: Duration) -> Self {
        Self { max_difference, shortest: Mutex::default() }
    }

    /// How long a request has waited on its way that took this number of milliseconds, by clocks that differ. Of a caller
    /// that is not known, a way as long as clocks may differ counts as no wait.
    pub(super) fn wait(&self, reply: &str, way: i64) -> Duration {
        let max = i64::try_from(self.max_difference.as_millis()).unwrap_or(i64::MAX);
        let possible = way.clamp(-max, max);
        let inbox = reply.rsplit_once('.').filter(|_| is_of_node(reply));
        let shortest = inbox.map_or(possible, |(inbox, _)| self.shortest(inbox, possible));
        Duration::from_millis(u64::try_from(way.saturating_sub(shortest)).unwrap_or_default())
    }

    fn shortest(&self, inbox: &str, way: i64) -> i64 {
        let mut callers = self.shortest.lock();
        let Some(known) = callers.get_mut(inbox) else {
            if callers.len() >= MAX_CALLERS {
                callers.clear();
            }
            callers
                .insert(inbox.into(), ShortestWay { since: Instant::now(), now: way, before: way });
            return way;
        };
        if known.since.elapsed() >= PERIOD {
            *known = ShortestWay { since: Instant::now(), now: way, before: known.now };
        }
        known.now = known.now.min(way);
        known.now.min(known.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &str = "_INBOX.ftn-x.7";

    #[tokio::test]
    async fn what_a_way_is_longer_than_the_shortest_is_a_wait() {
        tokio::time::pause();
        let ways = Ways::new(Duration::from_secs(1));
        let wait = |way: i64| ways.wait(REPLY, way).as_millis();
        // of a caller that is not known
        assert_eq!((ways.wait("x", 900).as_millis(), ways.wait("x", 1_500).as_millis()), (0, 500));
        assert_eq!((wait(1_500), wait(700), wait(702), wait(30_700)), (500, 0, 2, 30_000));
        // nothing came while the server stood still
        tokio::time::advance(PERIOD * 3).await;
        assert_eq!((wait(30_700), wait(5_700), wait(700)), (30_000, 5_000, 0));
    }

    #[tokio::test]
    async fn a_clock_that_was_set_is_believed_in_the_end() {
        tokio::time::pause();
        let ways = Ways::new(Duration::from_secs(1));
        let wait = |way: i64| ways.wait(REPLY, way).as_millis();
        assert_eq!((wait(0), wait(800)), (0, 800));
        tokio::time::advance(PERIOD).await;
        assert_eq!(wait(800), 800);
        tokio::time::advance(PERIOD).await;
        assert_eq!((wait(800), wait(-300), wait(-5_000), wait(-1_000)), (0, 0, 0, 0));
        assert_eq!(wait(0), 1_000);
    }
}
