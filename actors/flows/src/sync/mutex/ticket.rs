//! A lock that is held by name.

use std::sync::Arc;

use asyncsteps_core::Arg;
use parking_lot::Mutex;

use super::guard::{KeyGuard, LockGuard};
use super::state::{MutexFamily, MutexKeyState};

/// Names a lock that is held, to be released by [`Unlock`](crate::sync::Unlock); made of a guard by
/// [`LockGuard::into_ticket`](super::LockGuard::into_ticket).
///
/// It can be sent, cloned and kept in messages. The lock is free again when one of the clones is used
/// to unlock it, or when the last of them is dropped.
#[derive(Clone, derive_more::Debug)]
#[debug(
    "LockTicket {{ name: {:?}, key: {:?}, held: {:?} }}",
    self.0.state.name(), self.key(), self.is_held()
)]
#[must_use = "dropping the last clone unlocks"]
pub struct LockTicket(Arc<TicketState>);

struct TicketState {
    state: Arc<MutexKeyState>,
    /// Taken when the lock is released.
    guard: Mutex<Option<KeyGuard>>,
}

/// Why a lock was not released by a ticket; then nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The ticket is one of another object; its lock is still held.
    #[error("the ticket belongs to another object")]
    Foreign,
    /// The lock was released before.
    #[error("the lock was given back before")]
    NotHeld,
}

impl LockGuard {
    /// Makes a ticket of the guard, for [`Unlock`](crate::sync::Unlock).
    pub fn into_ticket(self) -> LockTicket {
        let state = Arc::clone(self.0.state());
        LockTicket(Arc::new(TicketState { state, guard: Mutex::new(Some(self.0)) }))
    }
}

impl LockTicket {
    /// The key that is locked; empty for the object itself.
    #[must_use]
    pub fn key(&self) -> &str {
        self.0.state.key()
    }

    /// Whether the lock is still held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.guard.lock().is_some()
    }

    /// Releases the lock, if it belongs to this family.
    pub(super) fn unlock(&self, family: &Arc<MutexFamily>) -> Result<(), UnlockError> {
        if !Arc::ptr_eq(self.0.state.family(), family) {
            return Err(UnlockError::Foreign);
        }
        let guard = self.0.guard.lock().take();
        // dropped when the ticket is free again: it wakes the next waiter
        guard.map(drop).ok_or(UnlockError::NotHeld)
    }
}

impl Arg for LockTicket {}
