//! How many requests a client cancels.

use std::time::Duration;

use tokio::time::Instant;

/// Requests that their client cancelled, in the second that began at a time.
#[derive(Clone, Copy)]
pub(super) struct Resets {
    since: Instant,
    count: u32,
}

impl Resets {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, count: 0 }
    }

    pub(super) fn count(&mut self, resets: u32, now: Instant) {
        *self = if now.saturating_duration_since(self.since) < Duration::from_secs(1) {
            Self { count: self.count.saturating_add(resets), ..*self }
        } else {
            Self { since: now, count: resets }
        };
    }

    /// Whether there were more within a second.
    pub(super) fn are_over(&self, most: u32) -> bool {
        self.count > most
    }
}
