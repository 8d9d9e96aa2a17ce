//! One step of a function, and what is said behind it.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use asyncsteps::sync::ISync;
use asyncsteps::{
    Added, Arguments, AsyncSteps, Error, Fallible, Flow, Keep, Retry, StepReturn, Undo, UndoPolicy,
    Untyped,
};

use super::context::{Cx, Service, coded};

/// The step just added to [`Steps`](super::Steps): it gives `T`, and [`then`](Self::then) adds the
/// step that takes it.
///
/// What is said behind it nests in the order of [`Added`], whatever the order of writing. `A` is what
/// the step takes.
pub struct Step<'a, S: Service, P, A, T, K = Body> {
    pub(super) flow: &'a mut Flow,
    pub(super) cx: &'a Cx<S, P>,
    pub(super) of_step: Cx<S, P>,
    pub(super) types: PhantomData<fn(A, K) -> T>,
}

/// The kind of a step that is one async body.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Body {}

/// The kind of a step with sub-steps. It offers no `undo`, because its sub-steps have their own.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Nested {}

/// The kinds of steps: [`Body`] and [`Nested`].
pub trait Kind<T> {
    /// What the engine knows of the result.
    #[doc(hidden)]
    type Result: 'static;
}

impl<T: 'static> Kind<T> for Body {
    type Result = (T,);
}

impl<T> Kind<T> for Nested {
    type Result = Untyped;
}

/// What a function gives: the `T` of its last step, by `into()`. A named type, so that a function
/// borrows nothing of what it returns.
#[must_use = "return it from the function"]
pub struct Gives<T>(PhantomData<fn() -> T>);

impl<S: Service, P, A, T, K> From<Step<'_, S, P, A, T, K>> for Gives<T> {
    fn from(_: Step<'_, S, P, A, T, K>) -> Self {
        Self(PhantomData)
    }
}

#[expect(
    clippy::return_self_not_must_use,
    reason = "the step is added already: what is given back only serves to say more about it"
)]
impl<'a, S, P, A, T, K> Step<'a, S, P, A, T, K>
where
    S: Service,
    P: 'static,
    A: Arguments,
    T: 'static,
    K: Kind<T>,
{
    /// Adds the step that takes the result of this one. Otherwise as [`run`](super::Steps::run).
    #[track_caller]
    pub fn then<U, F>(self, name: &'static str, body: F) -> Step<'a, S, P, (T,), U>
    where
        U: 'static,
        F: AsyncFn(&Cx<S, P>, T) -> Fallible<U> + 'static,
    {
        let Self { flow, cx, .. } = self;
        Step::add(flow, cx, name, async move |cx: &Cx<S, P>, (value,)| body(cx, value).await)
    }

    /// Limits the time of the step, of each attempt if there are several, see [`Added::timeout`].
    pub fn timeout(self, limit: Duration) -> Self {
        self.say(|step| _ = step.timeout(limit))
    }

    /// Tries the step again when it fails, see [`Added::retry`]; its arguments are cloned for that.
    pub fn retry(self, policy: Retry) -> Self
    where
        A: Keep,
    {
        self.say(|step| _ = step.retry(policy))
    }

    /// Runs the step while it holds `lock`, with all attempts, see [`Added::locked`].
    pub fn locked<O: ISync + Clone + 'static>(self, lock: &O) -> Self {
        self.say(|step| _ = step.locked(lock))
    }

    /// Runs each attempt of the step while it holds a place in `limiter`, see [`Added::limited`].
    pub fn limited<O: ISync + Clone + 'static>(self, limiter: &O) -> Self {
        self.say(|step| _ = step.limited(limiter))
    }

    /// Sets the error handler of the step, see [`Added::on_error`]. It can replace the error or let it
    /// pass; to recover with a value, see [`recover`](Self::recover).
    pub fn on_error<R, F>(self, handler: F) -> Self
    where
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, &Error) -> R + 'static,
    {
        self.say(|step| _ = step.on_error(handler))
    }

    /// Sets the error handler of the step to a body that gives another result for it, or fails with
    /// this error or another one (FTN12 §1.2).
    #[track_caller]
    pub fn recover<F>(self, body: F) -> Self
    where
        F: AsyncFn(&Cx<S, P>, &Error) -> Fallible<T> + 'static,
    {
        let cx = self.of_step.clone();
        let source = cx.source();
        self.on_error(move |asi, error| {
            let error = error.clone();
            asi.run(async move |()| {
                let result = body(&cx, &error).await;
                result.map(|value| (value,)).map_err(coded::<S>)
            })
            .located_at(source);
        })
    }

    /// Says something about the step, as a step of the flow.
    fn say(self, change: impl FnOnce(&mut Added<'_, A, K::Result>)) -> Self {
        match self.flow.last_added() {
            Some(mut added) => change(&mut added),
            None => unreachable!("a step with these types was added last"),
        }
        self
    }
}

#[expect(
    clippy::return_self_not_must_use,
    reason = "the step is added already: what is given back only serves to say more about it"
)]
impl<'a, S, P, A, T> Step<'a, S, P, A, T>
where
    S: Service,
    P: 'static,
    A: Arguments,
    T: 'static,
{
    /// Adds a step to `flow`. Its result travels as one value, whatever its type.
    #[track_caller]
    pub(super) fn add<F>(flow: &'a mut Flow, cx: &'a Cx<S, P>, name: &'static str, body: F) -> Self
    where
        F: AsyncFn(&Cx<S, P>, A) -> Fallible<T> + 'static,
    {
        let of_step = cx.of_new_step(name);
        let of_body = of_step.clone();
        let body = async move |run, args| {
            let result = body(&of_body.of_attempt(run), args).await;
            result.map(|value| (value,)).map_err(coded::<S>)
        };
        flow.run_with::<A, (T,), _>(body).named(name);
        Self { flow, cx, of_step, types: PhantomData }
    }

    /// Shields the body from what ends the step from outside, see [`Added::shielded`].
    pub fn shielded(self) -> Self {
        self.say(|step| _ = step.shielded())
    }

    /// Undoes the step when something later fails, on every way out, see [`Added::undo`]. The body
    /// gets the same [key](Cx::key) as that of the step, and its result, which is cloned for it: what is
    /// not `Clone` travels in an [`Rc`](std::rc::Rc).
    #[track_caller]
    pub fn undo<F>(self, undo: F) -> Self
    where
        T: Clone,
        F: AsyncFn(&Cx<S, P>, Undo<&T>) -> Fallible<()> + 'static,
    {
        self.undo_with(UndoPolicy::default(), undo)
    }

    /// [`undo`](Self::undo) with a policy: how long it may take, and whether it is tried again.
    #[track_caller]
    pub fn undo_with<F>(self, policy: UndoPolicy, undo: F) -> Self
    where
        T: Clone,
        F: AsyncFn(&Cx<S, P>, Undo<&T>) -> Fallible<()> + 'static,
    {
        let cx = self.of_step.clone();
        cx.can_be_undone();
        self.say(|step| {
            step.undo_with(policy, async move |outcome: Undo<&(T,)>| {
                let outcome = match outcome {
                    Undo::Done((value,)) => Undo::Done(value),
                    Undo::Unknown => Undo::Unknown,
                };
                undo(&cx, outcome).await.map_err(coded::<S>)
            });
        })
    }
}

impl<S: Service, P, A, T, K> fmt::Debug for Step<'_, S, P, A, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.of_step.step_name())
    }
}

impl<T> fmt::Debug for Gives<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gives")
    }
}
