//! Ends of steps in progress from outside: for locks that are lost (FTN12 §1.11.3).

use std::sync::Arc;

use crate::completion::Interrupter;
use crate::error::StepError;
use crate::outcome::Undo;
use crate::stack::{AsyncSteps, Frame, StepUndo, ToUndo, UndoPlan};
use crate::undo::{OfResult, UndoOf, UndoPolicy};

/// The lock that a step regains before something inside of it is undone.
struct Regain(Arc<dyn UndoPlan>);

impl AsyncSteps {
    /// A handle that fails the running step from any thread, also while it has sub-steps: everything
    /// inside is cancelled, then the error is raised at the step itself (FTN12 §1.3). For objects whose
    /// hold on something can be lost, such as a lock between machines, and for a race that another step
    /// has won.
    ///
    /// ```
    /// use asyncsteps_core::{Error, Flow};
    ///
    /// let mut flow = Flow::new();
    /// flow.add(|asi, ()| {
    ///     let lost = asi.interrupter();
    ///     asi.add(move |asi, ()| {
    ///         asi.wait_only(); // it would wait for ever
    ///         lost.interrupt(Error::new("LockLost")).unwrap();
    ///     });
    /// });
    /// assert_eq!(asyncsteps_core::run_to_end::<()>(flow).unwrap_err().code(), "LockLost");
    /// ```
    pub fn interrupter(&mut self) -> Interrupter {
        let (key, _) = self.wait_key(0);
        Interrupter::new(self.inbox(), key)
    }

    /// Runs `regain` first if the running step is [interrupted](Self::interrupter) and something inside of it is to be
    /// [undone](crate::Added::undo), with the time limit of an [undo](UndoPolicy): it takes the lost object back. If it
    /// fails, the host gets its error and the undos run without it.
    pub fn regain<F>(&mut self, regain: F)
    where
        F: AsyncFn() -> Result<(), StepError> + 'static,
    {
        let regain = async move |_: Undo<&()>| regain().await;
        let regain = UndoOf::<_, (), ()>::new(OfResult(regain), UndoPolicy::default());
        self.stack(Regain(regain));
    }

    /// Whether the step of this frame regains what it loses.
    pub(crate) fn can_regain(&self, frame: &Frame) -> bool {
        self.kept_by::<Regain>(frame).next().is_some()
    }

    /// The step on top regains its lost object before the undos inside of it, which have not begun.
    pub(crate) fn regain_before_undo(&mut self) {
        let regains: Vec<_> =
            self.kept_by::<Regain>(&self.strand.top).map(|Regain(plan)| Arc::clone(plan)).collect();
        let inside = (self.active(), self.strand.depth() + 1);
        for plan in regains {
            let entry = StepUndo::unknown(plan);
            let step = (self.location().named("regain"), self.branch_path());
            self.policy_state().undos.push(inside, step, ToUndo::Step(entry));
        }
    }
}
