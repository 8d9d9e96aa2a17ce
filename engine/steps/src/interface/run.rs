//! Steps that are async closures, as futures that their steps poll (FTN12 §1.13).

use std::any::TypeId;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::args::{Args, Arguments};
use crate::error::{Error, StepError, StepResult};
use crate::inbox::FutureWaker;
use crate::location::StepLocation;
use crate::stack::{
    Activity, AsyncSteps, QueuedStep, RepeatedWork, StepFuture, StepUndo, StepWork, ToUndo,
    UndoOfFrame, Waking,
};

/// The context that the body of a step gets in addition to its arguments, see
/// [`AsyncSteps::run_with`](crate::AsyncSteps::run_with).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RunContext {
    /// Which attempt this is, from 1; see [`Retry`](crate::Retry).
    pub attempt: u32,
}

/// An async closure that is the body of a step. Its future borrows what the closure captured.
pub(crate) trait AsyncBody<A, T> {
    /// The context that the closure takes.
    fn context(asi: &AsyncSteps) -> RunContext {
        RunContext { attempt: asi.attempt() }
    }

    fn call(&self, context: RunContext, args: A) -> impl Future<Output = Result<T, StepError>>;
}

/// An async closure that takes the result of the step before it.
pub(crate) struct Plain<F>(pub(crate) F);

impl<F, A, T> AsyncBody<A, T> for Plain<F>
where
    F: AsyncFn(A) -> Result<T, StepError>,
{
    /// It takes none.
    #[inline]
    fn context(_: &AsyncSteps) -> RunContext {
        RunContext { attempt: 1 }
    }

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

impl<B, A, T> StepWork for Run<B, A, T>
where
    A: Arguments,
    T: Arguments,
    B: AsyncBody<A, T> + 'static,
{
    fn start(self: Box<Self>, asi: &mut AsyncSteps, args: Args, waker: Waking<'_>) -> StepResult {
        let body = self.body;
        let (context, args) = (B::context(asi), asi.typed(args)?);
        asi.poll_new(async move { finish(body.call(context, args).await) }, waker)
    }

    fn into_repeat(self: Box<Self>) -> Option<Arc<dyn RepeatedWork>> {
        Some(Arc::new(*self))
    }

    fn signature(&self) -> Option<TypeId> {
        Some(TypeId::of::<fn(A) -> T>())
    }
}

impl<B, A, T> RepeatedWork for Run<B, A, T>
where
    A: Arguments,
    T: Arguments,
    B: AsyncBody<A, T> + 'static,
{
    fn start(self: Arc<Self>, asi: &mut AsyncSteps, args: Args, waker: Waking<'_>) -> StepResult {
        let (context, args) = (B::context(asi), asi.typed(args)?);
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
    let (context, args) = (B::context(asi), asi.typed(args)?);
    asi.poll_new(async move { finish(body.call(context, args).await) }, waker)
}

fn finish<T: Arguments>(result: Result<T, StepError>) -> Result<Args, Error> {
    result.map(Arguments::into_args).map_err(StepError::into_error)
}

impl AsyncSteps {
    /// Makes the running step poll this future.
    pub(crate) fn poll(&mut self, future: StepFuture) {
        let future = if self.active() == 0 {
            future
        } else {
            let (key, _) = self.wait_key(0);
            let waker = FutureWaker::waker(self.inbox(), key);
            Box::pin(WithWaker { future, waker })
        };
        self.start_activity(Activity::Polling(future));
    }

    /// Calls `told` with the result of the running step's future.
    pub(crate) fn watch(&mut self, told: impl Fn(&Result<Args, Error>) + 'static) {
        if let Some(mut future) = self.strand.top.take_future() {
            self.set_activity(Activity::Polling(Box::pin(poll_fn(move |cx| {
                let polled = future.as_mut().poll(cx);
                if let Poll::Ready(result) = &polled {
                    told(result);
                }
                polled
            }))));
        }
    }

    /// Lists what the running step would have to undo.
    #[inline]
    pub(crate) fn add_undo(&mut self, undo: StepUndo) {
        let inside = (self.active(), self.strand.depth() + 1);
        let step = (self.location(), self.branch_path());
        self.strand.top.flags.undo = UndoOfFrame::Own;
        self.policy_state().undos.push(inside, step, ToUndo::Step(undo));
    }

    /// Notifies the undo of the running step, or of the step that it is a part of, about its
    /// future.
    #[inline]
    pub(crate) fn tell_undo(&mut self) {
        let flags = &mut self.strand.top.flags;
        if flags.undo == UndoOfFrame::None {
            flags.undo = UndoOfFrame::Around;
        }
    }

    /// The undo that is notified about the future of the running step.
    #[inline]
    pub(crate) fn told_undo(&mut self) -> Option<&mut StepUndo> {
        if self.strand.top.flags.undo == UndoOfFrame::None { None } else { self.own_undo() }
    }

    /// The undo of the running step, or of the step that it is a part of.
    #[inline]
    pub(crate) fn own_undo(&mut self) -> Option<&mut StepUndo> {
        let inside = (self.active(), self.strand.undo_level()?);
        match self.cold.as_mut()?.policies.as_mut()?.undos.first_inside(inside)? {
            ToUndo::Step(undo) => Some(undo),
            ToUndo::Release(_) => None,
        }
    }
}

/// Lets a future wake the step of a branch instead of the whole flow.
struct WithWaker {
    future: StepFuture,
    waker: Waker,
}

impl Future for WithWaker {
    type Output = Result<Args, Error>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { future, waker } = &mut *self;
        future.as_mut().poll(&mut Context::from_waker(waker))
    }
}
