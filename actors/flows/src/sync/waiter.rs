//! The common parts of locks: holders, and waiters that are notified when their turn has come.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use asyncsteps_core::{Completion, Error, Identity, codes};

/// A holder of a lock, or a waiter for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    /// A flow or one of its branches, which may enter again.
    Branch(Identity),
    /// One call of `lock` outside of flows.
    Call(u64),
}

/// Distinguishes the number of a call from the number of a branch.
const CALL: u64 = 1 << 63;

impl Holder {
    /// The holder as one number, neither 0 nor the greatest; `None` for the few that do not fit.
    pub(super) fn to_bits(self) -> Option<u64> {
        match self {
            Self::Branch(identity) => identity.to_bits().map(NonZeroU64::get),
            Self::Call(number) => (number < CALL >> 1).then_some(CALL | number),
        }
    }

    /// The holder with this number; `None` if no holder has it.
    pub(super) fn from_bits(bits: u64) -> Option<Self> {
        if bits & CALL == 0 {
            return NonZeroU64::new(bits).and_then(Identity::from_bits).map(Self::Branch);
        }
        let number = bits & !CALL;
        (number < CALL >> 1).then_some(Self::Call(number))
    }

    /// The flow or branch; `None` for a call.
    pub(super) fn branch(self) -> Option<Identity> {
        match self {
            Self::Branch(identity) => Some(identity),
            Self::Call(_) => None,
        }
    }

    /// A new call.
    pub(super) fn call() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::Call(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A waiter in a queue. It is notified after the lock of the accounting is released, because that
/// wakes foreign code.
#[derive(Debug)]
pub(super) enum LockWaiter {
    Step(Completion),
    /// A future, which looks for itself whether it has entered.
    Future(Waker),
}

impl LockWaiter {
    /// It left the queue and has entered. If its step has ended, its guard is about to be dropped
    /// and passes the turn on.
    pub(super) fn admit(self) {
        match self {
            Self::Step(step) => drop(step.success(())),
            Self::Future(future) => future.wake(),
        }
    }

    /// It left the queue and will not enter.
    pub(super) fn fail(self, error: Error) {
        match self {
            Self::Step(step) => drop(step.fail(error)),
            Self::Future(future) => future.wake(),
        }
    }
}

/// A queue is full (FTN12 §1.11.6).
pub(super) fn rejected(why: &'static str) -> Error {
    Error::with_info(codes::DEFENSE_REJECTED, why)
}

/// The text of an object: its kind, and its name and key if it has them.
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
