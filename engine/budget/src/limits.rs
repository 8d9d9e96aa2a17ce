//! The limits of a budget, and their usage.

/// How much may run and wait at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a program must choose each limit")]
pub struct Limits {
    /// Requests that may run at once; 0 refuses everything.
    pub concurrent: usize,
    /// Requests that may wait; 0 means no queue.
    pub queued: usize,
    /// Bytes that both may take, by their estimates.
    pub memory: usize,
}

impl Default for Limits {
    /// 10,000 running requests and 256 MB: a small server has as much to spare. 1,000 in the queue:
    /// enough for clients to take turns, and few enough that most of them do not time out there.
    fn default() -> Self {
        Self { concurrent: 10_000, queued: 1_000, memory: 256 << 20 }
    }
}

/// The current usage of a budget, and its decisions so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Running now.
    pub running: usize,
    /// Waiting now.
    pub queued: usize,
    /// Bytes taken by both.
    pub memory: usize,
    /// Clients with waiting requests now.
    pub clients: usize,
    /// Admitted so far.
    pub admitted: u64,
    /// Refused so far, including requests that were displaced from the queue.
    pub refused: u64,
    /// Withdrawn so far while they waited.
    pub withdrawn: u64,
}
