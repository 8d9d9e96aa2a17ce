//! Steps that define sub-steps as often as they are tried (FTN12 §2.2.1).

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

use super::added::{Added, Untyped};
use crate::args::{Args, Arguments};
use crate::error::{StepResult, StepReturn};
use crate::location::StepLocation;
use crate::stack::{AsyncSteps, QueuedStep, RepeatedWork, StepWork, Waking};

/// A step whose body can be called for each attempt.
pub(super) struct SubstepsBody<F, A> {
    body: F,
    args: PhantomData<fn(A)>,
}

impl<F, A, R> SubstepsBody<F, A>
where
    A: Arguments,
    R: StepReturn,
    F: Fn(&mut AsyncSteps, A) -> R + 'static,
{
    pub(super) fn new(body: F) -> Self {
        Self { body, args: PhantomData }
    }

    fn call(&self, asi: &mut AsyncSteps, args: Args) -> StepResult {
        let args = asi.typed(args)?;
        (self.body)(asi, args).into_result()
    }
}

impl<F, A, R> StepWork for SubstepsBody<F, A>
where
    A: Arguments,
    R: StepReturn,
    F: Fn(&mut AsyncSteps, A) -> R + 'static,
{
    fn start(self: Box<Self>, asi: &mut AsyncSteps, args: Args, _: Waking<'_>) -> StepResult {
        self.call(asi, args)
    }

    fn into_repeat(self: Box<Self>) -> Option<Arc<dyn RepeatedWork>> {
        Some(Arc::new(*self))
    }

    fn signature(&self) -> Option<TypeId> {
        Some(TypeId::of::<fn(A) -> Untyped>())
    }
}

impl<F, A, R> RepeatedWork for SubstepsBody<F, A>
where
    A: Arguments,
    R: StepReturn,
    F: Fn(&mut AsyncSteps, A) -> R + 'static,
{
    fn start(self: Arc<Self>, asi: &mut AsyncSteps, args: Args, _: Waking<'_>) -> StepResult {
        self.call(asi, args)
    }
}

impl AsyncSteps {
    /// [`add`](Self::add) with a body that can be called again, so that the step can be tried again
    /// with all its sub-steps (FTN12 §2.2.1); see [`Added::retry`].
    ///
    /// ```
    /// use asyncsteps_core::{Error, Flow, Retry, run_to_end};
    ///
    /// let mut flow = Flow::new();
    /// flow.substeps(|asi, ()| {
    ///     let attempt = asi.attempt();
    ///     asi.run(async move |()| if attempt < 3 { Err(Error::new("Busy"))? } else { Ok(attempt) });
    ///     asi.add(|asi, attempt: u32| asi.success(attempt * 10));
    /// })
    /// .retry(Retry::attempts(5).on_code("Busy"));
    /// assert_eq!(run_to_end::<u32>(flow).unwrap(), 30);
    /// ```
    #[track_caller]
    pub fn substeps<A, R, F>(&mut self, body: F) -> Added<'_, A>
    where
        A: Arguments,
        R: StepReturn,
        F: Fn(&mut Self, A) -> R + 'static,
    {
        self.queue(QueuedStep::new(StepLocation::here(), SubstepsBody::new(body)));
        Added::new(self.strand.last_added())
    }
}
