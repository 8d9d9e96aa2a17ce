//! Steps that have not started (FTN12 §1.1), and steps of templates (§1.5).

use std::any::TypeId;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

use super::shapes::{
    Activity, AsyncSteps, Description, Handler, ParallelBranches, QueueItem, QueuedStep,
    SharedSteps, StepWork, TemplateRange, TemplateStep, Waking,
};
use crate::args::Args;
use crate::error::StepResult;
use crate::location::StepLocation;
use crate::slot::index;

impl QueuedStep {
    #[inline]
    pub(crate) fn new(location: StepLocation, work: impl StepWork + 'static) -> Self {
        let (source, description) = (location.source(), Description::of_name(location));
        Self { source, description, work: Box::new(work) }
    }

    /// A step whose body is a closure.
    #[inline]
    pub(crate) fn body<F>(location: StepLocation, body: F) -> Self
    where
        F: FnOnce(&mut AsyncSteps, Args) -> StepResult + 'static,
    {
        Self::new(location, ClosureBody(body))
    }

    /// Whether the body is an async closure from `A` to `T`.
    pub(crate) fn is_body<A: 'static, T: 'static>(&self) -> bool {
        self.work.signature() == Some(TypeId::of::<fn(A) -> T>())
    }

    /// The step with this error handler.
    pub(crate) fn with_handler(mut self, handler: Option<Handler>) -> Self {
        if let Some(handler) = handler {
            self.set_handler(handler);
        }
        self
    }

    pub(crate) fn set_source(&mut self, source: &'static Location<'static>) {
        self.source = source;
        if let Some(description) = &mut self.description {
            description.location = StepLocation::new(source, description.location.name());
        }
    }

    pub(crate) fn set_name(&mut self, name: &'static str) {
        let description = self.description();
        description.location = description.location.named(name);
    }

    pub(crate) fn set_handler(&mut self, handler: Handler) {
        self.description().handler = Some(handler);
    }

    fn description(&mut self) -> &mut Description {
        let location = StepLocation::new(self.source, None);
        self.description.get_or_insert_with(|| Box::new(Description { location, handler: None }))
    }

    pub(crate) fn location(&self) -> StepLocation {
        let location = self.description.as_ref().map(|description| description.location);
        location.unwrap_or_else(|| StepLocation::new(self.source, None))
    }

    pub(crate) fn set_label(&mut self, label: Cow<'static, str>) {
        self.work.set_label(label);
    }
}

/// A body that is a closure.
struct ClosureBody<F>(F);

impl<F> StepWork for ClosureBody<F>
where
    F: FnOnce(&mut AsyncSteps, Args) -> StepResult,
{
    #[inline]
    fn start(self: Box<Self>, asi: &mut AsyncSteps, args: Args, _: Waking<'_>) -> StepResult {
        (self.0)(asi, args)
    }
}

impl StepWork for ParallelBranches {
    fn start(self: Box<Self>, asi: &mut AsyncSteps, _: Args, _: Waking<'_>) -> StepResult {
        asi.start_activity(Activity::Parallel(self));
        Ok(())
    }
}

impl From<QueuedStep> for QueueItem {
    #[inline]
    fn from(step: QueuedStep) -> Self {
        Self::Step(step)
    }
}

impl TemplateRange {
    /// All steps of a template.
    pub(crate) fn all(steps: &SharedSteps) -> Self {
        Self { steps: Some(Arc::clone(steps)), next: 0, end: index(steps.len()) }
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
        Some(Self { steps: self.steps.clone(), next, end: next + 1 })
    }

    /// The next step, which is taken.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<&Arc<TemplateStep>> {
        if self.next == self.end {
            return None;
        }
        let step = self.steps.as_ref()?.get(self.next as usize)?;
        self.next += 1;
        Some(step)
    }

    /// The step that was taken last.
    #[inline]
    pub(crate) fn current(&self) -> Option<&Arc<TemplateStep>> {
        let steps = self.steps.as_ref()?;
        steps.get((self.next as usize).checked_sub(1)?)
    }
}
