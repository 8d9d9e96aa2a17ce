//! Holding a lock, and waiting for it.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use asyncsteps_core::sync::mutex::{LockOutcome, Ticket};
use asyncsteps_core::{Arg, Error};

use super::state::{MutexKeyState, MutexWaiter};
use crate::sync::deadlock::HoldsUp;
use crate::sync::waiter::{Holder, LockWaiter, rejected};

/// A lock that was taken outside of flows. Dropping it, on any thread, releases the lock.
#[derive(derive_more::Debug)]
#[debug("LockGuard {{ name: {:?}, key: {:?} }}", self.0.state().name(), self.0.state().key())]
#[must_use = "dropping it unlocks"]
pub struct LockGuard(pub(super) KeyGuard);

impl LockGuard {
    pub(super) fn new(guard: KeyGuard) -> Self {
        Self(guard)
    }
}

impl Arg for LockGuard {}

/// The future of [`Mutex::lock`](super::Mutex::lock).
#[derive(derive_more::Debug)]
#[debug("Locking {{ .. }}")]
#[must_use = "a future does nothing before it is polled"]
pub struct Locking(Option<KeyGuard>);

impl Locking {
    pub(super) fn new(guard: KeyGuard) -> Self {
        Self(Some(guard))
    }
}

impl Future for Locking {
    type Output = Result<LockGuard, Error>;

    /// # Panics
    /// After it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut guard) = self.0.take() else { panic!("polled after it was ready") };
        let ready = guard.has_turn(cx)
            || guard.is_empty() && {
                let waiter = LockWaiter::Future(cx.waker().clone());
                guard.ask(|| MutexWaiter::new(waiter, None))?
            };
        if ready {
            return Poll::Ready(Ok(LockGuard(guard)));
        }
        self.0 = Some(guard);
        Poll::Pending
    }
}

/// Holds the lock, or waits in the queue, until it is dropped.
pub(super) struct KeyGuard {
    state: Arc<MutexKeyState>,
    owner: Holder,
    held: GuardState,
}

/// The guard of a step.
pub(super) struct StepGuard {
    guard: KeyGuard,
    _holds_up: HoldsUp,
}

impl StepGuard {
    pub(super) fn new(guard: KeyGuard) -> Self {
        Self { guard, _holds_up: HoldsUp::default() }
    }
}

impl Deref for StepGuard {
    type Target = KeyGuard;

    fn deref(&self) -> &KeyGuard {
        &self.guard
    }
}

impl DerefMut for StepGuard {
    fn deref_mut(&mut self) -> &mut KeyGuard {
        &mut self.guard
    }
}

#[derive(Clone, Copy)]
enum GuardState {
    Nothing,
    /// It is in the queue, or inside once its turn came.
    Queued(Ticket),
    Inside,
}

impl KeyGuard {
    /// A guard that holds nothing yet.
    pub(super) fn new(state: &Arc<MutexKeyState>, owner: Holder) -> Self {
        Self { state: Arc::clone(state), owner, held: GuardState::Nothing }
    }

    pub(super) fn state(&self) -> &Arc<MutexKeyState> {
        &self.state
    }

    /// Whether it holds nothing, and does not wait.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.held, GuardState::Nothing)
    }

    /// Whether it holds the lock.
    pub(super) fn is_inside(&self) -> bool {
        match self.held {
            GuardState::Nothing => false,
            GuardState::Inside => true,
            GuardState::Queued(ticket) => !self.state.accounting().queue.is_waiting(ticket),
        }
    }

    /// Enters if that needs no waiting.
    pub(super) fn enter(&mut self) -> bool {
        let entered = self.state.enter(self.owner);
        if entered {
            self.held = GuardState::Inside;
        }
        entered
    }

    /// Enters, or joins the queue; says whether it entered.
    pub(super) fn ask(&mut self, waiter: impl FnOnce() -> MutexWaiter) -> Result<bool, Error> {
        let lock = self.state.accounting().queue.lock(self.owner, waiter);
        self.held = match lock {
            LockOutcome::Entered => GuardState::Inside,
            LockOutcome::Queued(ticket) => GuardState::Queued(ticket),
            LockOutcome::Rejected => {
                self.state.family().waits.rejected();
                return Err(rejected("Mutex queue limit"));
            }
        };
        Ok(matches!(self.held, GuardState::Inside))
    }

    /// Says whether it is inside; if not, `cx` is woken when its turn has come.
    pub(super) fn has_turn(&mut self, cx: &Context<'_>) -> bool {
        let GuardState::Queued(ticket) = self.held else { return self.enter() };
        let waker = cx.waker().clone();
        let mut accounting = self.state.accounting();
        let Some(waiter) = accounting.queue.waiter_mut(ticket) else {
            drop(accounting);
            self.held = GuardState::Inside;
            return true;
        };
        let before = mem::replace(&mut waiter.waiter, LockWaiter::Future(waker));
        drop(accounting);
        drop(before);
        false
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        let ticket = match self.held {
            GuardState::Nothing => return,
            GuardState::Queued(ticket) => Some(ticket),
            GuardState::Inside if self.state.leave_alone(self.owner) => return,
            GuardState::Inside => None,
        };
        let mut accounting = self.state.accounting();
        let queue = &mut accounting.queue;
        let mut left = ticket.and_then(|ticket| queue.take(ticket));
        let mut next = match left {
            None => queue.unlock(self.owner).map(|(_, waiter)| waiter),
            Some(_) => None,
        };
        for waiter in [&mut left, &mut next].into_iter().flatten() {
            waiter.watch = None;
        }
        drop(accounting);
        let waits = &self.state.family().waits;
        if left.is_some() {
            waits.given_up();
        }
        if let Some(next) = next {
            waits.admitted(next.since);
            next.waiter.admit();
        }
    }
}
