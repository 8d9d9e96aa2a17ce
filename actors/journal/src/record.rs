//! The records of a flow.

use minicbor::{Decode, Encode};

use crate::id::{Epoch, RecordId, Uid};
use crate::path::Path;
use crate::time::Timestamp;
use crate::value::Value;

/// Something that happened in a flow, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The step.
    pub path: Path,
    /// The event.
    pub event: Event,
}

/// A record as a journal returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its name within the flow.
    pub id: RecordId,
    /// The record itself.
    pub record: Record,
}

/// An event. Each kind says until when it must be on disk: its append was answered by then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The flow was submitted. The journal writes it before `submit` is answered.
    Started(Started),
    /// An effect is about to begin: before a body that runs at most once, a call, or a step with undo; and where
    /// owners have died, before each body and each undo, whose record is at [`Path::undo`].
    Intent(Intent),
    /// A step ended well: before the next effect of any branch starts, a lock around the step is
    /// released, or anything of it can be seen from outside.
    Done(Done),
    /// A step failed: as [`Done`](Self::Done).
    Failed(Failed),
    /// A step made of others was decided: before the next effect. The flow does not enter it again.
    Outcome(Outcome),
    /// A wait, a time limit or a pause before the next attempt has an end: before it begins. Or the time of day
    /// decided something: before the next effect.
    Timer(Timer),
    /// A wait took a signal: before the next effect.
    Signal(TakenSignal),
    /// A collection was entered with these keys: before the first effect inside.
    Keys(Keys),
    /// An iteration of a loop has ended: before the next one. It replaces the records inside, which are
    /// removed with it.
    Iteration(Iteration),
    /// The flow undoes its effects: before the first undo.
    Unwinding(Unwinding),
    /// The flow ended: before anyone is notified.
    Ended(Ended),
}

/// The beginning of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Started {
    /// The template.
    #[n(0)]
    pub template: String,
    /// Its version, as the author counts them.
    #[n(1)]
    pub version: u32,
    /// The parameters of its call.
    #[n(2)]
    pub parameters: Value,
    /// The user that it acts for: an object of JSON, whose `lid` is the local id by which its flows are found.
    #[n(3)]
    pub user: Option<String>,
    /// When it fails unless it has ended.
    #[n(4)]
    pub deadline: Option<Timestamp>,
    /// The trace that it belongs to, as the header `traceparent` has it, and what it carries in further lines.
    #[n(5)]
    pub trace: Option<String>,
    /// The schedule that began it.
    #[n(6)]
    pub schedule: Option<String>,
    /// It was asked for, and the schedule did not begin it by itself.
    #[n(8)]
    #[cbor(default)]
    pub is_asked_for: bool,
    /// The flow that began it, if one did.
    #[n(7)]
    pub parent: Option<Parent>,
}

/// The flow that began another one.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Parent {
    /// Its name.
    #[n(0)]
    pub uid: Uid,
    /// The step of it.
    #[n(1)]
    pub step: Path,
    /// Whether that waits for the end, which wakes it.
    #[n(2)]
    pub waits: bool,
}

impl Started {
    /// The local id of its user.
    pub(crate) fn local_id(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct StoredUser {
            lid: String,
        }

        let user: StoredUser = serde_json::from_str(self.user.as_deref()?).ok()?;
        Some(user.lid)
    }
}

/// An effect that is about to begin.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Intent {
    /// When it was written.
    #[n(0)]
    pub at: Timestamp,
    /// Which attempt it is, from 1.
    #[n(1)]
    pub attempt: u32,
    /// The locks that are held meanwhile, whose tokens the effect carries.
    #[n(2)]
    pub locks: Vec<LockToken>,
    /// Whether the step had an undo; `None` in records of programs that did not say so.
    #[n(3)]
    pub has_undo: Option<bool>,
    /// The input of the step, if it is recorded with that.
    #[n(4)]
    pub input: Option<Value>,
    /// The form of the step; `None` for an undo, and in records of programs without forms.
    #[n(5)]
    pub form: Option<IntentForm>,
}

/// How a crash affects a begun effect, by the form of its step then: a program that has another form for the step now
/// does not change that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[non_exhaustive]
pub enum IntentForm {
    /// It begins again.
    #[n(0)]
    Recorded,
    /// It does not, and its outcome is unknown.
    #[n(1)]
    Once,
    /// It was not committed, so there was none.
    #[n(2)]
    Transacted,
    /// It has none: it only reads or computes.
    #[n(3)]
    Repeatable,
}

impl IntentForm {
    /// Whether it may have had an effect.
    #[must_use]
    pub const fn is_effect(self) -> bool {
        !matches!(self, Self::Repeatable)
    }

