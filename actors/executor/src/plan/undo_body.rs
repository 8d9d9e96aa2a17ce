//! The undo of a body, in the run that began it and from its records.

use std::future::poll_fn;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;

use asyncsteps_core::{
    Added, AsyncSteps, BodyResult, StepError, StepResult, TemplateAdded, Undo, UndoPolicy,
};

use super::context::Context;
use super::cx::{Cx, CxBody};
use super::place::StepId;
use super::service::{Service, coded};
use super::taken::{Taken, take};

/// Undoes a step.
pub(super) trait UndoBody<A: 'static, T: 'static>: Send + Sync {
    /// Says to a step of a template how it is undone.
    fn say_to_template(
        self: Arc<Self>,
        added: &mut TemplateAdded<'_, (A,), (T,)>,
        id: &Arc<StepId>,
    );

    /// Says to a step that takes this value how it is undone.
    fn say(self: Arc<Self>, added: &mut Added<'_, (A,), (T,)>, cx: Context, input: Option<A>);

    /// The part of the input that the undo takes.
    fn input(&self, input: &A) -> Option<A>;

    /// Adds the undo to the running step, with the records of the step.
    fn add(
        self: Arc<Self>,
        asi: &mut AsyncSteps,
        cx: Context,
        taken: Option<&Taken>,
        result: Option<T>,
    ) -> StepResult;
}

/// An undo that gets what became of the step.
pub(super) struct UndoResult<S, P, F>(pub(super) UndoPolicy, pub(super) CxBody<S, P, F>);

impl<S, P, A, T, F> UndoBody<A, T> for UndoResult<S, P, F>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: Clone + 'static,
    F: AsyncFn(&Cx<S, P>, Undo<&T>) -> BodyResult<()> + Send + Sync + 'static,
{
    fn say_to_template(
        self: Arc<Self>,
        added: &mut TemplateAdded<'_, (A,), (T,)>,
        id: &Arc<StepId>,
    ) {
        let (policy, id) = (self.0.clone(), Arc::clone(id));
        let keep = move |asi: &AsyncSteps, _: &_| (Cx::of(Context::of_running(asi, &id)),);
        let undo = async move |(cx,): &(Cx<S, P>,), outcome: Undo<&(T,)>| {
            (self.1.call)(cx, of_value(outcome)).await.map_err(coded::<S>)
        };
        added.undo_keeping(policy, keep, undo);
    }

    fn say(self: Arc<Self>, added: &mut Added<'_, (A,), (T,)>, cx: Context, _: Option<A>) {
        let cx = Cx::of(cx);
        added.undo_with(self.0.clone(), async move |outcome: Undo<&(T,)>| {
            undone(&cx, (self.1.call)(&cx, of_value(outcome))).await
        });
    }

    fn input(&self, _: &A) -> Option<A> {
        None
    }

    fn add(
        self: Arc<Self>,
        asi: &mut AsyncSteps,
        cx: Context,
        _: Option<&Taken>,
        result: Option<T>,
    ) -> StepResult {
        let (policy, source, cx) = (self.0.clone(), cx.source(), Cx::of(cx));
        add_undo(asi, source, policy, async move || {
            undone(&cx, (self.1.call)(&cx, outcome(result.as_ref()))).await
        });
        Ok(())
    }
}

/// An undo that gets what the step took, and what became of it.
pub(super) struct UndoInput<S, P, F>(pub(super) UndoPolicy, pub(super) CxBody<S, P, F>);

impl<S, P, A, T, F> UndoBody<A, T> for UndoInput<S, P, F>
where
    S: Service,
    P: 'static,
    A: Clone + 'static,
    T: Clone + 'static,
    F: AsyncFn(&Cx<S, P>, &A, Undo<&T>) -> BodyResult<()> + Send + Sync + 'static,
{
    fn say_to_template(
        self: Arc<Self>,
        added: &mut TemplateAdded<'_, (A,), (T,)>,
        id: &Arc<StepId>,
    ) {
        let (policy, id) = (self.0.clone(), Arc::clone(id));
        let keep = move |asi: &AsyncSteps, (input,): &(A,)| {
            (Cx::of(Context::of_running(asi, &id)), input.clone())
        };
        let undo = async move |(cx, input): &(Cx<S, P>, A), outcome: Undo<&(T,)>| {
            (self.1.call)(cx, input, of_value(outcome)).await.map_err(coded::<S>)
        };
        added.undo_keeping(policy, keep, undo);
    }

    fn say(self: Arc<Self>, added: &mut Added<'_, (A,), (T,)>, cx: Context, input: Option<A>) {
        let cx = Cx::of(cx);
        added.undo_with(self.0.clone(), async move |outcome: Undo<&(T,)>| match &input {
            Some(input) => undone(&cx, (self.1.call)(&cx, input, of_value(outcome))).await,
            None => unreachable!("the input of the step is kept for its undo"),
        });
    }

    fn input(&self, input: &A) -> Option<A> {
        Some(input.clone())
    }

    fn add(
        self: Arc<Self>,
        asi: &mut AsyncSteps,
        cx: Context,
        taken: Option<&Taken>,
        result: Option<T>,
    ) -> StepResult {
        let (policy, input) = (self.0.clone(), take::<A>(taken)?);
        let (source, cx) = (cx.source(), Cx::of(cx));
        add_undo(asi, source, policy, async move || {
            undone(&cx, (self.1.call)(&cx, &input, outcome(result.as_ref()))).await
        });
        Ok(())
    }
}

/// Runs the undo of the step, if the host of its request lets it run.
async fn undone<S: Service, P>(
    cx: &Cx<S, P>,
    undo: impl Future<Output = BodyResult<()>>,
) -> Result<(), StepError> {
    let undo = async { undo.await.map_err(coded::<S>) };
    match cx.context.recorded() {
        Some(step) => step.undo(undo).await,
        None => undo.await,
    }
}

fn of_value<T>(outcome: Undo<&(T,)>) -> Undo<&T> {
    match outcome {
        Undo::Done((value,)) => Undo::Done(value),
        Undo::Unknown => Undo::Unknown,
    }
}

/// Adds the undo of a step, which the application wrote there, to the running one.
pub(super) fn add_undo(
    asi: &mut AsyncSteps,
    source: &'static Location<'static>,
    policy: UndoPolicy,
    undo: impl AsyncFn() -> Result<(), StepError> + 'static,
) {
    let ((limit, retry), branch) = (policy.into_parts(), asi.identity());
    let mut added = asi.run(async move |()| {
        let mut undo = pin!(undo());
        poll_fn(|cx| branch.undone_by(|| undo.as_mut().poll(cx))).await
    });
    added.located_at(source).timeout(limit);
    if let Some(retry) = retry {
        added.retry(retry);
    }
}

/// The outcome of a step whose result was recorded, or was not.
pub(super) fn outcome<T>(result: Option<&T>) -> Undo<&T> {
    result.map_or(Undo::Unknown, Undo::Done)
}
