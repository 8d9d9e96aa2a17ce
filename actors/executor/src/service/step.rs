//! One step of a function, and what is said behind it.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::replay::NotUndone;
use asyncsteps_core::sync::ISync;
use asyncsteps_core::{
    Added, Arguments, AsyncSteps, BodyResult, Error, Flow, Replayable, Retry, RunContext,
    StepReturn, Undo, UndoPolicy, Untyped,
};

use super::context::{Cx, Service, coded};
use super::remembered::{KeptParts, Remembered, RememberedItems};
use crate::recorder::{Codec, Form, HostUndo, Kind as Remember, Running};

/// The step just added to [`Steps`](super::Steps): it gives `T`, and [`then`](Self::then) adds the
/// step that takes it.
///
/// What is said behind it nests in the order of [`Added`], whatever the order of writing. `A` is what
/// the step takes.
pub struct Step<'a, S: Service, P, A, T, K = Body> {
    pub(super) flow: &'a mut Flow,
    pub(super) cx: &'a Cx<S, P>,
    pub(super) of_step: Cx<S, P>,
    /// What the host of the request remembers of the step, if it does.
    pub(super) remembered: Option<Rc<Remembered<T>>>,
    pub(super) types: PhantomData<fn(A, K) -> T>,
}

/// The kind of a step that is one async body.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Body {}

/// The kind of a step that is one async body, which does several things that give an `R` each.
pub struct Items<R>(PhantomData<fn() -> R>);

/// The kind of a step that is one async body, which does two or three things and gives a tuple.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Parts {}

/// The kind of a step whose body the host of a durable request carries out in a transaction.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Transacted {}

/// The kinds of steps that are one body: [`Body`], [`Items`], [`Parts`] and [`Transacted`].
pub trait Leaf<T>: Kind<T, Result = (T,)> {}

impl<T: 'static> Leaf<T> for Body {}

impl<T: 'static, R> Leaf<T> for Items<R> {}

impl<T: 'static> Leaf<T> for Parts {}

impl<T: 'static> Leaf<T> for Transacted {}

/// The kind of a step with sub-steps. It offers no `undo`, because its sub-steps have their own.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Nested {}

/// The kind of a loop with a state `St`. It offers no `undo`, because its sub-steps have their own.
pub struct Loop<St>(PhantomData<fn() -> St>);

/// The kinds of steps: [`Body`], [`Items`], [`Parts`], [`Transacted`], [`Nested`] and [`Loop`].
pub trait Kind<T> {
    /// What the engine knows of the result.
    #[doc(hidden)]
    type Result: 'static;
}

impl<T: 'static> Kind<T> for Body {
    type Result = (T,);
}

impl<T: 'static, R> Kind<T> for Items<R> {
    type Result = (T,);
}

impl<T: 'static> Kind<T> for Parts {
    type Result = (T,);
}

impl<T: 'static> Kind<T> for Transacted {
    type Result = (T,);
}

impl<T> Kind<T> for Nested {
    type Result = Untyped;
}

impl<T, St> Kind<T> for Loop<St> {
    type Result = Untyped;
}

/// The return type of a function: the `T` of its last step, by `into()`. A named type, so that a function
/// borrows nothing of what it returns.
#[must_use = "return it from the function"]
pub struct Returns<T>(PhantomData<fn() -> T>);

