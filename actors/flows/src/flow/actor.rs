//! The actor that a flow is: it owns the step stack and the state.

use asyncsteps_core::{Execution, Outcome, WaitId, WaitResult};

use super::guarded::{DROPPED, guarded};
use super::{Canceller, Stack};

/// A flow that waits on its arbiter: it owns the step stack and the state, and takes messages from
/// everywhere.
///
/// It takes [`Cancel`](super::Cancel), [`Inspect`](super::Inspect) and
/// [`Complete`](super::Complete). Its address comes from [`FlowHandle::address`] and
/// [`FlowRef::address`]; it can be used as long as its arbiter runs, also when the flow has ended.
///
/// [`FlowHandle::address`]: super::FlowHandle::address
/// [`FlowRef::address`]: super::FlowRef::address
#[derive(derive_more::Debug)]
#[debug("FlowActor {{ over: {:?}, .. }}", self.is_over())]
pub struct FlowActor(ActorPhase);

#[expect(clippy::large_enum_variant, reason = "one allocation instead of two")]
enum ActorPhase {
    Running(Execution),
    /// With the outcome until the handle takes it.
    Ended(Option<Outcome>),
}

/// Why a [`Complete`](super::Complete) was refused; then nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteError {
    /// The wait belongs to another flow.
    #[error("the wait belongs to another flow")]
    ForeignWait,
    /// The step has ended or was completed before, or the flow is being cancelled.
    #[error("the wait is over")]
    Stale,
    /// The actor of the flow is gone with its arbiter.
    #[error("the actor of the flow is gone")]
    Gone,
}

impl FlowActor {
    #[inline]
    pub(crate) fn new(execution: Execution) -> Self {
        Self(ActorPhase::Running(execution))
    }

    /// The actor of a flow that ended in its first turn.
    pub(super) fn ended() -> Self {
        Self(ActorPhase::Ended(None))
    }

    /// The flow, unless it has ended.
    #[inline]
    pub(super) fn execution(&mut self) -> Option<&mut Execution> {
        match &mut self.0 {
            ActorPhase::Running(execution) => Some(execution),
            ActorPhase::Ended(_) => None,
        }
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        matches!(self.0, ActorPhase::Ended(_))
    }

    /// Cancels the flow from any thread.
    #[inline]
    pub(super) fn canceller(&mut self) -> Canceller {
        Canceller::new(self.execution().map(Execution::canceller))
    }

    /// Where the flow is; empty when it has ended.
    pub(super) fn stack(&mut self) -> Stack {
        self.execution().map(Stack::of).unwrap_or_default()
    }

    /// Completes a wait of the flow; the flow takes the result in its next turn.
    pub(super) fn complete(
        &mut self,
        wait: WaitId,
        result: WaitResult,
    ) -> Result<(), CompleteError> {
        let is_foreign = self.execution().is_some_and(|flow| flow.id() != wait.flow());
        // a result that is not taken is dropped here
        let completed = guarded("what completes a wait panicked when dropped", || {
            let execution = self.execution().filter(|_| !is_foreign)?;
            execution.complete(wait, result).ok()
        });
        match completed.flatten() {
            Some(()) => Ok(()),
            None if is_foreign => Err(CompleteError::ForeignWait),
            None => Err(CompleteError::Stale),
        }
    }

    /// The flow ended: `tell` notifies its owner and returns the outcome for its handle; the flow's
    /// values are dropped.
    #[inline]
    pub(super) fn end(&mut self, tell: impl FnOnce(&mut Execution) -> Option<Outcome>) {
        if let Some(execution) = self.execution() {
            let outcome = tell(execution);
            guarded(DROPPED, || self.0 = ActorPhase::Ended(outcome));
        }
    }

    /// Takes the flow out without notifying its owner. The actor must not be borrowed when the flow
    /// is cancelled, because cancel handlers may ask about their flow.
    #[cfg(feature = "ffi")]
    pub(super) fn abandon(&mut self) -> Option<Execution> {
        match std::mem::replace(&mut self.0, ActorPhase::Ended(None)) {
            ActorPhase::Running(execution) => Some(execution),
            ActorPhase::Ended(_) => None,
        }
    }

    #[inline]
    pub(super) fn take_outcome(&mut self) -> Option<Outcome> {
        match &mut self.0 {
            ActorPhase::Running(_) => None,
            ActorPhase::Ended(outcome) => outcome.take(),
        }
    }
}
