//! The limits of a throttle between machines.

use std::time::Duration;

use crate::error::Error;

/// How many entries there may be in a period, on all nodes together, and how they are counted. All nodes
/// have the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many entries there may be in a period, at least 1.
    pub max: u32,
    /// The length of a period: 1 s by default, from 10 ms to an hour.
    pub period: Duration,
    /// How many flows of one node may wait for the next period; 0 by default, `None` = no limit.
    pub max_queue: Option<u32>,
    /// Where entries are counted: each node has a share by default.
    pub counting: Counting,
}

/// Where entries are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counting {
    /// On each node, which has an equal share of `max` in each period: an entry asks no server. A node that has no
    /// entries for a third of its lease returns its share. A new node gets its share when the others have renewed
    /// theirs, within a third of a lease, and the period in which they have used some of it has ended. So the shares
    /// never exceed `max` together, and a busy node cannot use what an idle one has left for so long.
    Shares(OnDisconnect),
    /// In the database, with a request for each entry: exact, and slower. While the database is
    /// unreachable, entries fail with DefenseRejected.
    Exact,
}

/// What happens on a disconnect, to the share of a node that cannot renew its lease because the database is
/// unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDisconnect {
    /// Entries fail with DefenseRejected: the other nodes may have the share by now.
    Reject,
    /// The node goes on with the share that it had. If the database is unreachable for this node only, others
    /// have its share too: then there is no bound on the sum.
    GoOn,
}

impl Rate {
    /// `max` entries per second on all nodes, no queue, and shares that end with the lease.
    #[must_use]
    pub const fn per_second(max: u32) -> Self {
        let period = Duration::from_secs(1);
        Self { max, period, max_queue: Some(0), counting: Counting::Shares(OnDisconnect::Reject) }
    }

    /// Checks limits that come from outside.
    ///
    /// # Errors
    /// [`Error::Config`], which names the limit.
    pub fn check(&self) -> Result<(), Error> {
        if self.max == 0 {
            return Err(Error::Config("the `max` of a throttle is 0: no flow could enter".into()));
        }
        let (shortest, longest) = (Duration::from_millis(10), Duration::from_secs(3600));
        if !(shortest..=longest).contains(&self.period) {
            return Err(Error::Config(format!(
                "the period of a throttle is {:?}, not between {shortest:?} and {longest:?}",
                self.period
            )));
        }
        Ok(())
    }
}
