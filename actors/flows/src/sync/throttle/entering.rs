//! Waiting to enter a throttle.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use asyncsteps_core::sync::mutex::{LockOutcome, Ticket};
use asyncsteps_core::{AsyncSteps, Error, Sleep, Stack, StepResult};

use super::state::{Pace, ThrottleKeyState, ThrottleWaiter};
use crate::sync::owners::LockOwner;
use crate::sync::waiter::{LockWaiter, rejected};

const QUEUE_LIMIT: &str = "Throttle queue limit";

/// Waits in the queue of a key until it is dropped.
pub(super) struct QueueEntry {
    state: Arc<ThrottleKeyState>,
    /// Its turn may have come since.
    ticket: Option<Ticket>,
}

impl QueueEntry {
    /// It does not wait yet.
    pub(super) fn new(state: &Arc<ThrottleKeyState>) -> Self {
        Self { state: Arc::clone(state), ticket: None }
    }
}

/// The queue of a key is full.
fn refused(state: &ThrottleKeyState) -> Error {
    state.family.waits.rejected();
    rejected(QUEUE_LIMIT)
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let waiter = self.state.entries.lock().queue.take(ticket);
            if waiter.is_some() {
                self.state.family.waits.given_up();
            }
        }
    }
}

/// The step of a flow that has to wait.
pub(super) fn wait(asi: &mut AsyncSteps, queued: Stack<QueueEntry>) -> StepResult {
    let state = Arc::clone(&asi[queued].state);
    let step = asi.wait_external_for(state);
    let state = Arc::clone(&asi[queued].state);
    let pace = state.family.time_of(asi);
    let waiter = ThrottleWaiter::new(LockWaiter::Step(step), LockOwner::Flow(asi.identity()));
    match state.act(pace, |queue, now| queue.lock(now, || waiter))? {
        LockOutcome::Entered => asi.success(()),
        LockOutcome::Queued(ticket) => {
            asi[queued].ticket = Some(ticket);
            Ok(())
        }
        LockOutcome::Rejected => Err(refused(&state).into()),
    }
}

/// One iteration of a flow that has to wait where no actor ends the periods: it leaves the loop once it
/// was admitted, and looks again at the end of the period.
pub(super) fn look(asi: &mut AsyncSteps, queued: Stack<QueueEntry>) -> StepResult {
    let state = Arc::clone(&asi[queued].state);
    let pace = state.family.time_of(asi);
    let ticket = asi[queued].ticket;
    let step = asi.wait_external_for(Arc::<ThrottleKeyState>::clone(&state));
    let owner = LockOwner::Flow(asi.identity());
    let lock = state.act(pace, |queue, now| match ticket {
        None => queue.lock(now, || ThrottleWaiter::new(LockWaiter::Step(step), owner)),
        Some(ticket) => match queue.waiter_mut(ticket) {
            None => LockOutcome::Entered,
            Some(queued) => {
                queued.waiter = LockWaiter::Step(step);
                LockOutcome::Queued(ticket)
            }
        },
    })?;
    match lock {
        LockOutcome::Entered => {
            asi[queued].ticket = None;
            asi.break_loop(None)
        }
        LockOutcome::Queued(ticket) => {
            asi[queued].ticket = Some(ticket);
            if let Some(end) = state.period_end() {
                asi.wait_until(end);
            }
            Ok(())
        }
        LockOutcome::Rejected => Err(refused(&state).into()),
    }
}

/// The future of [`Throttle::enter`](super::Throttle::enter).
#[derive(derive_more::Debug)]
#[debug("Entering {{ waits: {:?} }}", self.queued.ticket.is_some())]
#[must_use = "a future does nothing before it is polled"]
pub struct Entering {
    queued: QueueEntry,
    /// Until the end of the period, where no actor ends it.
    pause: Option<Sleep>,
}

impl Entering {
    pub(super) fn new(state: &Arc<ThrottleKeyState>) -> Self {
        Self { queued: QueueEntry::new(state), pause: None }
    }

    /// Enters, or joins the queue, or stays in it.
    fn ask(&mut self, pace: Pace, cx: &Context<'_>) -> Result<LockOutcome, Error> {
        let queued = &mut self.queued;
        let waiter = LockWaiter::Future(cx.waker().clone());
        let mut before = None;
        let lock = queued.state.act(pace, |queue, now| match queued.ticket {
            None => queue.lock(now, || ThrottleWaiter::new(waiter, LockOwner::Call)),
            Some(ticket) => match queue.waiter_mut(ticket) {
                None => LockOutcome::Entered,
                Some(waiting) => {
                    before = Some(mem::replace(&mut waiting.waiter, waiter));
                    LockOutcome::Queued(ticket)
                }
            },
        });
        // dropped when the accounting is free again
        drop(before);
        lock
    }
}

impl Future for Entering {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let pace = self.queued.state.family.time()?;
            match self.ask(pace, cx)? {
                LockOutcome::Entered => {
                    self.queued.ticket = None;
                    return Poll::Ready(Ok(()));
                }
                LockOutcome::Queued(ticket) => self.queued.ticket = Some(ticket),
                LockOutcome::Rejected => return Poll::Ready(Err(refused(&self.queued.state))),
            }
            let (Pace::Waiters(now), Some(end)) = (pace, self.queued.state.period_end()) else {
                return Poll::Pending;
            };
            let mut pause = asyncsteps_core::sleep(end.saturating_since(now));
            let is_over = Pin::new(&mut pause).poll(cx).is_ready();
            self.pause = Some(pause);
            if !is_over {
                return Poll::Pending;
            }
        }
    }
}
