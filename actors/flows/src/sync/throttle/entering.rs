//! Waiting to enter a throttle.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use asyncsteps::sync::mutex::{Lock, Ticket};
use asyncsteps::{AsyncSteps, Error, Stack, StepResult};

use super::state::{KeyState, gone};
use crate::sync::waiter::{Waiter, guarded, rejected};

const QUEUE_LIMIT: &str = "Throttle queue limit";

/// Waits in the queue of a key until it is dropped.
pub(super) struct Queued {
    state: Arc<KeyState>,
    /// Its turn may have come since.
    ticket: Option<Ticket>,
}

impl Queued {
    /// It does not wait yet.
    pub(super) fn new(state: &Arc<KeyState>) -> Self {
        Self { state: Arc::clone(state), ticket: None }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let waiter = guarded(&self.state.entries).queue.take(ticket);
            drop(waiter);
        }
    }
}

/// The step of a flow that has to wait.
pub(super) fn wait(asi: &mut AsyncSteps, queued: Stack<Queued>) -> StepResult {
    let state = Arc::clone(&asi[queued].state);
    let step = asi.wait_external_for(state);
    let (now, state) = (asi.now(), &asi[queued].state);
    let now = state.family.clock.at(now);
    match state.act(now, |queue, now| queue.lock(now, || Waiter::Step(step)))? {
        Lock::Entered => asi.success(()),
        Lock::Queued(ticket) => {
            asi[queued].ticket = Some(ticket);
            Ok(())
        }
        Lock::Rejected => Err(rejected(QUEUE_LIMIT).into()),
    }
}

/// The future of [`Throttle::enter`](super::Throttle::enter).
#[must_use = "a future does nothing before it is polled"]
pub struct Entering(Queued);

impl Entering {
    pub(super) fn new(state: &Arc<KeyState>) -> Self {
        Self(Queued::new(state))
    }
}

impl Future for Entering {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let queued = &mut self.0;
        let waiter = Waiter::Future(cx.waker().clone());
        let Some(ticket) = queued.ticket else {
            let now = queued.state.family.clock.now();
            return match queued.state.act(now, |queue, now| queue.lock(now, || waiter))? {
                Lock::Entered => Poll::Ready(Ok(())),
                Lock::Queued(ticket) => {
                    queued.ticket = Some(ticket);
                    Poll::Pending
                }
                Lock::Rejected => Poll::Ready(Err(rejected(QUEUE_LIMIT))),
            };
        };
        let mut entries = guarded(&queued.state.entries);
        if let Some(before) = entries.queue.waiter_mut(ticket) {
            let before = mem::replace(before, waiter);
            drop(entries);
            drop(before);
            return Poll::Pending;
        }
        drop(entries);
        queued.ticket = None;
        Poll::Ready(if queued.state.family.is_closed() { Err(gone()) } else { Ok(()) })
    }
}

impl fmt::Debug for Entering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entering").field("waits", &self.0.ticket.is_some()).finish()
    }
}