impl<S: Service, P, A, T, K> From<Step<'_, S, P, A, T, K>> for Returns<T> {
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
        F: AsyncFn(&Cx<S, P>, T) -> BodyResult<U> + 'static,
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
        A: Replayable,
    {
        self.say(|step| _ = step.retry(policy))
    }

    /// Runs the step while it holds `lock`, with all attempts, see [`Added::locked`].
    pub fn locked<O: ISync + Clone + 'static>(self, lock: &O) -> Self {
        self.cx.locks();
        if let Some(remembered) = &self.remembered {
            remembered.step.set_locked();
        }
        self.say(|step| _ = step.locked(lock))
    }

    /// Runs each attempt of the step while it holds a place in `limiter`, see [`Added::limited`].
    pub fn limited<O: ISync + Clone + 'static>(self, limiter: &O) -> Self {
        self.cx.locks();
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
    ///
    /// In a [durable](crate::recorder) request what the body gives is not recorded: the step fails again
    /// with its recorded error when the request goes on, and the body runs again. So it only reads or
    /// computes.
    #[track_caller]
    pub fn recover<F>(self, body: F) -> Self
    where
        F: AsyncFn(&Cx<S, P>, &Error) -> BodyResult<T> + 'static,
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

    /// Says that the step had this name in an earlier version of the function: a
    /// [durable](crate::recorder) request that began with that version finds it again. A step that had
    /// several names says so for each, the newest first. In other requests it does nothing.
    ///
    /// The step keeps its oldest name for the host and in its [key](Cx::key), so that nothing is carried out
    /// twice. A request that has something stored under a newer name keeps that. So this stays until the
    /// last request that began with it has ended, and no other step gets the old name meanwhile.
    pub fn was(self, name: &'static str) -> Self {
        if let Some(remembered) = &self.remembered {
            self.cx.renamed(&remembered.step, &*remembered.memory, name);
        }
        self
    }

    /// Says something about the step, as a step of the flow.
    pub(super) fn say(self, change: impl FnOnce(&mut Added<'_, A, K::Result>)) -> Self {
        match self.flow.last_added() {
            Some(mut added) => change(&mut added),
            None => unreachable!("a step with these types was added last"),
        }
        self
    }
}

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
        F: AsyncFn(&Cx<S, P>, A) -> BodyResult<T> + 'static,
    {
        let of_step = cx.of_new_step(name, Form::Body);
        let of_body = of_step.clone();
        let remembered = of_step.remember::<T>();
        let of_memory = remembered.clone();
        let body = async move |run: RunContext, args| {
            let Some(step) = &of_memory else {
                let result = body(&of_body.of_attempt(run), args).await;
                return Ok((result.map_err(coded::<S>)?,));
            };
            let _running = step.memory.begin(run.attempt).await?;
            let result = step.watched(body(&of_body.of_attempt(run), args)).await;
            let result = result.map_err(coded::<S>)?;
            step.done(run.attempt, &result).await?;
            Ok((result,))
        };
        flow.run_with::<A, (T,), _>(body).named(name);
        Self { flow, cx, of_step, remembered, types: PhantomData }
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
    K: Leaf<T>,
{
    /// The step, which does several things that are kept like this.
    pub(super) fn with_items<R: 'static>(
        self,
        items: Option<Rc<RememberedItems<R>>>,
    ) -> Step<'a, S, P, A, T, Items<R>> {
        if let Some((items, step)) = items.zip(self.remembered.as_ref()) {
            step.step.set_has_items();
            items.belong_to(&step.memory);
            let _ = step.items.set(Box::new(items));
        }
        self.of_kind()
    }

    /// The step, which does a few things that are kept like this.
    pub(super) fn with_parts<N: KeptParts>(self, parts: Option<N>) -> Step<'a, S, P, A, T, Parts> {
        if let Some((parts, step)) = parts.zip(self.remembered.as_ref()) {
            step.step.set_has_items();
            parts.belong_to(&step.memory);
            let _ = step.items.set(Box::new(parts));
        }
        self.of_kind()
    }

    /// The step, as one of another kind.
    pub(super) fn of_kind<L: Leaf<T>>(self) -> Step<'a, S, P, A, T, L> {
        let Self { flow, cx, of_step, remembered, .. } = self;
        Step { flow, cx, of_step, remembered, types: PhantomData }
    }

    /// The host stores what the step gives by itself.
    pub(super) fn stored_by_host(self, kind: Remember, codec: Codec<T>) -> Self {
        let Some(remembered) = self.remembered.clone() else { return self };
        remembered.step.set_kind(kind);
        remembered.step.set_read(Box::new(move |stored| Ok(((codec.read)(stored)?,).into_args())));
        self.say(move |step| _ = step.remembered(Rc::clone(&remembered.memory) as _))
    }

    /// Says what the host of a request that it [remembers](crate::recorder) does with the body: `codec`
    /// is for a result that is stored. In other requests it does nothing.
    pub fn remembered(self, kind: Remember, codec: Option<Codec<T>>) -> Self {
        let Some(remembered) = self.remembered.clone() else { return self };
        remembered.step.set_kind(kind);
        if let Some(codec) = codec {
            let _ = remembered.codec.set(codec);
            let read = move |stored: &_| Ok((((codec.read)(stored))?,).into_args());
            remembered.step.set_read(Box::new(read));
        }
        self.say(move |step| _ = step.remembered(Rc::clone(&remembered.memory) as _))
    }

    /// The host decides what it means that the step has to be undone, unless an undo is given.
    pub(super) fn undone_by_host(self) -> Self
    where
        T: Clone,
    {
        let Some(remembered) = self.remembered.clone() else { return self };
        self.say(|step| {
            step.undo(async move |_| {
                // the host knows what it means: there is nothing to run
                let _running = remembered.memory.begin_undo().await;
                Err(NotUndone.into())
            });
        })
    }

    /// Says that the step commits the request, such as one that places an order: once it has begun, no cancel, no
    /// deadline and no limit around it ends a [durable](crate::recorder) request, unless the step fails. A cancel is
    /// answered as too late then, and the result says what became true. The beginning is stored before the body
    /// runs, which takes a flush of its own. In other requests it does nothing.
    ///
    /// A limit of the step itself still cuts its body, and a later step that fails still undoes those before it.
    pub fn commits(self) -> Self {
        if let Some(remembered) = &self.remembered {
            remembered.step.set_commits();
        }
        self
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
        F: AsyncFn(&Cx<S, P>, Undo<&T>) -> BodyResult<()> + 'static,
    {
        self.undo_with(UndoPolicy::default(), undo)
    }

    /// [`undo`](Self::undo) with a policy: how long it may take, and whether it is tried again.
    #[track_caller]
    pub fn undo_with<F>(self, policy: UndoPolicy, undo: F) -> Self
    where
        T: Clone,
        F: AsyncFn(&Cx<S, P>, Undo<&T>) -> BodyResult<()> + 'static,
    {
        self.of_step.can_be_undone();
        self.undone_by(policy, undo)
    }

    /// Sets the undo of the step.
    pub(super) fn undone_by<F>(self, policy: UndoPolicy, undo: F) -> Self
    where
        T: Clone,
        F: AsyncFn(&Cx<S, P>, Undo<&T>) -> BodyResult<()> + 'static,
    {
        let (cx, remembered) = (self.of_step.clone(), self.remembered.clone());
        let undo = Rc::new(undo);
        if let Some(step) = &remembered {
            step.step.set_can_be_undone();
            step.memory.undo_by(host_undo(step, &cx, &undo));
        }
        self.say(|step| {
            step.undo_with(policy, async move |outcome: Undo<&(T,)>| {
                let outcome = match outcome {
                    Undo::Done((value,)) => Undo::Done(value),
                    Undo::Unknown => Undo::Unknown,
                };
                let running = match &remembered {
                    Some(step) => step.memory.begin_undo().await,
                    None => Some(Box::new(()) as Running),
                };
                if running.is_none() {
                    return Err(NotUndone.into());
                }
                let undone =
                    undo(&cx, outcome).await.map_err(|error| coded::<S>(error).into_error());
                match (&remembered, &undone) {
                    (Some(step), Ok(())) => step.memory.undone().await,
                    (Some(step), Err(error)) => step.memory.undo_failed(error),
                    (None, _) => {}
                }
                Ok(undone?)
            });
        })
    }
}

