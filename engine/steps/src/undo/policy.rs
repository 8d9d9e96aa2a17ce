//! The options of an undo (FTN12 §1.3).

use std::time::Duration;

use crate::retry::Retry;

/// How long an undo may take by default: long enough for a slow service, and short enough for a
/// graceful close.
const LIMIT: Duration = Duration::from_secs(30);

/// How an undo is run, see [`Added::undo_with`](crate::Added::undo_with) (FTN12 §1.3).
#[derive(Clone, Debug)]
#[must_use = "it does nothing by itself"]
pub struct UndoPolicy {
    pub(super) timeout: Duration,
    pub(super) retry: Option<Retry>,
}

impl Default for UndoPolicy {
    /// One attempt of at most 30 s.
    fn default() -> Self {
        Self { timeout: LIMIT, retry: None }
    }
}

impl UndoPolicy {
    /// Limits the time of each attempt: 30 s by default.
    pub fn timeout(self, limit: Duration) -> Self {
        Self { timeout: limit, ..self }
    }

    /// Tries the undo again when it fails, with any error unless the policy [names](Retry::on) some. By default it is
    /// tried once.
    pub fn retry(self, retry: Retry) -> Self {
        Self { retry: Some(retry.of_undo()), ..self }
    }

    /// How long an attempt may take, and how the undo is tried again.
    #[must_use]
    pub fn into_parts(self) -> (Duration, Option<Retry>) {
        (self.timeout, self.retry)
    }
}
