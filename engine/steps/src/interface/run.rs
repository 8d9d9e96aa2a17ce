//! Steps that are async closures, as futures that their steps poll (FTN12 §1.13).

use std::any::TypeId;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::args::{Args, Arguments};
use crate::error::{Error, StepError, StepResult};
use crate::inbox::FutureWaker;
use crate::location::StepLocation;
use crate::retry::Retry;
use crate::stack::{
    Activity, AsyncSteps, QueuedStep, Repeat, StepFuture, ToUndo, Undoable, Waking, Work,
};
use crate::undo::Watched;

/// What the body of a step gets beside its arguments, see
/// [`AsyncSteps::run_with`](crate::AsyncSteps::run_with).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RunContext {
    /// Which attempt this is, from 1; see [`Retry`](crate::Retry).
    pub attempt: u32,
}

/// An async closure that is the body of a step. Its future borrows what the closure captured.
pub(crate) trait AsyncBody<A, T> {
    fn call(&self, context: RunContext, args: A) -> impl Future<Output = Result<T, StepError>>;
}

/// An async closure that takes the result of the step before it.
pub(crate) struct Plain<F>(pub(crate) F);

impl<F, A, T> AsyncBody<A, T> for Plain<F>
where
    F: AsyncFn(A) -> Result<T, StepError>,
{
    #[inline]
    fn call(&self, _: RunContext, args: A) -> impl Future<Output = Result<T, StepError>> {
        (self.0)(args)
    }
}

/// An async closure that takes the context as well.
pub(crate) struct WithContext<F>(pub(crate) F);

impl<F, A, T> AsyncBody<A, T> for WithContext<F>
where
    F: AsyncFn(RunContext, A) -> Result<T, StepError>,
{
    #[inline]
    fn call(&self, context: RunContext, args: A) -> impl Future<Output = Result<T, StepError>> {
        (self.0)(context, args)
    }
}

/// A step whose body is an async closure, which the future keeps.
pub(crate) struct Run<B, A, T> {
    body: B,
    signature: PhantomData<fn(A) -> T>,
}

impl<B, A, T> Run<B, A, T>
where
    A: Arguments,
    T: Arguments,
    B: AsyncBody<A, T> + 'static,
{
    #[inline]
    pub(crate) fn step(location: StepLocation, body: B) -> QueuedStep {
        QueuedStep::new(location, Self { body, signature: PhantomData })
    }
}

impl<B, A, T> Work for Run<B, A, T>
where
    A: Arguments,
    T: Arguments,
    B: AsyncBody<A, T> + 'static,
{
    fn start(self: Box<Self>, asi: &mut AsyncSteps, args: Args, waker: Waking<'_>) -> StepResult {
        let body = self.body;
        let (context, args) = (asi.run_context(), asi.typed(args)?);
        asi.poll_new(async move { finish(body.call(context, args).await) }, waker)
    }

    fn into_repeat(self: Box<Self>) -> Option<Rc<dyn Repeat>> {
        Some(Rc::new(*self))
    }

    fn signature(&self) -> Option<TypeId> {
        Some(TypeId::of::<fn(A) -> T>())
    }
}

impl<B, A, T> Repeat for Run<B, A, T>
where
    A: Arguments,
    T: Arguments,
    B: AsyncBody<A, T> + 'static,
{
    fn start(self: Rc<Self>, asi: &mut AsyncSteps, args: Args, waker: Waking<'_>) -> StepResult {
        let (context, args) = (asi.run_context(), asi.typed(args)?);
        asi.poll_new(async move { finish(self.body.call(context, args).await) }, waker)
    }
}

/// Starts the body of a step of a template, which the future keeps.
pub(crate) fn start_shared<B, A, T>(
    body: &Arc<B>,
    asi: &mut AsyncSteps,
    args: Args,
    waker: Waking<'_>,
) -> StepResult
where
    A: Arguments,
    T: Arguments,
    B: AsyncBody<A, T> + 'static,
{
    let body = Arc::clone(body);
    let (context, args) = (asi.run_context(), asi.typed(args)?);
    asi.poll_new(async move { finish(body.call(context, args).await) }, waker)
}

fn finish<T: Arguments>(result: Result<T, StepError>) -> Result<Args, Error> {
    result.map(Arguments::into_args).map_err(StepError::into_error)
}

impl AsyncSteps {
    /// Makes the running step poll this future.
    pub(crate) fn poll(&mut self, future: impl Future<Output = Result<Args, Error>> + 'static) {
        let future: StepFuture = if self.active() == 0 {
            Box::pin(future)
        } else {
            let (key, _) = self.wait_key(0);
            let waker = FutureWaker::waker(self.inbox(), key);
            Box::pin(WithWaker { future: Box::pin(future), waker })
        };
        self.start_activity(Activity::Polling(future));
    }

    /// Lists what the running step would have to undo.
    pub(crate) fn add_undo(&mut self, undo: Rc<dyn Undoable>) {
        let inside = (self.active(), self.strand.depth() + 1);
        let step = (self.location(), self.branch_path());
        self.policy_state().undos.push(inside, step, ToUndo::Step(undo));
    }

    /// Has the future of the running step tell its undo what becomes of it.
    pub(crate) fn watch(&mut self, undo: Rc<dyn Undoable>, retry: Option<Retry>) {
        let activity = self.strand.top.replace_activity(Activity::Plain);
        self.set_activity(if let Activity::Polling(future) = activity {
            Activity::Polling(Box::pin(Watched::new(future, undo, retry)))
        } else {
            activity
        });
    }

    fn run_context(&self) -> RunContext {
        RunContext { attempt: self.attempt() }
    }
}

/// Has a future wake the step of a branch instead of the whole flow.
struct WithWaker<F> {
    future: Pin<Box<F>>,
    waker: Waker,
}

impl<F: Future> Future for WithWaker<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { future, waker } = &mut *self;
        future.as_mut().poll(&mut Context::from_waker(waker))
    }
}
