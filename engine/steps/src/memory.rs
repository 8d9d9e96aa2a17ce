//! What steps remember of an earlier run of their flow, for hosts with flows that survive a crash.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use crate::args::Args;
use crate::error::Error;
use crate::time::Time;

/// What a host remembers of a step, so that a flow which runs again from the top goes on where an
/// earlier run of it ended; see [`Added::remembered`](crate::Added::remembered).
///
/// The engine asks when the step starts, and tells what it decides. It waits for nothing: a host that
/// writes to a disk has the bodies wait that come next.
pub trait Memory {
    /// How the step ended in an earlier run. Asked once, before the step takes its locks.
    fn recall(&self) -> Recall;

    /// The attempts that failed in an earlier run: how many, and when the next one may start. Asked when
    /// the first attempt of this run would start.
    fn attempts(&self) -> Option<(u32, Time)>;

    /// The time limit of an attempt, or of all attempts together, that starts now: what is left of
    /// `limit`.
    fn time_left(&self, limit: Limit, of: Duration, now: Time) -> Duration;

    /// The time limit of an attempt, or of all attempts together, has passed: what is left of `of` all the
    /// same, because some of the time does not count. Nothing by default.
    fn left_at_limit(&self, _limit: Limit, _of: Duration, _now: Time) -> Duration {
        Duration::ZERO
    }

    /// An attempt failed with this error, and the next one starts at `next`.
    fn retries(&self, attempt: u32, error: &Error, next: Time);

    /// The step fails with this error, or one attempt of a step that is tried again, before what is
    /// inside of it is undone. `undoes` tells whether there is something to undo.
    fn fails(&self, attempt: Option<u32>, error: &Error, undoes: bool);
}

/// How a step ended in an earlier run of its flow.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "each answer needs its own behaviour")]
pub enum Recall {
    /// It did not end: the step runs.
    Nothing,
    /// With this result, which the step gives again without running.
    Done(Args),
    /// With this error, which the step raises again without running.
    Failed {
        /// The error.
        error: Error,
        /// Whether the step has to be undone all the same, as [`Undo::Unknown`](crate::Undo::Unknown).
        undoes: bool,
        /// What the step waits for before it raises the error.
        after: Option<After>,
    },
    /// The step must not run in this flow any more, because the step around it fails. It waits for that.
    Never {
        /// Whether its body began, so that the step has to be undone.
        undoes: bool,
    },
}

/// What a step waits for before it ends as it did before: that others in its flow are where they were.
pub struct After(Pin<Box<dyn Future<Output = ()>>>);

impl After {
    /// It waits for this.
    pub fn new(future: impl Future<Output = ()> + 'static) -> Self {
        Self(Box::pin(future))
    }

    pub(crate) fn into_future(self) -> impl Future<Output = ()> {
        self.0
    }
}

impl fmt::Debug for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("After")
    }
}

/// Whose time limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a step has no other limits")]
pub enum Limit {
    /// That of one attempt, see [`Added::timeout`](crate::Added::timeout).
    Attempt(u32),
    /// That of all attempts, see [`Retry::within`](crate::Retry::within).
    Overall,
}
