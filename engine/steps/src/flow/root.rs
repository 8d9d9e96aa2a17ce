//! A root object while it is being configured (FTN12 §2.2.1, §2.2.3).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::identity::FlowId;
use crate::args::Arguments;
use crate::completion::Canceller;
use crate::error::{AwaitedResult, Error, StepError, StepReturn};
use crate::interface::{Added, AddedLoop, Collection, Parallel, RunContext};
use crate::observe::Observer;
use crate::probe::UndoTwice;
use crate::random::Random;
use crate::stack::{AsyncSteps, QueueItem};
use crate::state::State;
use crate::sync::ISync;
use crate::template::Template;

/// A root AsyncSteps object that is being configured (FTN12 §2.2.1, §2.2.3).
///
/// Add steps and state, then [`execute`](Self::execute) it once. Most flows come ready-made from a
/// [`Template`].
///
/// It has the methods of [`AsyncSteps`] that add steps and make sense before a step runs. Not
/// `Send`: steps may capture values of one event loop.
#[must_use = "a flow does nothing before it is executed"]
#[derive(Debug)]
pub struct Flow {
    pub(crate) asi: AsyncSteps,
}

impl Default for Flow {
    fn default() -> Self {
        Self::new()
    }
}

impl Flow {
    /// A flow without steps.
    #[inline]
    pub fn new() -> Self {
        Self { asi: AsyncSteps::root() }
    }

