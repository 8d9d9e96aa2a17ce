//! A flow in a simulation, as its scenario sees it.

use super::Sim;
use super::check::in_full;
use crate::flow::Outcome;

/// A flow in a simulation.
#[derive(Clone, Debug)]
pub struct Started {
    pub(super) sim: Sim,
    pub(super) flow: usize,
}

impl Started {
    /// Cancels the flow (FTN12 §2.2.3 `cancel`): on its next turn.
    pub fn cancel(&self) {
        self.sim.0.cancel(self.flow);
    }

    /// Whether the flow is not over.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.sim.0.flows.borrow().get(self.flow).is_some_and(|slot| !slot.over)
    }

    /// Takes how the flow ended; `None` if it is not over, or it was taken before.
    #[must_use]
    pub fn take_outcome(&self) -> Option<Outcome> {
        self.sim.0.flows.borrow_mut().get_mut(self.flow)?.outcome.take()
    }

    /// Checks that the flow succeeded.
    ///
    /// # Panics
    /// If it failed, was cancelled or has not ended; the text has the error and its step.
    #[track_caller]
    pub fn assert_success(&self) {
        self.with_outcome(|outcome| match outcome {
            Outcome::Success(_) => {}
            Outcome::Error(error) => panic!("flow {} failed: {}", self.flow, in_full(error)),
            Outcome::Cancelled => panic!("flow {} was cancelled", self.flow),
        });
    }

    /// Checks that the flow failed with this code.
    ///
    /// # Panics
    /// If it succeeded, failed with another code, was cancelled or is not over.
    #[track_caller]
    pub fn assert_error(&self, code: &str) {
        self.with_outcome(|outcome| match outcome {
            Outcome::Error(error) if error.code() == code => {}
            Outcome::Error(error) => {
                panic!("flow {} failed, but not with `{code}`: {}", self.flow, in_full(error))
            }
            Outcome::Success(_) => panic!("flow {} succeeded instead of `{code}`", self.flow),
            Outcome::Cancelled => panic!("flow {} was cancelled instead of `{code}`", self.flow),
        });
    }

    /// Shows how the flow ended to a check, and notes that the test knows it.
    #[track_caller]
    fn with_outcome(&self, check: impl FnOnce(&Outcome)) {
        let mut flows = self.sim.0.flows.borrow_mut();
        let slot = flows.get_mut(self.flow).filter(|slot| slot.over);
        let Some(slot) = slot else { panic!("flow {} is not over: `run` it", self.flow) };
        slot.is_expected = true;
        match &slot.outcome {
            Some(outcome) => check(outcome),
            None => panic!("the outcome of flow {} was taken before", self.flow),
        }
    }
}
