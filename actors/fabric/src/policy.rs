//! How often and how long a call is tried.

use std::time::Duration;

/// How a [`Client`](crate::Client) calls a function.
///
/// Unless something is set, a call is tried once more if it was not carried out, since another node may
/// take it then, and has the time limit of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a client has policies"]
pub struct CallPolicy {
    pub(crate) attempts: u32,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) is_idempotent: bool,
    pub(crate) hedge_after: Option<Duration>,
}

impl CallPolicy {
    /// Two attempts, the second only if the first was not carried out.
    pub const fn new() -> Self {
        Self { attempts: 2, attempt_timeout: None, is_idempotent: false, hedge_after: None }
    }

    /// At most `attempts` attempts in all; 0 counts as 1.
    pub const fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// Limits the time of each attempt, within the limit of the call. Its outcome is unknown then, so that only an
    /// [idempotent](Self::idempotent) function is tried again.
    pub const fn attempt_timeout(self, limit: Duration) -> Self {
        Self { attempt_timeout: Some(limit), ..self }
    }

    /// The function may be carried out several times for one call, to the same effect: it is tried again
    /// also if the outcome of an attempt is unknown.
    pub const fn idempotent(self) -> Self {
        Self { is_idempotent: true, ..self }
    }

    /// Makes another attempt in parallel to the first if that has no answer after `pause`, takes the first answer of
    /// the two, and cancels the other one. For [idempotent](Self::idempotent) functions; this says that the function is
    /// one.
    pub const fn hedge_after(self, pause: Duration) -> Self {
        Self { hedge_after: Some(pause), is_idempotent: true, ..self }
    }
}

impl Default for CallPolicy {
    fn default() -> Self {
        Self::new()
    }
}
