//! What the objects have in common: who owns a lock, and how a waiting one is told.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use asyncsteps::{Completion, Error, Identity, codes};

/// Whom a lock belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// A flow or one of its branches, which may enter again.
    Branch(Identity),
    /// One call of `lock` outside of flows.
    Call(u64),
}

/// Tells the number of a call from that of a branch.
const CALL: u64 = 1 << 63;

impl Owner {
    /// The owner as one number, neither 0 nor the greatest; `None` for the few that do not fit.
    pub(super) fn to_bits(self) -> Option<u64> {
        match self {
            Self::Branch(identity) => identity.to_bits().map(NonZeroU64::get),
            Self::Call(number) => (number < CALL >> 1).then_some(CALL | number),
        }
    }

    /// The owner that gave this number; `None` if none did.
    pub(super) fn from_bits(bits: u64) -> Option<Self> {
        if bits & CALL == 0 {
            return NonZeroU64::new(bits).and_then(Identity::from_bits).map(Self::Branch);
        }
        let number = bits & !CALL;
        (number < CALL >> 1).then_some(Self::Call(number))
    }

    /// An owner that nobody was before.
    pub(super) fn call() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::Call(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Tells a waiting one that it left the queue. Never used while an object is locked: it runs wakers
/// of others.
#[derive(Debug)]
pub(super) enum Grant {
    Step(Completion),
    /// It looks for itself whether it is inside.
    Task(Waker),
}

impl Grant {
    /// It is inside from now on. If its step is over, its guard is about to be dropped and passes
    /// the turn on.
    pub(super) fn enter(self) {
        match self {
            Self::Step(step) => drop(step.success(())),
            Self::Task(task) => task.wake(),
        }
    }

    /// Nobody will let it in any more.
    pub(super) fn fail(self, error: Error) {
        match self {
            Self::Step(step) => drop(step.fail(error)),
            Self::Task(task) => task.wake(),
        }
    }
}

/// A queue is full (FTN12 §1.11.6).
pub(super) fn rejected(why: &'static str) -> Error {
    Error::with_info(codes::DEFENSE_REJECTED, why)
}

/// A lock that is only held for a moment and guards no foreign code, so that a panic in between
/// leaves nothing half done.
pub(super) fn guarded<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An object for people: its kind, its name and its key, if it has them.
pub(super) struct Label<'a> {
    pub(super) kind: &'static str,
    pub(super) name: &'a str,
    pub(super) key: &'a str,
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, key } = self;
        f.write_str(kind)?;
        if !name.is_empty() {
            write!(f, " `{name}`")?;
        }
        if !key.is_empty() {
            write!(f, " key {key:?}")?;
        }
        Ok(())
    }
}

/// How busy an object is, over all of its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Keys with somebody inside or waiting, or with entries in the current period.
    pub keys: usize,
    /// Owners inside a section; a throttle knows of none.
    pub holders: usize,
    /// Owners that wait.
    pub queued: usize,
}

impl Load {
    /// No load.
    pub const NONE: Self = Self { keys: 0, holders: 0, queued: 0 };

    /// With one more key, which counts if it is in use.
    pub(super) fn with(self, in_use: bool, holders: usize, queued: usize) -> Self {
        Self {
            keys: self.keys + usize::from(in_use),
            holders: self.holders + holders,
            queued: self.queued + queued,
        }
    }
}
