//! How tests put faults into the steps of a flow, and into its undos.

use crate::error::Error;
use crate::location::StepLocation;

/// Is asked before the work of each step, and by undos; a flow without one pays a check per step.
pub(crate) trait StepProbe {
    /// A step is about to do its work; an error is raised instead of it.
    ///
    /// # Errors
    /// The fault.
    fn ask(&self, step: StepLocation, work: ProbedWork) -> Result<(), Error>;

    /// The undo of a step has come to this moment: whether it runs again from its beginning.
    fn undo_again(&self, step: StepLocation, moment: UndoMoment) -> bool;
}

/// A moment of an undo at which a crash may have it run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoMoment {
    Waits,
    /// It has succeeded.
    Ended,
}

/// Has each undo that succeeded run a second time.
pub(crate) struct UndoTwice;

impl StepProbe for UndoTwice {
    fn ask(&self, _: StepLocation, _: ProbedWork) -> Result<(), Error> {
        Ok(())
    }

    fn undo_again(&self, _: StepLocation, moment: UndoMoment) -> bool {
        moment == UndoMoment::Ended
    }
}

/// The next work of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbedWork {
    /// To apply its policies; its body, or each attempt of it, asks again.
    Plan,
    /// To run its body.
    Body,
}
