//! Steps of templates that decide their work when they start, and templates as sub-steps (FTN12 §1.5).

use super::added::Added;
use super::run::{Run, RunContext, WithContext};
use super::substeps::SubstepsBody;
use crate::args::Arguments;
use crate::error::{StepError, StepResult, StepReturn};
use crate::stack::{AsyncSteps, QueuedStep};
use crate::template::Template;

/// The work of a [deferred](crate::TemplateSteps::defer) step of a template, for libraries that write
/// steps for their users.
impl AsyncSteps {
    /// Appends the steps of a template, the first of which takes `args`; otherwise as
    /// [`copy_from`](Self::copy_from). It is for a callback that has added no other step.
    pub fn copy_with(&mut self, model: &Template, args: impl Arguments) {
        self.copy_from(model);
        self.strand.args = args.into_args();
    }

    /// Makes the running step one that is an async closure, as [`run_with`](Self::run_with) would add it,
    /// with what `say` says about it. The body takes `args`.
    ///
    /// # Errors
    /// What the step raises.
    pub fn become_run<A, T, F>(
        &mut self,
        args: A,
        body: F,
        say: impl FnOnce(&mut Added<'_, A, T>),
    ) -> StepResult
    where
        A: Arguments,
        T: Arguments,
        F: AsyncFn(RunContext, A) -> Result<T, StepError> + 'static,
    {
        let mut step = Run::step(self.location(), WithContext(body));
        say(&mut Added::new(&mut step));
        self.become_step(step, args)
    }

    /// Makes the running step one with sub-steps that can be tried again, as [`substeps`](Self::substeps)
    /// would add it, with what `say` says about it. The body takes `args`.
    ///
    /// # Errors
    /// What the step raises.
    pub fn become_substeps<A, R, F>(
        &mut self,
        args: A,
        body: F,
        say: impl FnOnce(&mut Added<'_, A>),
    ) -> StepResult
    where
        A: Arguments,
        R: StepReturn,
        F: Fn(&mut Self, A) -> R + 'static,
    {
        let mut step = QueuedStep::new(self.location(), SubstepsBody::new(body));
        say(&mut Added::new(&mut step));
        self.become_step(step, args)
    }

    fn become_step(&mut self, step: QueuedStep, args: impl Arguments) -> StepResult {
        let QueuedStep { description, mut work, .. } = step;
        if let Some(handler) = description.and_then(|description| description.handler) {
            self.set_own_handler(handler);
        }
        if work.policies().is_none() {
            self.ask_probe_of_body()?;
        }
        work.start(self, args.into_args(), None)
    }
}
