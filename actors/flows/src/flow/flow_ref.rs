//! A flow of this arbiter, used directly.

use std::rc::Rc;

use actix::Addr;
use asyncsteps_core::{Execution, FlowId, WaitCause, WaitId};

use super::actor::FlowActor;
use super::mailbox::FlowCell;
use super::{Canceller, Completer, Stack, running};

/// A flow that waits on this arbiter, seen from the same arbiter.
///
/// It keeps no flow alive and cancels none when it is dropped.
#[derive(Clone, derive_more::Debug)]
#[debug("FlowRef {{ valid: {:?} }}", self.is_valid())]
pub struct FlowRef {
    cell: Rc<FlowCell>,
    canceller: Canceller,
}

/// The flows that wait on this arbiter, however they were started, in no particular order; the flow
/// whose turn it is is not among them.
///
/// Flows are listed from the first call on, and on the arbiters of an
/// [`ArbiterPool`](crate::pool::ArbiterPool) from the beginning.
#[must_use]
pub fn running_flows() -> Vec<FlowRef> {
    let reached = |cell: Rc<FlowCell>| {
        let canceller = cell.actor.try_borrow_mut().ok()?.canceller();
        Some(FlowRef::new(cell, canceller))
    };
    running::all().into_iter().filter_map(reached).collect()
}

impl FlowRef {
    pub(crate) fn new(cell: Rc<FlowCell>, canceller: Canceller) -> Self {
        Self { cell, canceller }
    }

    pub(super) fn cell(&self) -> &FlowCell {
        &self.cell
    }

    /// Cancels the flow (FTN12 §2.2.3 `cancel`): its arbiter does so after this returned; called by a
    /// step of the flow itself, no further step runs. A flow that has ended stays as it ended.
    pub fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Cancels the flow from any thread.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Whether the flow is not over.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        // borrowed by the flow itself while it runs
        !self.cell.actor.try_borrow().is_ok_and(|actor| actor.is_over())
    }

    /// Whether the flow is a part of another one that goes on after it, see
    /// [`Flow::is_part`](asyncsteps_core::Flow::is_part); not for a step of the flow itself.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.look(|flow| flow.is_part()).unwrap_or_default()
    }

    /// Whether the flow undoes what another one has done, see
    /// [`Added::undo`](asyncsteps_core::Added::undo); not for a step of the flow itself.
    #[must_use]
    pub fn is_undo(&self) -> bool {
        self.look(|flow| flow.is_undo()).unwrap_or_default()
    }

    /// The number of the flow (FTN12 §1.11.4); `None` when it has ended, and for a step of the flow itself.
    #[must_use]
    pub fn id(&self) -> Option<FlowId> {
        self.look(Execution::id)
    }

    /// Calls `see` with what each branch of the flow waits for, in no particular order; not when the
    /// flow has ended, and for a step of the flow itself. It costs less than a [`stack`](Self::stack).
    pub fn causes(&self, see: impl FnMut(WaitCause)) {
        self.look(|flow| flow.causes().for_each(see));
    }

    fn look<R>(&self, look: impl FnOnce(&mut Execution) -> R) -> Option<R> {
        self.cell.actor.try_borrow_mut().ok()?.execution().map(look)
    }

    /// Where the flow is; empty when it has ended, and for a step of the flow itself.
    #[must_use]
    pub fn stack(&self) -> Stack {
        self.cell.actor.try_borrow_mut().map(|mut actor| actor.stack()).unwrap_or_default()
    }

    /// The address of the flow's actor, for other arbiters and threads; also when the flow has
    /// ended.
    ///
    /// The mailbox is made when this is first called.
    ///
    /// # Panics
    /// Outside of an actix arbiter or a tokio `LocalSet`.
    #[must_use]
    pub fn address(&self) -> Addr<FlowActor> {
        self.cell.address(&self.canceller)
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
