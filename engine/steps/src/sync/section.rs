//! The protocol of synchronisation objects (FTN12 §1.11.3, `ISync` of §2.1).

use std::sync::Arc;
use std::{fmt, mem};

use crate::args::Args;
use crate::error::StepResult;
use crate::location::StepLocation;
use crate::stack::{AsyncSteps, Handler, QueuedStep, StepWork, Waking};

/// An object that steps can synchronise against (FTN12 §1.11.3, `ISync` of §2.1).
///
/// `sync` is called in a step of its own. The object may add steps before the section. It runs the
/// section with [`Section::enter`] or [`Section::add`], once the caller holds the object, and
/// releases the object however the section ends. A guard kept with [`AsyncSteps::hold`] does so: it
/// is dropped when the step ends, by success, error, timeout, cancel, panic or drop of the flow; if
/// something inside has to be undone, after the undo has ended.
#[diagnostic::on_unimplemented(
    message = "steps cannot synchronise against `{Self}`",
    label = "no object with a critical section",
    note = "`asyncsteps::sync` has a `Mutex`, a `Throttle` and a `Limiter` for templates and for flows on any \
            thread, `asyncsteps::engine::sync` those for the flows of one event loop"
)]
pub trait ISync {
    /// Runs `section` while the caller holds this object.
    ///
    /// # Errors
    /// The step fails, for instance with `DefenseRejected` when a queue limit is reached.
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult;
}

/// An object that templates can synchronise against (FTN12 §1.5, §1.11.3): threads share a template,
/// so they share its objects.
#[diagnostic::on_unimplemented(
    message = "a template cannot synchronise against `{Self}`, because threads share the template",
    label = "no object with a critical section that threads can share",
    note = "`asyncsteps::sync` has the `Mutex`, `Throttle` and `Limiter` for templates; those of \
            `asyncsteps::engine::sync` are for steps that are added in a flow"
)]
pub trait SharedSync: ISync + Clone + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<O: ISync + Clone + Send + Sync + 'static> SharedSync for O {}

/// The body of a critical section.
enum AnySectionBody {
    Own(Box<dyn SectionBody>),
    /// The body of a template's section.
    Shared(Arc<SharedSectionBody>),
}

pub(crate) type SharedSectionBody = dyn Fn(&mut AsyncSteps, Args) -> StepResult + Send + Sync;

trait SectionBody {
    fn enter(self: Box<Self>, asi: &mut AsyncSteps, args: Args) -> StepResult;
}

/// An object and the body of its section: one allocation for both.
pub(crate) struct Synced<O, F> {
    /// `None` once the section is on its way.
    object: Option<O>,
    body: F,
}

impl<O: ISync + Clone, F> Synced<O, F> {
    pub(crate) fn new(object: &O, body: F) -> Self {
        Self { object: Some(object.clone()), body }
    }
}

impl<O, F> StepWork for Synced<O, F>
where
    O: ISync + 'static,
    F: FnOnce(&mut AsyncSteps, Args) -> StepResult + 'static,
{
    fn start(mut self: Box<Self>, asi: &mut AsyncSteps, args: Args, _: Waking<'_>) -> StepResult {
        let Some(object) = self.object.take() else { unreachable!("a step starts once") };
        let section = Section::of_step(asi, args, AnySectionBody::Own(self));
        object.sync(asi, section)
    }

    fn owns_handler(&self) -> bool {
        true
    }
}

impl<O, F> SectionBody for Synced<O, F>
where
    F: FnOnce(&mut AsyncSteps, Args) -> StepResult,
{
    fn enter(self: Box<Self>, asi: &mut AsyncSteps, args: Args) -> StepResult {
        (self.body)(asi, args)
    }
}

impl AnySectionBody {
    #[inline]
    fn enter(self, asi: &mut AsyncSteps, args: Args) -> StepResult {
        match self {
            Self::Own(body) => body.enter(asi, args),
            Self::Shared(body) => body(asi, args),
        }
    }
}

/// The body of a section without an object.
struct PlainBody<F>(F);

impl<F> SectionBody for PlainBody<F>
where
    F: FnOnce(&mut AsyncSteps, Args) -> StepResult,
{
    fn enter(self: Box<Self>, asi: &mut AsyncSteps, args: Args) -> StepResult {
        (self.0)(asi, args)
    }
}

/// A critical section that was not entered yet (FTN12 §1.11.3).
pub struct Section {
    body: AnySectionBody,
    args: Args,
    handler: Option<Handler>,
    location: StepLocation,
}

impl Section {
    /// The section of the running step. It takes the step's error handler, which guards the section
    /// only.
    #[inline]
    fn of_step(asi: &mut AsyncSteps, args: Args, body: AnySectionBody) -> Self {
        let handler = asi.take_own_handler();
        Self { body, args, handler, location: asi.location() }
    }

    /// The section of a step of a template.
    pub(crate) fn shared(asi: &mut AsyncSteps, args: Args, body: &Arc<SharedSectionBody>) -> Self {
        Self::of_step(asi, args, AnySectionBody::Shared(Arc::clone(body)))
    }

    /// A section within the running step, which keeps its error handler.
    pub(crate) fn inner<F>(asi: &AsyncSteps, args: Args, body: F) -> Self
    where
        F: FnOnce(&mut AsyncSteps, Args) -> StepResult + 'static,
    {
        let body = AnySectionBody::Own(Box::new(PlainBody(body)));
        Self { body, args, handler: None, location: asi.location() }
    }

    /// The arguments that the body is going to take.
    pub(crate) fn args(&mut self) -> &mut Args {
        &mut self.args
    }

    /// A section that has `protect` run this one: one object within another, as in a limiter.
    ///
    /// The error handler stays with this section.
    #[must_use]
    pub fn within<F>(mut self, asi: &AsyncSteps, protect: F) -> Self
    where
        F: FnOnce(&mut AsyncSteps, Self) -> StepResult + 'static,
    {
        let args = mem::take(&mut self.args);
        Self::inner(asi, args, move |asi, args| protect(asi, Self { args, ..self }))
    }

    /// Runs the section at once, as part of the running step.
    ///
    /// # Errors
    /// The section failed.
    #[inline]
    pub fn enter(self, asi: &mut AsyncSteps) -> StepResult {
        if let Some(handler) = self.handler {
            asi.set_own_handler(handler);
        }
        self.body.enter(asi, self.args)
    }

    /// Adds the section as a sub-step, which runs when the steps added before it are complete.
    pub fn add(self, asi: &mut AsyncSteps) {
        let Self { body, args, handler, location } = self;
        let step = QueuedStep::body(location, move |asi, _| {
            asi.take_memory_over();
            body.enter(asi, args)
        });
        asi.queue(step.with_handler(handler));
    }
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "section {}", self.location)
    }
}
