//! Limits of a budget, and how they are used.

/// How much may run and wait at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "code that sets limits has to decide on a new one too"
)]
pub struct Limits {
    /// Permits at once; 0 refuses every request.
    pub concurrent: usize,
    /// Requests in the queue; 0 means no queue.
    pub queued: usize,
    /// Bytes of the requests with a permit and in the queue, as they are estimated.
    pub memory: usize,
}

impl Default for Limits {
    /// 10,000 permits and 256 MB: what a small server has to spare. 1,000 in the queue: enough for
    /// clients to take turns, and few enough that most get their permit before they time out.
    fn default() -> Self {
        Self { concurrent: 10_000, queued: 1_000, memory: 256 << 20 }
    }
}

/// How a budget is used now, and what it decided so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Permits now.
    pub running: usize,
    /// Requests in the queue now.
    pub queued: usize,
    /// Bytes of both.
    pub memory: usize,
    /// Clients with a request in the queue now.
    pub clients: usize,
    /// Permits given so far.
    pub admitted: u64,
    /// Requests refused so far, those that were displaced from the queue included.
    pub refused: u64,
    /// Requests so far that left the queue by themselves.
    pub withdrawn: u64,
}
