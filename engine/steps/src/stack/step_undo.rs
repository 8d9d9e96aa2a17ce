//! The outcome of the body of a step that can be undone (FTN12 §1.2, §1.3).

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use super::shapes::{AsyncSteps, StepUndo, UndoOutcome, UndoPlan, UndoWork};
use super::shielded::ShieldedBody;
use crate::args::{Args, ArgsMismatch};
use crate::flow::Identity;

impl StepUndo {
    /// The entry of a step that starts, and its arguments; the undo keeps a copy of those if it takes them.
    ///
    /// # Errors
    /// The arguments are not what the step takes.
    #[inline]
    pub(crate) fn new(
        plan: Arc<dyn UndoPlan>,
        asi: &AsyncSteps,
        args: Args,
    ) -> Result<(Self, Args), ArgsMismatch> {
        let (args, input) = plan.keep_input(asi, args)?;
        let input = (!input.is_empty()).then(|| Box::new(input));
        Ok((Self::of(plan, input, UndoOutcome::Nothing), args))
    }

    /// An entry that is undone whatever its outcome.
    pub(crate) fn unknown(plan: Arc<dyn UndoPlan>) -> Self {
        Self::of(plan, None, UndoOutcome::Unknown)
    }

    fn of(plan: Arc<dyn UndoPlan>, input: Option<Box<Args>>, outcome: UndoOutcome) -> Self {
        Self { plan, input, outcome, has_begun: false, was_unknown: false, body: None }
    }

    /// The body, or another attempt of it, is about to start.
    pub(crate) fn prepare(&mut self) {
        self.has_begun = false;
    }

    /// The body is polled; until it ends its outcome is unknown, also if it is dropped.
    pub(crate) fn begin(&mut self) {
        if !mem::replace(&mut self.has_begun, true) {
            self.was_unknown = matches!(self.outcome, UndoOutcome::Unknown);
            self.outcome = UndoOutcome::Unknown;
        }
    }

    /// The body runs shielded: if the step ends before it, the outcome is that of the body.
    pub(crate) fn follow(&mut self, body: Rc<ShieldedBody>) {
        self.body = Some(body);
    }

    /// Notes that the outcome of the step is unknown.
    pub(crate) fn set_unknown(&mut self) {
        self.outcome = UndoOutcome::Unknown;
    }

    /// The body succeeded: keeps a copy of its result. If the clone panics, the outcome stays unknown.
    pub(crate) fn complete(&mut self, result: Args) -> Args {
        let (result, kept) = self.plan.keep_result(result);
        self.outcome = UndoOutcome::Done(kept);
        result
    }

    /// The body failed by itself, and is taken at its word: it has done nothing.
    pub(crate) fn fail(&mut self) {
        if !self.was_unknown {
            self.outcome = UndoOutcome::Nothing;
        }
    }

    /// The body that still runs, although the step has ended.
    pub(crate) fn running(&self) -> Option<Rc<ShieldedBody>> {
        self.body.clone().filter(|body| !body.has_ended())
    }

    /// Whether the body succeeded.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.outcome, UndoOutcome::Done(_))
    }

    /// Whether there is something to undo.
    pub(crate) fn is_needed(&self) -> bool {
        !matches!(self.outcome, UndoOutcome::Nothing)
    }

    /// The undo of the step in this branch, and whether the step was done; `None` if there is nothing to undo.
    pub(crate) fn into_work(mut self, branch: Identity) -> Option<(bool, UndoWork)> {
        self.learn_end();
        let result = match self.outcome {
            UndoOutcome::Nothing => return None,
            UndoOutcome::Unknown => None,
            UndoOutcome::Done(result) => Some(result),
        };
        let input = self.input.map_or_else(Args::none, |input| *input);
        Some((result.is_some(), self.plan.work(input, result, branch)))
    }

    /// A shielded body has ended, perhaps after its step.
    pub(crate) fn learn_end(&mut self) {
        let body = self.body.take().filter(|_| matches!(self.outcome, UndoOutcome::Unknown));
        let Some(body) = body else { return };
        match body.take_result() {
            Some(Ok(result)) => {
                // a clone that panics leaves the outcome unknown
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.complete(result))) {
                    mem::forget(payload);
                }
            }
            Some(Err(error)) if body.has_done_nothing(&error) => self.fail(),
            Some(Err(_)) | None => {}
        }
    }
}
