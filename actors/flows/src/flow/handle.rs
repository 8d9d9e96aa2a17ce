//! Waiting for a flow and cancelling it, on its arbiter.

use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use actix::Addr;
use asyncsteps_core::{Arguments, Error, Outcome, WaitId};
use tokio::task::JoinHandle;

use super::actor::FlowActor;
use super::mailbox::FlowCell;
use super::task::{Spawned, StartedFlow};
use super::{Canceller, Completer, FlowRef, Stack};

/// A started flow: a future with its result, on the arbiter of the flow. Dropping it cancels the
/// flow.
///
/// It uses the flow directly; [`address`](Self::address) is for other arbiters and threads.
///
/// # Cancel safety
/// Polling may stop at any time; the result stays until it is taken.
#[derive(derive_more::Debug)]
#[debug("FlowHandle {{ valid: {:?} }}", self.is_valid())]
#[must_use = "dropping the handle cancels the flow; `detach` it to let it run"]
pub struct FlowHandle<A = ()> {
    state: HandleState,
    of: PhantomData<fn() -> A>,
}

enum HandleState {
    /// It ended in its first turn, or its outcome was taken.
    Ended(Option<Outcome>),
    Waits(FlowTaskHandle),
}

/// Cancels its flow when it is dropped.
struct FlowTaskHandle {
    flow: FlowRef,
    task: JoinHandle<()>,
    detached: bool,
}

impl<A> FlowHandle<A> {
    #[inline]
    pub(super) fn new(started: StartedFlow) -> Self {
        let state = match started {
            StartedFlow::Ended(outcome) => HandleState::Ended(outcome),
            StartedFlow::Waits(Spawned { cell, canceller, task }) => {
                let flow = FlowRef::new(cell, canceller);
                HandleState::Waits(FlowTaskHandle { flow, task, detached: false })
            }
        };
        Self { state, of: PhantomData }
    }

    fn flow(&self) -> Option<&FlowRef> {
        match &self.state {
            HandleState::Ended(_) => None,
            HandleState::Waits(handle) => Some(&handle.flow),
        }
    }

    /// Cancels the flow (FTN12 §2.2.3 `cancel`): its arbiter does so after this returned; called by a
    /// step of the flow itself, no further step runs.
    pub fn cancel(&self) {
        if let Some(flow) = self.flow() {
            flow.cancel();
        }
    }

    /// Cancels the flow from any thread.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        self.flow().map(FlowRef::canceller).unwrap_or_default()
    }

    /// Whether the flow is not over.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.flow().is_some_and(FlowRef::is_valid)
    }

    /// Where the flow is; empty when it has ended, and for a step of the flow itself.
    #[must_use]
    pub fn stack(&self) -> Stack {
        self.flow().map(FlowRef::stack).unwrap_or_default()
    }

    /// Lets the flow run to its end without the handle.
    pub fn detach(mut self) {
        if let HandleState::Waits(handle) = &mut self.state {
            handle.detached = true;
        }
    }

    /// The address of the flow's actor, for other arbiters and threads: it takes
    /// [`Cancel`](super::Cancel), [`Inspect`](super::Inspect) and [`Complete`](super::Complete), also
    /// when the flow has ended.
    ///
    /// The mailbox is made when this is first called.
    ///
    /// # Panics
    /// Outside of an actix arbiter or a tokio `LocalSet`.
    #[must_use]
    pub fn address(&self) -> Addr<FlowActor> {
        match self.flow() {
            Some(flow) => flow.address(),
            None => Rc::new(FlowCell::new(FlowActor::ended())).address(&Canceller::default()),
        }
    }

    /// Completes a wait of the flow from any thread; the [`Stack`] names the waits.
    ///
    /// # Panics
    /// When [`address`](Self::address) does.
    #[must_use]
    pub fn completer(&self, wait: WaitId) -> Completer {
        Completer::new(self.address(), wait)
    }
}

impl<A: Arguments> Future for FlowHandle<A> {
    /// The typed result of the flow, or the error that ended it.
    type Output = Result<A, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = match &mut self.state {
            HandleState::Ended(outcome) => outcome.take(),
            HandleState::Waits(FlowTaskHandle { flow, task, .. }) => {
                if flow.is_valid() {
                    // the flow's outcome says how the task ended
                    let _ = ready!(Pin::new(task).poll(cx));
                }
                let outcome = flow.cell().actor.borrow_mut().take_outcome();
                self.state = HandleState::Ended(None);
                outcome
            }
        };
        Poll::Ready(outcome.unwrap_or(Outcome::Cancelled).into_result())
    }
}

impl Drop for FlowTaskHandle {
    fn drop(&mut self) {
        if !self.detached && self.flow.is_valid() {
            self.flow.cancel();
        }
        self.flow.cell().forget_outcome();
    }
}
