//! A path of waits, as processes send it to each other.

use serde::{Deserialize, Serialize};

/// The waits from one that began to something that another process has, for that process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WaitPath {
    pub(super) waits: Vec<PathWait>,
    /// How many waits of a cycle are left to follow until it is over; `None` while it is no cycle.
    pub(super) left: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct PathWait {
    /// When it began, in microseconds since 1970, by the clock of its process; 0 for a call, which does not fail.
    pub(super) began: u64,
    /// Its number among the waits of its process, and a random one of the process.
    pub(super) id: (u64, u64),
    pub(super) text: String,
}
