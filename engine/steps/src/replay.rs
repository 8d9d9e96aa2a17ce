//! Replay: the memory of steps of an earlier run of their flow, for hosts with flows that survive a crash.

use std::fmt;
use std::time::Duration;

use crate::args::Args;
use crate::error::Error;
use crate::flow::Identity;
use crate::time::Time;

/// The hooks by which a host replays a step from its memory, so that a flow which runs again from the top goes on where
/// an earlier run of it ended; see [`Added::remembered`](crate::Added::remembered).
///
/// The engine asks when the step starts, and reports what it decides. It waits for nothing: a host
/// that writes to a disk makes the next bodies wait.
pub trait ReplayHooks {
    /// How the step ended in an earlier run. Asked once, before the step takes its locks.
    fn recall(&self) -> Replay;

    /// The attempts that failed in an earlier run: how many, and when the next one may start. Asked when
    /// the first attempt of this run would start.
    fn attempts(&self) -> Option<(u32, Time)>;

    /// The time that is left of `limit`, of an attempt or of all attempts together, at `now`: when it begins, and when it
    /// has passed.
    fn time_left(&self, limit: Limit, of: Duration, now: Time, turn: LimitTurn<'_>) -> Duration;

    /// Whether the time limit of an attempt, or of all attempts together, ends the step no more: it is extended for as
    /// long as the step takes. Such a limit does not [count](crate::AsyncSteps::is_limited) for waits inside. By
    /// default each limit ends its step.
    fn is_lifted(&self, _limit: Limit) -> bool {
        false
    }

    /// The step fails with this error, or one attempt of a step that is tried again: before the steps inside of it are
    /// undone, and once more when the next attempt waits for its turn.
    ///
    /// Also when the body of a [shielded](crate::Added::shielded) step fails that was cancelled before.
    fn fails(&self, attempt: Option<u32>, error: &Error, then: Then);
}

/// What happens to a time limit.
#[expect(clippy::exhaustive_enums, reason = "no more happens to it")]
pub enum LimitTurn<'a> {
    /// It begins.
    Begins,
    /// It has passed: the step goes on all the same for the time that is left, because some of the time does not count.
    /// Then this is asked again. Zero ends the step. One that [is lifted](ReplayHooks::is_lifted) may need the branches of
    /// the flow, and whether another limit ends their wait.
    Passes(&'a mut dyn FnMut() -> Vec<(Identity, bool)>),
}

impl fmt::Debug for LimitTurn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if let Self::Begins = self { "Begins" } else { "Passes" })
    }
}

/// What follows the failure of a step or of an attempt.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "each needs its own behaviour")]
pub enum Then {
    /// The steps inside are undone, and the step is if it can be.
    Unwinds {
        /// Whether there is something to undo.
        undoes: bool,
    },
    /// The next attempt starts at this time.
    Retries(Time),
}

/// The error of an undo that the host of the flow does not let run. Nothing was undone, which is no failure: it is not
/// tried again, and not reported by [`take_undone`](crate::Execution::take_undone).
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "its name says all")]
pub struct NotUndone;

impl fmt::Display for NotUndone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the host does not let the undo run")
    }
}

impl std::error::Error for NotUndone {}

/// How a step ended in an earlier run of its flow.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "each answer needs its own behaviour")]
pub enum Replay {
    /// Nothing: the step runs.
    Nothing,
    /// It began, and did not end: the step runs, and has to be undone as
    /// [`Undo::Unknown`](crate::Undo::Unknown) unless it ends well.
    Begun,
    /// With this result, which the step returns again without running.
    Done(Args),
    /// With this error, which the step raises again without running.
    Failed {
        /// The error.
        error: Error,
        /// Whether the step has to be undone all the same, as [`Undo::Unknown`](crate::Undo::Unknown).
        undoes: bool,
    },
    /// The step must not run in this flow any more, because the step around it fails. It waits for that.
    Never {
        /// Whether its body began, so that the step has to be undone.
        undoes: bool,
    },
}

/// Whose time limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a step has no other limits")]
pub enum Limit {
    /// The limit of one attempt, see [`Added::timeout`](crate::Added::timeout).
    Attempt(u32),
    /// The limit of all attempts, see [`Retry::within`](crate::Retry::within).
    Overall,
}
