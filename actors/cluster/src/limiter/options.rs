//! The limits of a limiter between machines.

use crate::error::Error;
use crate::throttle::{Counting, OnDisconnect, Rate};

/// How many sections may run at once, and how many may begin per period, on all nodes together. All nodes
/// have the same limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many sections may run at once, at least 1. Each node has an equal share of these places, in
    /// the way of [`Counting::Shares`]; a place that is taken is granted to another node when it is
    /// free.
    pub concurrent: u32,
    /// How many flows of one node may wait for a place; `None` = no limit, 0 = no queue.
    pub max_queue: Option<u32>,
    /// How many sections may begin in a period. What it says about an unreachable database is true for
    /// the places as well; with [`Counting::Exact`], flows are refused a place then.
    pub rate: Rate,
}

impl Limits {
    /// Checks limits that come from outside.
    ///
    /// # Errors
    /// [`Error::Config`], which names the limit.
    pub fn check(&self) -> Result<(), Error> {
        if self.concurrent == 0 {
            let why = "the `concurrent` of a limiter is 0: no flow could enter";
            return Err(Error::Config(why.into()));
        }
        self.rate.check()
    }

    /// Whether a node without a lease goes on with its share.
    pub(super) fn goes_on(&self) -> bool {
        self.rate.counting == Counting::Shares(OnDisconnect::GoOn)
    }
}