#[expect(
    clippy::return_self_not_must_use,
    reason = "the step is added already: what is given back only serves to say more about it"
)]
impl<S: Service, P, A, T, R: 'static> Step<'_, S, P, A, T, Items<R>> {
    /// Says how the host of a request that it [remembers](crate::recorder) stores each of several results,
    /// so that what is done is not done again.
    pub fn items_remembered(self, codec: Codec<R>) -> Self {
        let items = self.remembered.as_ref().and_then(|step| step.items.get());
        if let Some(items) = items.and_then(|items| items.downcast_ref::<Rc<RememberedItems<R>>>())
        {
            items.stored_as(codec);
        }
        self
    }
}

/// The undo of a step, for its host. It does not keep the step.
fn host_undo<S, P, T, F>(step: &Rc<Remembered<T>>, cx: &Cx<S, P>, undo: &Rc<F>) -> HostUndo
where
    S: Service,
    P: 'static,
    T: 'static,
    F: AsyncFn(&Cx<S, P>, Undo<&T>) -> BodyResult<()> + 'static,
{
    let (step, cx, undo) = (Rc::downgrade(step), cx.clone(), Rc::clone(undo));
    Rc::new(move |stored| {
        let codec = step.upgrade().and_then(|step| step.codec.get().copied());
        let (cx, undo) = (cx.clone(), Rc::clone(&undo));
        Box::pin(async move {
            let value = stored.zip(codec).map(|(stored, codec)| (codec.read)(&stored));
            let value = value.transpose()?;
            let outcome = value.as_ref().map_or(Undo::Unknown, Undo::Done);
            undo(&cx, outcome).await.map_err(|raised| coded::<S>(raised).into_error())
        })
    })
}

impl<S: Service, P, A, T, K> fmt::Debug for Step<'_, S, P, A, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.of_step.step_name())
    }
}

impl<R> fmt::Debug for Items<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Items")
    }
}

impl<St> fmt::Debug for Loop<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loop")
    }
}

impl<T> fmt::Debug for Returns<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Returns")
    }
}
