//! Why a flow does not go on (FTN12 §1.7 `async_stack`), for consoles and logs.

use std::fmt;
use std::sync::Arc;

use super::identity::Identity;
use super::wait_id::WaitId;
use crate::location::StepLocation;
use crate::time::Time;

/// A branch of a flow that is not over, and why it does not go on (FTN12 §1.7).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// The parallel branch, 0 for the root.
    pub branch: u32,
    /// The steps in progress, those around the parallel steps included, outermost first.
    pub stack: Vec<StepLocation>,
    /// The current attempt of the innermost step with retries, from 1; see [`Retry`](crate::Retry).
    pub attempt: u32,
    /// The event that would make it go on.
    pub reason: WaitReason,
    /// The kind of that, in one word.
    pub cause: WaitCause,
    /// The name of the wait, to complete it with [`Execution::complete`](super::Execution::complete);
    /// for a step that waits for a completion from outside.
    pub id: Option<WaitId>,
    /// When the nearest time limit of a step around it expires.
    pub limit: Option<Time>,
    /// The step with this limit.
    pub limited_by: Option<StepLocation>,
    /// Who holds the object that it waits for, if the object reports it.
    pub contention: Option<Contention>,
}

/// The reason why a branch of a flow waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitReason {
    /// Nothing: it goes on in the flow's next turn.
    Turn,
    /// A completion from outside (FTN12 §1.3).
    External,
    /// An object that describes the wait, such as a lock and its queue (FTN12 §1.11).
    Object(String),
    /// A future (FTN12 §1.13).
    Future,
    /// A point in time, on the clock of the host.
    Until(Time),
    /// The undo of the steps inside of a step that failed; its error goes on afterwards.
    Undo,
    /// Only a time limit or a cancel ends the wait.
    End,
}

/// The kind of a [`WaitReason`], to count waits by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum WaitCause {
    /// [`WaitReason::Turn`].
    Turn,
    /// [`WaitReason::External`].
    External,
    /// [`WaitReason::Object`] of this [kind](Awaitable::kind).
    Object(&'static str),
    /// [`WaitReason::Future`].
    Future,
    /// [`WaitReason::Until`].
    Pause,
    /// [`WaitReason::Undo`].
    Undo,
    /// [`WaitReason::End`].
    End,
}

impl WaitCause {
    /// One word: `turn`, `external`, the kind of an object, `future`, `pause`, `undo` or `end`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::External => "external",
            Self::Object(kind) => kind,
            Self::Future => "future",
            Self::Pause => "pause",
            Self::Undo => "undo",
            Self::End => "end",
        }
    }
}

/// Who has an object that a step waits for, and who else waits for it, as a moment ago
/// (FTN12 §1.11).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "objects outside of this crate make it")]
pub struct Contention {
    /// The kind of object, such as `mutex`.
    pub kind: &'static str,
    /// Its name; empty if it has none.
    pub name: &'static str,
    /// Its key; empty if it has none.
    pub key: Arc<str>,
    /// The flows and branches that have it: at most [`Contention::MOST`], and none that is not a flow.
    pub holders: Vec<Identity>,
    /// How many have it in all.
    pub all_holders: usize,
    /// How many wait for it before this one; `None` if its turn has come.
    pub ahead: Option<usize>,
    /// How many wait for it in all.
    pub queued: usize,
}

impl Contention {
    /// The most [`holders`](Self::holders) that are reported: an object may have any number.
    pub const MOST: usize = 16;
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn => f.write_str("its turn"),
            Self::External => f.write_str("a completion from outside"),
            Self::Object(what) => f.write_str(what),
            Self::Future => f.write_str("a future"),
            Self::Until(at) => {
                let seconds = at.since_epoch().as_secs_f64();
                write!(f, "until {} s", (seconds * 1000.0).round() / 1000.0)
            }
            Self::Undo => f.write_str("the undo of what failed"),
            Self::End => f.write_str("a time limit or a cancel"),
        }
    }
}

/// An object that steps wait for and that can describe the wait (FTN12 §1.7).
pub trait Awaitable {
    /// What `waiter` waits for, such as "mutex `stock`, position 2 of 5".
    fn describe(&self, waiter: Identity) -> String;

    /// Its kind, in one word, to count waits by; `object` unless an implementation says otherwise.
    fn kind(&self) -> &'static str {
        "object"
    }

    /// Who holds what `waiter` waits for; `None` unless an implementation reports it.
    fn contention(&self, waiter: Identity) -> Option<Contention> {
        let _ = waiter;
        None
    }
}
