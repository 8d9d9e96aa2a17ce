//! How many requests a client cancels.

use std::time::Duration;

use asyncsteps_core::Time;

/// Requests that their client cancelled, in the second that began at a time.
#[derive(Clone, Copy)]
pub(super) struct Resets {
    since: Time,
    count: u32,
}

impl Resets {
    pub(super) fn new(now: Time) -> Self {
        Self { since: now, count: 0 }
    }

    pub(super) fn count(&mut self, resets: u32, now: Time) {
        *self = if now.saturating_since(self.since) < Duration::from_secs(1) {
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
