//! The flow as a whole (FTN12 §2.2.1, §1.7): its state, its errors, its identity.

use std::num::NonZeroU32;

use crate::error::{Error, StepError, StepFault, StepResult};
use crate::flow::{Flow, FlowId, Identity};
use crate::random::Random;
use crate::sim;
use crate::stack::{AsyncSteps, Callback, Frame};
use crate::state::State;
use crate::time::Time;

impl AsyncSteps {
    /// The state variables of the flow, shared by all levels and branches.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state variables, to change them.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// `error_info` of FTN12 §1.7: the information of the last error, also after recovery.
    #[must_use]
    pub fn error_info(&self) -> Option<&str> {
        self.last_error.as_ref()?.info()
    }

    /// `last_exception` of FTN12 §1.7: the last error with what caused it.
    #[must_use]
    pub fn last_exception(&self) -> Option<&Error> {
        self.last_error.as_ref()
    }

    /// Attaches a value to the flow, which its steps find by the type (FTN12 §1, "derived
    /// classes"); it replaces a value of the same type.
    #[inline]
    pub fn extend<T: 'static>(&mut self, value: T) {
        // boxed here, where it is made: it may be large
        self.cold().extensions.set(Box::new(value));
    }

    /// A value attached to the flow with [`Flow::extend`].
    #[must_use]
    pub fn extension<T: 'static>(&self) -> Option<&T> {
        self.cold.as_ref()?.extensions.get()
    }

    /// A value attached to the flow with [`Flow::extend`], to change it.
    #[must_use]
    pub fn extension_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.cold.as_mut()?.extensions.get_mut()
    }

    /// A new flow with its own state (FTN12 §2.2.1 `newInstance`); see [`launch`](Self::launch).
    pub fn new_instance(&self) -> Flow {
        Flow::new()
    }

    /// Makes the host execute a flow on the same event loop, independent of this flow (FTN12 §2.2.1
    /// `newInstance`): it has its own state and time limits, and goes on when this flow has ended or
    /// was cancelled. A cancel handler can launch the steps that undo something.
    pub fn launch(&mut self, flow: Flow) {
        self.cold().launched.push(flow.asi);
    }

    /// Whether a callback of the step is running: always, inside of callbacks (FTN12 §2.2.1 boolean
    /// cast).
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.callback != Callback::None
    }

    /// Whether the running callback has failed already: `Err` after `error`, the end of a loop or
    /// a broken rule (FTN12 §2.1).
    ///
    /// For generic code that ends its callback after a failed call: `asi.check()?`.
    ///
    /// # Errors
    /// The callback raised an error. It is recorded, so returning it or not makes no difference.
    pub fn check(&self) -> StepResult {
        if self.raised.is_some() { Err(StepError::RECORDED) } else { Ok(()) }
    }

    /// The error that the running callback raised, for generic code that has to report it; `None`
    /// also for the end of a loop.
    #[must_use]
    pub fn raised(&self) -> Option<&Error> {
        match self.raised.as_ref()? {
            StepFault::Error(error) => Some(error),
            StepFault::Loop(_) => None,
        }
    }

    /// The id of the flow, for logs and locks (FTN12 §1.11.4).
    #[must_use]
    pub fn flow_id(&mut self) -> FlowId {
        *self.id.get_or_insert_with(FlowId::next)
    }

    /// The owner of a lock taken by the running step (FTN12 §1.11.4).
    #[must_use]
    pub fn identity(&mut self) -> Identity {
        Identity { flow: self.flow_id(), branch: self.strand.branch }
    }

    /// The current attempt of the step, or of a step around it, from 1; see
    /// [`Retry`](crate::Retry).
    #[must_use]
    #[inline]
    pub fn attempt(&self) -> u32 {
        let has_attempts = self.own_policy_state().is_some_and(|policies| policies.has_attempts);
        if has_attempts { self.innermost_attempt() } else { 1 }
    }

    #[cold]
    fn innermost_attempt(&self) -> u32 {
        let own = self.strand.open_frames().rev().find_map(Frame::attempt);
        let attempt = own.or_else(|| self.frames_around().find_map(Frame::attempt));
        attempt.map_or(1, NonZeroU32::get)
    }

    /// Whether the flow undoes what another one has done, see [`Added::undo`](crate::Added::undo).
    #[inline]
    pub(crate) fn is_undo(&self) -> bool {
        self.own_policy_state().is_some_and(|policies| policies.undoes.is_some())
    }

    /// The chance of this flow, see [`Flow::seed`].
    pub(crate) fn random(&mut self) -> &mut Random {
        let id = self.flow_id();
        let seed = || sim::seeded_number().unwrap_or_else(|| id.number());
        self.policy_state().random.get_or_insert_with(|| Random::new(seed()))
    }

    /// The host's time at the beginning of this turn.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }
}
