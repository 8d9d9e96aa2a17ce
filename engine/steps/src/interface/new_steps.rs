//! How steps are made before they are queued (FTN12 §2.2.1): alike for levels and for branches.

use std::borrow::Cow;

use super::parallel::Parallel;
use crate::args::{Args, Arguments};
use crate::error::{AwaitedResult, StepError, StepResult};
use crate::location::StepLocation;
use crate::stack::{
    Activity, AsyncSteps, Iterate, ParallelBranches, QueuedStep, StepWork, Unstarted, Waking,
};

impl QueuedStep {
    /// A step whose sub-steps run in parallel.
    pub(super) fn parallel(location: StepLocation, define: impl FnOnce(&mut Parallel)) -> Self {
        let mut parallel = Parallel { branches: Vec::new() };
        define(&mut parallel);
        Self::new(location, ParallelBranches::new(Unstarted::Own(parallel.branches.into_iter())))
    }

    /// A step that polls a future.
    pub(super) fn polling<T, E, Fut>(location: StepLocation, future: Fut) -> Self
    where
        T: Arguments,
        E: Into<StepError> + 'static,
        Fut: Future<Output: AwaitedResult<T, E>> + 'static,
    {
        Self::body(location, move |asi, _| {
            asi.poll(Box::pin(async move {
                let result = future.await.into_result();
                result.map(Arguments::into_args).map_err(|error| error.into().into_error())
            }));
            Ok(())
        })
    }

    /// A loop over these items.
    pub(crate) fn looping_over<I, F>(location: StepLocation, items: I, body: F) -> Self
    where
        I: Iterator + 'static,
        F: FnMut(&mut AsyncSteps, I::Item) -> StepResult + 'static,
    {
        Self::new(location, Loop { items, body, label: None })
    }
}

impl AsyncSteps {
    /// Makes the running step a loop over these items.
    pub(crate) fn start_loop<I, F>(&mut self, items: I, body: F, label: Option<Cow<'static, str>>)
    where
        I: Iterator + 'static,
        F: FnMut(&mut Self, I::Item) -> StepResult + 'static,
    {
        self.start_activity(Activity::Looping(Box::new(Loop { items, body, label })));
    }
}

/// A loop: its items, one for each iteration, and its body.
struct Loop<I, F> {
    items: I,
    body: F,
    label: Option<Cow<'static, str>>,
}

impl<I, F> StepWork for Loop<I, F>
where
    I: Iterator + 'static,
    F: FnMut(&mut AsyncSteps, I::Item) -> StepResult + 'static,
{
    fn start(self: Box<Self>, asi: &mut AsyncSteps, _: Args, _: Waking<'_>) -> StepResult {
        asi.start_activity(Activity::Looping(self));
        Ok(())
    }

    fn set_label(&mut self, label: Cow<'static, str>) {
        self.label = Some(label);
    }
}

impl<I, F> Iterate for Loop<I, F>
where
    I: Iterator,
    F: FnMut(&mut AsyncSteps, I::Item) -> StepResult,
{
    fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    #[inline]
    fn iterate(&mut self, asi: &mut AsyncSteps) -> Option<StepResult> {
        let item = self.items.next()?;
        Some((self.body)(asi, item))
    }
}
