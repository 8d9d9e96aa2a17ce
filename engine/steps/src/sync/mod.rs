//! Synchronisation (FTN12 §1.11): the protocol, and who holds, who waits, and who is next.
//!
//! The accounting lives in pure machines ([`mutex::Queue`], [`throttle::Queue`]); whoever carries
//! them, an actor or one event loop, implements [`ISync`] on a handle.

pub mod limiter;
mod line;
mod local;
pub mod mutex;
pub mod throttle;
mod zero;

use std::fmt;
use std::panic::Location;

use crate::args::Args;
use crate::error::StepResult;
use crate::flow::AsyncSteps;
use crate::flow::level::{Entry, Handler};
use crate::place::Place;

pub use local::{Limiter, Mutex, Throttle};
pub use zero::ZeroLimit;

/// An object that steps can synchronise against (FTN12 §1.11.3, `ISync` of §2.1).
///
/// `sync` is called in a step of its own. The object may add steps before the section, must run
/// the section, with [`Section::enter`] or [`Section::add`], only while it grants it, and must
/// release on every way out. A value kept with [`AsyncSteps::hold`] is the way to do so: it is
/// dropped when the step ends, by success, error, timeout, cancel, panic or drop of the flow.
pub trait ISync {
    /// Runs `section` under the protection of this object.
    ///
    /// # Errors
    /// What the step fails with, such as `DefenseRejected` when a queue limit is reached.
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult;
}

/// A step that is synchronised against an object.
pub(crate) trait SyncStep {
    fn location(&self) -> &'static Location<'static>;

    fn set_handler(&mut self, handler: Handler);

    /// Asks the object to run the rest of this step.
    fn start(self: Box<Self>, asi: &mut AsyncSteps, args: Args) -> StepResult;
}

/// The body of a critical section.
trait Body {
    fn enter(self: Box<Self>, asi: &mut AsyncSteps, args: Args) -> StepResult;
}

/// An object and the body of a section: one allocation for the step and its section.
pub(crate) struct Synced<O, F> {
    pub(crate) object: O,
    pub(crate) body: F,
    pub(crate) handler: Option<Handler>,
    pub(crate) location: &'static Location<'static>,
}

impl<O, F> SyncStep for Synced<O, F>
where
    O: ISync + Clone + 'static,
    F: FnOnce(&mut AsyncSteps, Args) -> StepResult + 'static,
{
    fn location(&self) -> &'static Location<'static> {
        self.location
    }

    fn set_handler(&mut self, handler: Handler) {
        self.handler = Some(handler);
    }

    fn start(mut self: Box<Self>, asi: &mut AsyncSteps, args: Args) -> StepResult {
        let (object, handler) = (self.object.clone(), self.handler.take());
        let section = Section { body: self, args, handler, place: asi.place() };
        object.sync(asi, section)
    }
}

impl<O, F> Body for Synced<O, F>
where
    F: FnOnce(&mut AsyncSteps, Args) -> StepResult,
{
    fn enter(self: Box<Self>, asi: &mut AsyncSteps, args: Args) -> StepResult {
        (self.body)(asi, args)
    }
}

/// The body of a section without an object.
struct Plain<F>(F);

impl<F> Body for Plain<F>
where
    F: FnOnce(&mut AsyncSteps, Args) -> StepResult,
{
    fn enter(self: Box<Self>, asi: &mut AsyncSteps, args: Args) -> StepResult {
        (self.0)(asi, args)
    }
}

/// A critical section that waits to be entered.
pub struct Section {
    body: Box<dyn Body>,
    args: Args,
    handler: Option<Handler>,
    place: Place,
}

impl Section {
    /// The section of the running step. It takes the step's error handler, so that this guards the
    /// section only.
    pub(crate) fn new<F>(asi: &mut AsyncSteps, args: Args, body: F) -> Self
    where
        F: FnOnce(&mut AsyncSteps, Args) -> StepResult + 'static,
    {
        let handler = asi.take_own_handler();
        Self { body: Box::new(Plain(body)), args, handler, place: asi.place() }
    }

    /// The section that has `protect` run this one: how one object protects inside of another.
    ///
    /// The error handler stays with the inner section.
    #[must_use]
    pub fn within<F>(self, asi: &AsyncSteps, protect: F) -> Self
    where
        F: FnOnce(&mut AsyncSteps, Self) -> StepResult + 'static,
    {
        let body = Box::new(Plain(move |asi: &mut AsyncSteps, _: Args| protect(asi, self)));
        Self { body, args: Args::none(), handler: None, place: asi.place() }
    }

    /// Runs the section here and now, as part of the running step.
    ///
    /// # Errors
    /// What the section fails with.
    pub fn enter(self, asi: &mut AsyncSteps) -> StepResult {
        if let Some(handler) = self.handler {
            asi.set_own_handler(handler);
        }
        self.body.enter(asi, self.args)
    }

    /// Adds the section as a sub-step, to run when the steps added before it are complete.
    pub fn add(self, asi: &mut AsyncSteps) {
        let Self { body, args, handler, place } = self;
        let body = Box::new(move |asi: &mut AsyncSteps, _| body.enter(asi, args));
        let mut entry = Entry::Step { body, handler, location: place.location() };
        if let Some(name) = place.name() {
            entry.set_name(name);
        }
        asi.push(entry);
    }
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "section {}", self.place)
    }
}
