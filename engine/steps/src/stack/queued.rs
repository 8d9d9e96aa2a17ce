//! Steps that have not started (FTN12 §1.1), and steps of templates (§1.5).

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::mem;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use super::shapes::{
    Activity, AsyncSteps, Branches, Handler, Queued, QueuedStep, Repeat, SharedSteps,
    TemplateRange, TemplateStep, Work,
};
use crate::args::Args;
use crate::error::StepResult;
use crate::location::StepLocation;
use crate::slot::index;

impl QueuedStep {
    #[inline]
    pub(crate) fn new(location: StepLocation, work: impl Work + 'static) -> Self {
        let mut step = Self { source: location.source(), handler: None, work: Box::new(work) };
        if let Some(name) = location.name() {
            step.set_name(name);
        }
        step
    }

    /// A step whose body is a closure.
    #[inline]
    pub(crate) fn body<F>(location: StepLocation, body: F) -> Self
    where
        F: FnOnce(&mut AsyncSteps, Args) -> StepResult + 'static,
    {
        Self::new(location, Body(body))
    }

    pub(crate) fn set_source(&mut self, source: &'static Location<'static>) {
        self.source = source;
    }

    pub(crate) fn set_name(&mut self, name: &'static str) {
        let nothing = Box::new(Body(|_: &mut AsyncSteps, _: Args| Ok(())));
        let work = mem::replace(&mut self.work, nothing);
        self.work = Box::new(Named { name, work });
    }

    /// Whether the body is an async closure from `A` to `T`.
    pub(crate) fn is_body<A: 'static, T: 'static>(&self) -> bool {
        self.work.signature() == Some(TypeId::of::<fn(A) -> T>())
    }

    /// The step with this error handler.
    pub(crate) fn with_handler(mut self, handler: Option<Handler>) -> Self {
        self.handler = handler;
        self
    }

    pub(crate) fn set_label(&mut self, label: Cow<'static, str>) {
        self.work.set_label(label);
    }

    #[inline]
    pub(crate) fn location(&self) -> StepLocation {
        StepLocation::new(self.source, self.work.name())
    }
}

/// The work of a step with a name; few steps have one, so the others do not make room for it.
struct Named {
    name: &'static str,
    work: Box<dyn Work>,
}

impl Work for Named {
    fn start(self: Box<Self>, asi: &mut AsyncSteps, args: Args) -> StepResult {
        self.work.start(asi, args)
    }

    fn name(&self) -> Option<&'static str> {
        Some(self.name)
    }

    fn set_label(&mut self, label: Cow<'static, str>) {
        self.work.set_label(label);
    }

    fn into_repeat(self: Box<Self>) -> Option<Rc<dyn Repeat>> {
        self.work.into_repeat()
    }

    fn owns_handler(&self) -> bool {
        self.work.owns_handler()
    }

    fn signature(&self) -> Option<TypeId> {
        self.work.signature()
    }

    fn policies(&mut self) -> Option<&mut dyn Any> {
        self.work.policies()
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
