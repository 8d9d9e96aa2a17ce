//! The undo of a step, as it is said and as it runs.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use super::flow::Unreported;
use super::policy::UndoPolicy;
use crate::args::{Args, ArgsMismatch, Arguments};
use crate::contained::Contained;
use crate::error::{StepError, StepResult};
use crate::flow::Identity;
use crate::location::StepLocation;
use crate::outcome::Undo;
use crate::plan::Replayable;
use crate::probe::{StepProbe, UndoMoment};
use crate::replay::NotUndone;
use crate::stack::{AsyncSteps, RepeatedWork, UndoPlan, UndoWork, Waking};

/// An async closure that undoes a step. `K` is what it keeps of the step's arguments.
pub(crate) trait UndoClosure<K, T> {
    /// Returns the arguments, and the part of them to keep.
    fn keep(&self, asi: &AsyncSteps, args: Args) -> Result<(Args, Args), ArgsMismatch>;

    fn call(&self, kept: &K, outcome: Undo<&T>) -> impl Future<Output = Result<(), StepError>>;
}

/// It takes the outcome of the step alone.
pub(crate) struct OfResult<F>(pub(crate) F);

impl<F, T> UndoClosure<(), T> for OfResult<F>
where
    F: AsyncFn(Undo<&T>) -> Result<(), StepError>,
{
    fn keep(&self, _: &AsyncSteps, args: Args) -> Result<(Args, Args), ArgsMismatch> {
        Ok((args, Args::none()))
    }

    fn call(&self, (): &(), outcome: Undo<&T>) -> impl Future<Output = Result<(), StepError>> {
        (self.0)(outcome)
    }
}

/// It takes the result of `keep`, made of the step's arguments, as well.
pub(crate) struct OfInput<G, F, A> {
    keep: G,
    undo: F,
    input: PhantomData<fn(A)>,
}

impl<G, F, A> OfInput<G, F, A> {
    pub(crate) fn new(keep: G, undo: F) -> Self {
        Self { keep, undo, input: PhantomData }
    }
}

impl<G, F, A, K, T> UndoClosure<K, T> for OfInput<G, F, A>
where
    A: Arguments,
    K: Arguments,
    G: Fn(&AsyncSteps, &A) -> K,
    F: AsyncFn(&K, Undo<&T>) -> Result<(), StepError>,
{
    fn keep(&self, asi: &AsyncSteps, mut args: Args) -> Result<(Args, Args), ArgsMismatch> {
        let kept = args.lend(|input| (self.keep)(asi, input).into_args())?;
        Ok((args, kept))
    }

    fn call(&self, kept: &K, outcome: Undo<&T>) -> impl Future<Output = Result<(), StepError>> {
        (self.undo)(kept, outcome)
    }
}

/// The undo of a step that returns `T`.
pub(crate) struct UndoOf<B, A, T> {
    body: B,
    policy: UndoPolicy,
    types: PhantomData<fn(A) -> T>,
}

impl<B, A, T> UndoOf<B, A, T> {
    pub(crate) fn new(body: B, policy: UndoPolicy) -> Arc<Self> {
        Arc::new(Self { body, policy, types: PhantomData })
    }
}

impl<B, A, T> UndoPlan for UndoOf<B, A, T>
where
    B: UndoClosure<A, T> + 'static,
    A: Arguments,
    T: Replayable,
{
    fn keep_input(&self, asi: &AsyncSteps, args: Args) -> Result<(Args, Args), ArgsMismatch> {
        self.body.keep(asi, args)
    }

    fn keep_result(&self, result: Args) -> (Args, Args) {
        let Ok((kept, result)) = result.copied::<T>() else {
            unreachable!("the body gives the type that its undo takes")
        };
        (result, kept)
    }

    fn work(self: Arc<Self>, input: Args, result: Option<Args>, branch: Identity) -> UndoWork {
        let (input, result) = (A::from_args(input), result.map(T::from_args).transpose());
        let (Ok(input), Ok(result)) = (input, result) else {
            unreachable!("they were kept as these types")
        };
        let UndoPolicy { timeout, retry } = self.policy.clone();
        let step = Contained::new(StepToUndo { undo: self, input, result });
        UndoWork { body: Arc::new(UndoRun { step, branch }), timeout, retry }
    }
}

/// The step that is undone.
struct StepToUndo<B, A, T> {
    undo: Arc<UndoOf<B, A, T>>,
    /// The arguments that the undo keeps.
    input: A,
    /// `None` if the outcome is unknown.
    result: Option<T>,
}

/// An undo that runs, as often as it is tried.
struct UndoRun<B, A, T> {
    step: Contained<StepToUndo<B, A, T>>,
    /// The branch whose step it undoes.
    branch: Identity,
}

impl<B, A, T> RepeatedWork for UndoRun<B, A, T>
where
    B: UndoClosure<A, T> + 'static,
    A: Arguments,
    T: Arguments,
{
    fn start(self: Arc<Self>, asi: &mut AsyncSteps, _: Args, _: Waking<'_>) -> StepResult {
        let branch = self.branch;
        let probe = asi.probe().map(|probe| (Rc::clone(probe), asi.location()));
        let undo = async move {
            let StepToUndo { undo, input, result } = &*self.step;
            let run = || undo.body.call(input, result.as_ref().map_or(Undo::Unknown, Undo::Done));
            let ended = match probe {
                None => run().await,
                Some((probe, step)) => Box::pin(run_probed(&*probe, step, run)).await,
            };
            match ended.map_err(StepError::into_error) {
                Ok(()) => Ok(Args::none()),
                Err(error) if error.find::<NotUndone>().is_some() => Ok(Unreported.into_args()),
                Err(error) => Err(error),
            }
        };
        let mut undo = Contained::new(Box::pin(undo));
        asi.poll(Box::pin(poll_fn(move |cx| branch.undone_by(|| undo.as_mut().poll(cx)))));
        Ok(())
    }
}

/// Runs an undo, from its beginning again where the probe of a test says so.
async fn run_probed<U>(
    probe: &dyn StepProbe,
    step: StepLocation,
    run: impl Fn() -> U,
) -> Result<(), StepError>
where
    U: Future<Output = Result<(), StepError>>,
{
    let again = |moment| probe.undo_again(step, moment);
    let mut undo = pin!(Some(run()));
    let first = poll_fn(|cx| {
        let Some(running) = undo.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        match running.poll(cx) {
            Poll::Pending if !again(UndoMoment::Waits) => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
        }
    });
    let first = first.await;
    undo.set(None);
    match first {
        Some(Ok(())) if !again(UndoMoment::Ended) => Ok(()),
        Some(Err(error)) => Err(error),
        None | Some(Ok(())) => run().await,
    }
}