    /// The word of the step.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Recorded => "`recorded`",
            Self::Once => "`once`",
            Self::Transacted => "`transact`",
            Self::Repeatable => "`repeatable`",
        }
    }
}

/// A lock that is held, as resources know it: they refuse a lower epoch of the same lock and key.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LockToken {
    /// The lock.
    #[n(0)]
    pub lock: String,
    /// Its key.
    #[n(1)]
    pub key: String,
    /// The number of the holder, as in its fencing token.
    #[n(2)]
    pub epoch: Epoch,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Done {
    /// The result.
    #[n(0)]
    pub value: Value,
    /// Which attempt returned it, from 1.
    #[n(1)]
    pub attempt: u32,
    /// How long that attempt took, in milliseconds.
    #[n(2)]
    pub millis: u64,
}

/// The failure of a step.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Failed {
    /// The error.
    #[n(0)]
    pub failure: Failure,
    /// Which attempt failed, from 1.
    #[n(1)]
    pub attempt: u32,
    /// How long that attempt took, in milliseconds.
    #[n(2)]
    pub millis: u64,
    /// The effect of the step all the same.
    #[n(3)]
    pub effect: Effect,
    /// The error of the service behind the failure; `None` in records of programs that did not record it.
    #[n(4)]
    pub cause: Option<Cause>,
}

/// An error of a service that caused a failure: by its type, handlers of the step find it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Cause {
    /// Its code, which may differ from the code of the failure.
    #[n(0)]
    pub code: String,
    /// Its value, if that was stored.
    #[n(1)]
    pub value: Option<Value>,
}

/// The effect of a step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[non_exhaustive]
pub enum Effect {
    /// Nothing that needs an undo.
    #[n(0)]
    None,
    /// Perhaps something: it was begun and not answered, or its result could not be recorded. The undo
    /// has to find out.
    #[n(1)]
    Unknown,
}

/// An error as it is recorded: its source is not.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Failure {
    /// The code that handlers match on.
    #[n(0)]
    pub code: String,
    /// The text for people (FTN12 §1.7 `error_info`).
    #[n(1)]
    pub text: Option<String>,
}

/// How a step made of others, or a flow, came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[non_exhaustive]
pub enum Ending {
    /// With a result.
    #[n(0)]
    Completed(#[n(0)] Value),
    /// With an error.
    #[n(1)]
    Failed(#[n(0)] Failure),
    /// By a cancel.
    #[n(2)]
    Cancelled,
}

/// The decision of a step made of others.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Outcome {
    /// The part that decided, such as the branch that won a race.
    #[n(0)]
    pub winner: Option<Path>,
    /// How it ended.
    #[n(1)]
    pub ending: Ending,
}

/// The end of a wait, or a time of day that decided something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Timer {
    /// When it ends by the time of day as it was when this was written, for people; or that time.
    #[n(0)]
    pub at: Timestamp,
    /// From 2: before which attempt it is. 1: it is a time limit. 0: it is another wait, or that time of day; in
    /// journals of earlier versions also a limit.
    #[n(1)]
    pub attempt: u32,
    /// When the wait ends, as [`Reading::passed`](crate::Reading::passed) has it: so no jump of a clock makes
    /// it longer. `None` for a time of day, and for waits in journals of format 1.
    #[n(2)]
    pub ends: Option<Timestamp>,
}

/// A signal that a wait has taken.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TakenSignal {
    /// Its number in the inbox of the flow.
    #[n(0)]
    pub number: u64,
    /// Its name.
    #[n(1)]
    pub name: String,
    /// Its value.
    #[n(2)]
    pub value: Value,
}

/// The items of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Keys {
    /// Their keys, in order.
    #[n(0)]
    pub keys: Vec<String>,
}

/// An iteration that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Iteration {
    /// Which, from 0.
    #[n(0)]
    pub index: u64,
    /// The state that the loop declares, as the next iteration finds it.
    #[n(1)]
    pub state: Value,
}

/// Why and how a flow unwinds.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Unwinding {
    /// The step that failed.
    #[n(0)]
    pub failed: Path,
    /// With what.
    #[n(1)]
    pub failure: Failure,
    /// The error of the application that caused it, as [`Failed`] has it.
    #[n(3)]
    pub cause: Option<Cause>,
}

/// The end of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Ended {
    /// How it ended.
    #[n(0)]
    pub ending: Ending,
}

impl Record {
    /// An event at a path.
    #[must_use]
    pub const fn new(path: Path, event: Event) -> Self {
        Self { path, event }
    }
}
