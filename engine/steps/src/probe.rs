//! How a simulation puts faults into the steps of a flow.

use crate::error::Error;
use crate::location::StepLocation;

/// Is asked before the work of each step; a flow without one pays a check per step.
pub(crate) trait Probe {
    /// A step is about to do its work; an error is raised instead of it.
    ///
    /// # Errors
    /// The fault.
    fn ask(&self, step: StepLocation, work: ProbedWork) -> Result<(), Error>;
}

/// What a step is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbedWork {
    /// To apply its policies; its body, or each attempt of it, asks again.
    Plan,
    /// To run its body.
    Body,
}