    /// Adds a step, see [`AsyncSteps::add`].
    #[track_caller]
    pub fn add<A, R, F>(&mut self, body: F) -> Added<'_>
    where
        A: Arguments,
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, A) -> R + 'static,
    {
        self.asi.add(body)
    }

    /// Adds a parallel step, see [`AsyncSteps::parallel`].
    #[track_caller]
    pub fn parallel(&mut self, define: impl FnOnce(&mut Parallel)) -> Added<'_> {
        self.asi.parallel(define)
    }

    /// Adds a synchronised step, see [`AsyncSteps::sync`].
    #[track_caller]
    pub fn sync<O, A, R, F>(&mut self, object: &O, body: F) -> Added<'_>
    where
        O: ISync + Clone + 'static,
        A: Arguments,
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, A) -> R + 'static,
    {
        self.asi.sync(object, body)
    }

    /// Adds a step that awaits a future, see [`AsyncSteps::await_`].
    #[track_caller]
    pub fn await_<T, E, Fut>(&mut self, future: Fut) -> Added<'_>
    where
        T: Arguments,
        E: Into<StepError> + 'static, // name it: `Ok::<_, Error>(value)`
        Fut: Future<Output: AwaitedResult<T, E>> + 'static,
    {
        self.asi.await_(future)
    }

    /// Adds a step that is an async closure, see [`AsyncSteps::run`].
    #[track_caller]
    pub fn run<A, T, F>(&mut self, body: F) -> Added<'_, A, T>
    where
        A: Arguments,
        T: Arguments,
        F: AsyncFn(A) -> Result<T, StepError> + 'static,
    {
        self.asi.run(body)
    }

    /// Adds a step that is an async closure with a context, see [`AsyncSteps::run_with`].
    #[track_caller]
    pub fn run_with<A, T, F>(&mut self, body: F) -> Added<'_, A, T>
    where
        A: Arguments,
        T: Arguments,
        F: AsyncFn(RunContext, A) -> Result<T, StepError> + 'static,
    {
        self.asi.run_with(body)
    }

    /// Adds a step that can be tried again with its sub-steps, see [`AsyncSteps::substeps`].
    #[track_caller]
    pub fn substeps<A, R, F>(&mut self, body: F) -> Added<'_, A>
    where
        A: Arguments,
        R: StepReturn,
        F: Fn(&mut AsyncSteps, A) -> R + 'static,
    {
        self.asi.substeps(body)
    }

    /// The step that was added last, to say more about it; `None` unless it was added with
    /// [`run`](Self::run) or the like and takes `A` and returns `T`, or with
    /// [`substeps`](Self::substeps) and takes `A`. For code that wraps this interface.
    pub fn last_added<A: Arguments, T: 'static>(&mut self) -> Option<Added<'_, A, T>> {
        match self.asi.strand.pending.last_mut() {
            Some(QueueItem::Step(step)) if step.is_body::<A, T>() => Some(Added::new(step)),
            Some(QueueItem::Step(_) | QueueItem::Template(_)) | None => None,
        }
    }

    /// Adds a step that waits, see [`AsyncSteps::sleep`].
    #[track_caller]
    pub fn sleep(&mut self, pause: Duration) -> Added<'_> {
        self.asi.sleep(pause)
    }

    /// Adds a loop that ends with [`break_loop`](AsyncSteps::break_loop), see
    /// [`AsyncSteps::make_loop`].
    #[track_caller]
    pub fn make_loop<R, F>(&mut self, body: F) -> AddedLoop<'_>
    where
        R: StepReturn,
        F: FnMut(&mut AsyncSteps) -> R + 'static,
    {
        self.asi.make_loop(body)
    }

    /// Adds a loop that runs `count` times, see [`AsyncSteps::repeat`].
    #[track_caller]
    pub fn repeat<R, F>(&mut self, count: usize, body: F) -> AddedLoop<'_>
    where
        R: StepReturn,
        F: FnMut(&mut AsyncSteps, usize) -> R + 'static,
    {
        self.asi.repeat(count, body)
    }

    /// Adds a loop over a list or map, see [`AsyncSteps::for_each`].
    #[track_caller]
    pub fn for_each<C, R, F>(&mut self, collection: C, body: F) -> AddedLoop<'_>
    where
        C: Collection,
        R: StepReturn,
        F: FnMut(&mut AsyncSteps, C::Key, C::Value) -> R + 'static,
    {
        self.asi.for_each(collection, body)
    }

    /// Adds a step whose normal end is final, see [`AsyncSteps::scope`].
    #[track_caller]
    pub fn scope<A, R, F>(&mut self, body: F) -> Added<'_>
    where
        A: Arguments,
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, A) -> R + 'static,
    {
        self.asi.scope(body)
    }

    /// Adds a step that fails with this error, see [`AsyncSteps::error_step`].
    #[track_caller]
    pub fn error_step(&mut self, error: Error) -> Added<'_> {
        self.asi.error_step(error)
    }

    /// Adds a step with this result, see [`AsyncSteps::success_step`].
    #[track_caller]
    pub fn success_step(&mut self, result: impl Arguments) -> Added<'_> {
        self.asi.success_step(result)
    }

    /// Appends the steps of a template, see [`AsyncSteps::copy_from`].
    pub fn copy_from(&mut self, model: &Template) {
        self.asi.append_template(model);
    }

    /// Appends the steps of another flow, see [`AsyncSteps::append`].
    #[track_caller]
    pub fn append(&mut self, flow: Self) {
        self.asi.append(flow);
    }

    /// Passes arguments to the first step, as the result of a preceding step would be; the last
    /// call counts.
    pub fn pass(&mut self, args: impl Arguments) {
        self.asi.strand.args = args.into_args();
    }

    /// The interface itself, for code that adds steps to flows and inside of callbacks alike: the
    /// common API of FTN12 §2.2.1.
    ///
    /// The calls that end a step or make it wait break a rule here: the flow then fails with
    /// `InternalError` instead of running its steps.
    pub fn steps(&mut self) -> &mut AsyncSteps {
        &mut self.asi
    }

    /// The state variables (FTN12 §2.2.1 `state`).
    #[must_use]
    pub fn state(&self) -> &State {
        &self.asi.state
    }

    /// The state variables, to change them.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.asi.state
    }

    /// Attaches a value to the flow, which its steps find by the type (FTN12 §1, "derived
    /// classes").
    #[inline]
    pub fn extend<T: 'static>(&mut self, value: T) {
        self.asi.extend(value);
    }

    /// The same with a value that is in a box already.
    #[inline]
    pub fn extend_boxed<T: 'static>(&mut self, value: Box<T>) {
        self.asi.cold().extensions.set(value);
    }

    /// Has every step of the flow reported to `observer`; a later call replaces an earlier one.
    pub fn observe(&mut self, observer: impl Observer + 'static) {
        let cold = self.asi.cold();
        cold.watches_callbacks = observer.watches_callbacks();
        cold.observer = Some(Box::new(observer));
    }

    /// Whether the flow has an observer.
    #[must_use]
    pub fn is_observed(&self) -> bool {
        self.asi.cold.as_ref().is_some_and(|cold| cold.observer.is_some())
    }

    /// Sets the seed of all choices that the flow makes by chance, so that they can be repeated: the
    /// jitter of [`Retry`](crate::Retry). By default it is the number of the flow, or comes from the
    /// [seed of the thread](crate::sim::seed_thread); [`sim`](crate::sim) sets one made of its own.
    pub fn seed(&mut self, seed: u64) {
        self.asi.policy_state().random = Some(Random::new(seed));
    }

    /// Has each undo of the flow that succeeded run a second time, for tests: a host whose flows survive a
    /// crash does so when the crash came before the end of the undo was stored. In [`sim`](crate::sim) it is
    /// [`Sim::undo_twice`](crate::sim::Sim::undo_twice).
    pub fn undo_twice(&mut self) {
        self.asi.cold().probe = Some(Rc::new(UndoTwice));
    }

    /// A handle that cancels the flow from anywhere, also before it is executed.
    pub fn canceller(&mut self) -> Canceller {
        Canceller(Arc::clone(self.asi.inbox()))
    }

    /// Whether the flow is a part of another one that goes on after it: it undoes what the other one
    /// has done ([`Added::undo`]), or it is the body of a shielded step ([`Added::shielded`]). Its
    /// host keeps what it holds for the other flow until this one has ended, and only its own limit
    /// ends it.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.asi.is_part()
    }

    /// Whether the flow undoes what another one has done, see [`Added::undo`].
    #[must_use]
    pub fn is_undo(&self) -> bool {
        self.asi.is_undo()
    }

    /// The id of the flow, for logs and locks (FTN12 §1.11.4).
    pub fn id(&mut self) -> FlowId {
        self.asi.flow_id()
    }
}

impl Template {
    /// Makes a flow that runs the steps of this template on a copy of its state (FTN12 §1.5).
    pub fn flow(&self) -> Flow {
        let mut flow = Flow::new();
        flow.copy_from(self);
        flow
    }
}
