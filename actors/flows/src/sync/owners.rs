//! Who holds a lock, and who waits for it.

use std::time::Duration;

use asyncsteps_core::Identity;

use super::waiter::Holder;

/// Who holds a key of a lock, and who waits for it, as a moment ago.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyOwners {
    /// Those inside, in no particular order.
    pub inside: Vec<LockOwner>,
    /// The waiting ones, the next one first.
    pub waiting: Vec<WaitingOwner>,
}

/// The owner of a lock, or a waiter for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockOwner {
    /// A flow, or one of its branches (FTN12 §1.11.4).
    Flow(Identity),
    /// A call outside of flows, such as [`Mutex::lock`](super::Mutex::lock), or a message.
    Call,
}

/// A waiter in the queue of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingOwner {
    /// The waiter.
    pub owner: LockOwner,
    /// For how long.
    pub waited: Duration,
}

impl LockOwner {
    /// The flow or branch; `None` for a call outside of flows.
    #[must_use]
    pub fn flow(self) -> Option<Identity> {
        match self {
            Self::Flow(identity) => Some(identity),
            Self::Call => None,
        }
    }
}

impl From<Holder> for LockOwner {
    fn from(holder: Holder) -> Self {
        match holder {
            Holder::Branch(identity) => Self::Flow(identity),
            Holder::Call(_) => Self::Call,
        }
    }
}
