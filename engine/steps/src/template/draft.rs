//! Steps of a template that is being built.

use std::sync::Arc;

use crate::args::Args;
use crate::error::StepResult;
use crate::location::StepLocation;
use crate::plan::{PlannedBody, SharedPolicies};
use crate::stack::{
    AsyncSteps, QueuedStep, RepeatedWork, SharedBody, SharedHandler, TemplateStep, Waking,
};

/// A step of a template that is being built.
pub(super) enum Draft {
    /// It may still get a handler, a name and policies.
    New(Box<NewStep>),
    /// It comes from another template.
    Shared(Arc<TemplateStep>),
}

/// A step that was just added.
pub(super) struct NewStep {
    pub(super) location: StepLocation,
    pub(super) handler: Option<SharedHandler>,
    pub(super) policies: Option<SharedPolicies>,
    /// See [`TemplateStep::is_sync`].
    pub(super) is_sync: bool,
    /// See [`TemplateStep::is_planned`].
    pub(super) is_planned: bool,
    body: SharedBody,
}

impl Draft {
    pub(super) fn finish(self) -> Arc<TemplateStep> {
        match self {
            Self::New(step) => Arc::new(step.finish()),
            Self::Shared(step) => step,
        }
    }
}

impl NewStep {
    pub(super) fn new(location: StepLocation, body: SharedBody) -> Self {
        Self { location, handler: None, policies: None, is_sync: false, is_planned: false, body }
    }

    /// The step as it runs: with policies, its body is what applies them.
    fn finish(self) -> TemplateStep {
        let Self { location, handler, policies, is_sync, is_planned, body } = self;
        let is_plain = location.name().is_none() && handler.is_none();
        let Some(policies) = policies else {
            return TemplateStep { location, body, handler, is_plain, is_sync, is_planned };
        };
        let (handler, section) =
            if is_sync { (None, Some(SectionDraft { handler })) } else { (handler, None) };
        let shared = Arc::new(SharedWork { body, section });
        let body = Box::new(move |asi: &mut AsyncSteps, args, waker: Waking<'_>| {
            let body: Arc<dyn RepeatedWork> = Arc::clone(&shared) as _;
            policies.for_flow().start(PlannedBody::Again(body), asi, args, waker)
        });
        TemplateStep { location, body, handler, is_plain, is_sync: false, is_planned: true }
    }
}

/// The body of a step with policies.
struct SharedWork {
    body: SharedBody,
    section: Option<SectionDraft>,
}

/// The body is a critical section: the error handler guards that only.
struct SectionDraft {
    handler: Option<SharedHandler>,
}

impl RepeatedWork for SharedWork {
    fn start(self: Arc<Self>, asi: &mut AsyncSteps, args: Args, waker: Waking<'_>) -> StepResult {
        let Some(SectionDraft { handler }) = &self.section else {
            return (self.body)(asi, args, waker);
        };
        let handler = handler.clone();
        let mut step = QueuedStep::body(asi.location(), move |asi, _| (self.body)(asi, args, None));
        if let Some(handler) = handler {
            step.set_handler(Box::new(move |asi, error| handler(asi, error)));
        }
        asi.queue(step);
        Ok(())
    }
}
