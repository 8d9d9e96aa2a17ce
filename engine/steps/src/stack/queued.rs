//! Steps that have not started (FTN12 §1.1), and steps of templates (§1.5).

use std::sync::Arc;

use super::shapes::{
    Activity, AsyncSteps, Branches, Handler, Queued, QueuedStep, SharedSteps, TemplateRange,
    TemplateStep, Work,
};
use crate::args::Args;
use crate::error::StepResult;
use crate::location::StepLocation;
use crate::slot::index;

impl QueuedStep {
    #[inline]
    pub(crate) fn new(location: StepLocation, work: impl Work + 'static) -> Self {
        Self { location, handler: None, work: Box::new(work) }
    }

    /// A step whose body is a closure.
    #[inline]
    pub(crate) fn body<F>(location: StepLocation, body: F) -> Self
    where
        F: FnOnce(&mut AsyncSteps, Args) -> StepResult + 'static,
    {
        Self::new(location, Body(body))
    }
}

/// A body that is a closure.
struct Body<F>(F);

impl<F> Work for Body<F>
where
    F: FnOnce(&mut AsyncSteps, Args) -> StepResult,
{
    #[inline]
    fn start(self: Box<Self>, asi: &mut AsyncSteps, args: Args) -> StepResult {
        (self.0)(asi, args)
    }
}

impl Work for Branches {
    fn start(self: Box<Self>, asi: &mut AsyncSteps, _: Args) -> StepResult {
        asi.start_activity(Activity::Parallel(self));
        Ok(())
    }
}

impl From<QueuedStep> for Queued {
    #[inline]
    fn from(step: QueuedStep) -> Self {
        Self::Step(step)
    }
}

impl TemplateRange {
    /// All steps of a template.
    pub(crate) fn all(steps: &SharedSteps) -> Self {
        Self { steps: Arc::clone(steps), next: 0, end: index(steps.len()) }
    }

    /// How many steps are left.
    pub(crate) fn len(&self) -> usize {
        (self.end - self.next) as usize
    }

    /// Takes the next step out, as a range of its own.
    pub(crate) fn split_next(&mut self) -> Option<Self> {
        let next = self.next;
        if next == self.end {
            return None;
        }
        self.next += 1;
        Some(Self { steps: Arc::clone(&self.steps), next, end: next + 1 })
    }

    /// The step that was taken last.
    pub(crate) fn current(&self) -> Option<&TemplateStep> {
        self.steps.get((self.next as usize).checked_sub(1)?).map(|step| &**step)
    }
}

impl TemplateStep {
    /// The error handler as a step of a flow can own it.
    pub(crate) fn own_handler(&self) -> Option<Handler> {
        let handler = Arc::clone(self.handler.as_ref()?);
        Some(Box::new(move |asi, error| handler(asi, error)))
    }
}
