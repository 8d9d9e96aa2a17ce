//! The machine and the messages between its parts.

use std::fmt;

use crate::error::Error;
use crate::stack::AsyncSteps;

/// Runs the steps of one flow (FTN12 §2.6).
pub(crate) struct Machine {
    /// The interface for callbacks: the step stack and the state of the flow.
    pub(crate) asi: AsyncSteps,
}

/// What to do after a step started, ended or failed.
#[must_use]
pub(super) enum Next {
    /// Go on with the active strand.
    Step,
    /// The active strand waits.
    Wait,
    /// The turn has ended.
    Yield,
    /// The active strand has nothing left to do.
    Complete,
    /// No handler recovered.
    Failed(Error),
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.asi, f)
    }
}
