//! Steps as values: a chain of them, and the options of the last one.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::sync::StepLock;
use asyncsteps_core::{
    AsyncSteps, BodyResult, Error, Replayable, Retry, StepResult, Undo, UndoPolicy,
};

use super::context::Context;
use super::cx::{Cx, CxBody};
use super::facts::Facts;
use super::form::{Form, UndoForm};
use super::locks::{LockOf, LockOfCx, lock_of_cx, lock_of_input};
use super::mistake::mistaken;
use super::node::{Level, Node, Work};
use super::place::StepId;
use super::service::Service;
use super::undo_body::{UndoInput, UndoResult};
use super::work::{IntoWork, Said, Substeps, Tries};

/// Steps that run one after the other. The last one takes `A` and returns `T`; options apply to it.
///
/// A step is a value: it is in the plan of its function when it is returned, by [`returns`](Self::returns). Options
/// nest in the order of [`Added`](asyncsteps_core::Added), whatever the order of writing.
#[derive(derive_more::Debug)]
#[debug("step {}", self.last.id.name)]
#[must_use = "a step that is not returned is not in the plan: end with `.returns()`"]
pub struct Step<S: Service, P: 'static, I, A: 'static, T: 'static, E = Never> {
    pub(super) before: Chain,
    pub(super) last: Last<A, T>,
    types: PhantomData<fn(S, P, I) -> E>,
}

/// The last step of some, of which more can be said.
pub(super) struct Last<A: 'static, T: 'static> {
    id: Arc<StepId>,
    pub(super) facts: Facts,
    body: Box<dyn IntoWork<A, T>>,
    inside: Option<Arc<Level>>,
    pub(super) said: Said<A, T>,
}

/// Steps of which nothing more can be said.
pub(super) struct Chain {
    /// The possible last steps, and the answer, each with the steps before it.
    ends: Vec<End>,
    nodes: Vec<Node>,
}

/// The steps in front of an early end or an answer, and that.
type End = (Vec<Node>, EarlyEnd);

/// A step that may end the steps early, or has their result, made of the steps with which they go on.
type EarlyEnd = Box<dyn FnOnce(Arc<Level>) -> Node>;

/// The result of a function, or of a part of one: the `R` of its last step, by [`Step::returns`].
#[derive(derive_more::Debug)]
#[debug("Returns")]
#[must_use = "return it from the function"]
pub struct Returns<R> {
    nodes: Vec<Node>,
    /// The service, the parameters and the input of the steps.
    of: TypeId,
    types: PhantomData<fn() -> R>,
}

/// No step before ends the steps early.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Never {}

/// A step before may end the steps with `B`.
#[derive(derive_more::Debug)]
#[debug("Early")]
pub struct Early<B>(PhantomData<fn() -> B>);

/// How steps may end of which the last one returns `T`: only with that, or with what they have answered.
#[diagnostic::on_unimplemented(
    message = "these steps return `{T}`, and a step before ends them early with another type",
    label = "`or_end` and `unless_some` end the steps with what the last step returns",
    note = "the early end is {Self}"
)]
pub trait EndsAs<T> {
    /// What they return.
    type Result: 'static;
}

impl<T: 'static> EndsAs<T> for Never {
    type Result = T;
}

#[diagnostic::do_not_recommend]
impl<T: 'static> EndsAs<T> for Early<T> {
    type Result = T;
}

/// How steps may end that another step before may end with `B`.
#[diagnostic::on_unimplemented(
    message = "these steps end early with `{B}`, and a step before ends them with another type",
    label = "all early ends of some steps are of one type"
)]
pub trait OrEnd<B> {
    /// How they may end.
    type Ends;
}

impl<B> OrEnd<B> for Never {
    type Ends = Early<B>;
}

#[diagnostic::do_not_recommend]
impl<B> OrEnd<B> for Early<B> {
    type Ends = Self;
}

impl Chain {
    pub(super) fn new() -> Self {
        Self { ends: Vec::new(), nodes: Vec::new() }
    }

    /// Adds a step that is an async closure.
    #[track_caller]
    pub(super) fn body<S, P, I, A, T, E, F>(
        self,
        name: &'static str,
        body: F,
    ) -> Step<S, P, I, A, T, E>
    where
        S: Service,
        P: 'static,
        F: AsyncFn(&Cx<S, P>, A) -> BodyResult<T> + Send + Sync + 'static,
    {
        self.add(name, Location::caller(), Form::Body, None, Box::new(CxBody::new(body)))
    }

    /// Adds a step with sub-steps.
    #[track_caller]
    pub(super) fn substeps<S, P, I, A, T, E, F>(
        self,
        name: &'static str,
        form: Form,
        inside: Option<Arc<Level>>,
        body: F,
    ) -> Step<S, P, I, A, T, E>
    where
        S: Service,
        F: Fn(&mut AsyncSteps, Context, A, &Said<A, T>) -> StepResult + Send + Sync + 'static,
    {
        self.add(name, Location::caller(), form, inside, Box::new(Substeps(body)))
    }

    fn add<S: Service, P, I, A, T, E>(
        self,
        name: &'static str,
        source: &'static Location<'static>,
        form: Form,
        inside: Option<Arc<Level>>,
        body: Box<dyn IntoWork<A, T>>,
    ) -> Step<S, P, I, A, T, E> {
        let (id, facts) = (StepId::new(name, source), Facts::new::<S, A, T>(form));
        let last = Last { id, facts, body, inside, said: Said::default() };
        Step { before: self, last, types: PhantomData }
    }

    /// The steps that follow are inside of a step with these facts, whose body goes on with them.
    #[track_caller]
    pub(super) fn goes_on_in<A, T, F>(
        self,
        facts: Facts,
        body: impl FnOnce(Arc<Level>) -> F + 'static,
    ) -> Self
    where
        A: 'static,
        T: 'static,
        F: Fn(&mut AsyncSteps, Context, A, &Said<A, T>) -> StepResult + Send + Sync + 'static,
    {
        let id = StepId::new("", Location::caller());
        let end = move |rest: Arc<Level>| {
            let inside = Some(Arc::clone(&rest));
            let body: Box<dyn IntoWork<A, T>> = Box::new(Substeps(body(rest)));
            Last { id, facts, body, inside, said: Said::default() }.into_node()
        };
        let Self { mut ends, nodes } = self;
        ends.push((nodes, Box::new(end)));
        Self { ends, nodes: Vec::new() }
    }

    /// All steps; those behind an early end or an answer are inside of it.
    fn into_nodes(self) -> Vec<Node> {
        let Self { ends, nodes } = self;
        ends.into_iter().rfold(nodes, |rest, (mut before, end)| {
            before.push(end(Level::rest(rest)));
            before
        })
    }
}

impl<A, T> Last<A, T> {
    fn into_node(self) -> Node {
        let Self { id, facts, body, inside, said } = self;
        let work: Arc<dyn Work> = body.into_work(Arc::clone(&id), said);
        Node::new(id, facts, work, inside)
    }
}

impl<R: 'static> Returns<R> {
    /// The steps, which the application defined there by a closure that got steps for `I`.
    pub(super) fn into_nodes<S: Service, P: 'static, I: 'static>(
        self,
        source: &'static Location<'static>,
    ) -> Vec<Node> {
        if self.of == TypeId::of::<fn(S, P, I)>() {
            return self.nodes;
        }
        mistaken(
            source,
            "these are steps of another level: use the steps that the closure is given",
        )
    }
}

impl<S, P, I, A, T, E> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    T: 'static,
{
    /// Ends the steps: the function, or the part of it, returns what the last of them does, or what it has
    /// [answered](Self::answers).
    pub fn returns<R>(self) -> Returns<R>
    where
        R: 'static,
        E: EndsAs<T, Result = R>,
    {
        let nodes = self.into_chain().into_nodes();
        Returns { nodes, of: TypeId::of::<fn(S, P, I)>(), types: PhantomData }
    }

    /// The same for a step that was written there.
    pub(super) fn located_at(mut self, source: &'static Location<'static>) -> Self {
        self.last.id = StepId::new(self.last.id.name, source);
        self
    }

    /// All steps of it, of which nothing more can be said.
    pub(super) fn into_chain(self) -> Chain {
        let Self { mut before, last, .. } = self;
        if last.facts.form != Form::Pass || last.facts.is_said() {
            before.nodes.push(last.into_node());
        }
        before
    }

    /// Adds a step that is an async closure (FTN12 §1.13), which takes the result of the step before it.
    ///
    /// In the body `?` takes any error. One that [`Service::Errors`] lists has its code when the step ends. `name` is
    /// the name of the step in stacks, errors and traces, and in its [key](Cx::key). The body is shared by all
    /// requests, and so are the values that it captures.
    #[track_caller]
    pub fn then<U, F>(self, name: &'static str, body: F) -> Step<S, P, I, T, U, E>
    where
        U: 'static,
        F: AsyncFn(&Cx<S, P>, T) -> BodyResult<U> + Send + Sync + 'static,
    {
        self.into_chain().body(name, body)
    }

    /// All steps up to here as one step, of which more can be said: policies of several. It has no name in
    /// paths, so that steps keep their keys and records when they are grouped. An [`or_end`](Self::or_end) among
    /// these steps ends them only, and the steps behind go on with its value; one that is said behind ends those too.
    #[track_caller]
    pub fn as_one(self) -> Step<S, P, I, I, T>
    where
        E: EndsAs<T, Result = T>,
    {
        let level = Level::of(self.into_chain().into_nodes());
        group(Chain::new(), "", level)
    }

    /// All steps up to here as one step that returns their result, or the error that they fail with: they are
    /// undone then, and the steps go on.
    #[track_caller]
    pub fn as_result(self) -> Step<S, P, I, I, Result<T, Error>>
    where
        E: EndsAs<T, Result = T>,
    {
        let level = Level::of(self.into_chain().into_nodes());
        let inside = Some(Arc::clone(&level));
        let body = move |asi: &mut AsyncSteps, cx: Context, value: I, _: &_| {
            level.enter(asi, level.inside(&cx, None, None)?, value)?;
            asi.add_inner(|asi, (value,): (T,)| asi.success((Ok::<_, Error>(value),)));
            Ok(())
        };
        Chain::new()
            .substeps("", Form::Group, inside, body)
            .recover(async |_, error| Ok(Err(error.clone())))
    }

    /// The steps go on with what `split` returns of the result of the last one, or end with it.
    #[track_caller]
    pub(super) fn end_or<B, C>(self, split: fn(T) -> ControlFlow<B, C>) -> Chain
    where
        B: 'static,
        C: 'static,
    {
        // the steps return the result of their last one
        self.into_chain().goes_on_in::<T, (), _>(Facts::new::<S, T, C>(Form::OrEnd), move |rest| {
            move |asi: &mut AsyncSteps, cx: Context, value: T, _: &_| match split(value) {
                ControlFlow::Break(end) => asi.success((end,)),
                ControlFlow::Continue(value) => rest.go_on(asi, &cx, value),
            }
        })
    }
}

/// A step whose sub-steps are the steps of a level.
#[track_caller]
pub(super) fn group<S, P, I, A, T, E>(
    chain: Chain,
    name: &'static str,
    level: Arc<Level>,
) -> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
{
    group_at(Location::caller(), chain, name, level)
}

/// [`group`], which the application wrote at `source`.
pub(super) fn group_at<S, P, I, A, T, E>(
    source: &'static Location<'static>,
    chain: Chain,
    name: &'static str,
    level: Arc<Level>,
) -> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
{
    let inside = Some(Arc::clone(&level));
    let body = move |asi: &mut AsyncSteps, cx: Context, value: A, _: &_| {
        level.enter(asi, level.inside(&cx, None, None)?, value)
    };
    chain.add(name, source, Form::Group, inside, Box::new(Substeps(body)))
}

/// No step, in front of others.
#[track_caller]
pub(super) fn pass<S, P, I, A, E>(chain: Chain) -> Step<S, P, I, A, A, E>
where
    S: Service,
    P: 'static,
    A: 'static,
{
    chain.substeps("", Form::Pass, None, |asi, _, value, _| asi.success((value,)))
}

/// The options of a step.
impl<S, P, I, A, T, E> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
{
    /// Runs the step while it holds the lock that `lock` returns, with all attempts, see
    /// [`Added::locked`](asyncsteps_core::Added::locked). It is an owned lock or a key of one, or an `Option` of these
    /// for a step that holds one for some requests. Several are taken in the order of writing.
    pub fn locked<L: StepLock>(
        self,
        lock: impl Fn(&Cx<S, P>) -> L + Send + Sync + 'static,
    ) -> Self {
        self.holding(lock_of_cx(lock))
    }

    /// [`locked`](Self::locked) with a lock that depends on what the step takes.
    ///
    /// In a [durable](crate::recorder) request, undos after a crash run in the lock as well. So a step with such a
    /// lock, in which something can be undone, takes `()` or the result of a recorded step, or is
    /// [`recorded_with_input`](Self::recorded_with_input).
    pub fn locked_by<L: StepLock>(
        mut self,
        lock: impl Fn(&Cx<S, P>, &A) -> L + Send + Sync + 'static,
    ) -> Self {
        self.last.facts.locks += 1;
        self.last.facts.needs_input = true;
        self.last.said.locks.push(lock_of_input(lock));
        self
    }

    pub(super) fn holding(mut self, lock: LockOfCx) -> Self {
        self.last.facts.locks += 1;
        self.last.said.locks.push(LockOf::Cx(lock));
        self
    }

    /// Runs each attempt of the step while it holds a place in the limiter that `limiter` returns, see
    /// [`Added::limited`](asyncsteps_core::Added::limited); otherwise as [`locked`](Self::locked).
    pub fn limited<L: StepLock>(
        self,
        limiter: impl Fn(&Cx<S, P>) -> L + Send + Sync + 'static,
    ) -> Self {
        self.in_place(lock_of_cx(limiter))
    }

    /// [`limited`](Self::limited) with a limiter that depends on what the step takes; otherwise as
    /// [`locked_by`](Self::locked_by).
    pub fn limited_by<L: StepLock>(
        mut self,
        limiter: impl Fn(&Cx<S, P>, &A) -> L + Send + Sync + 'static,
    ) -> Self {
        self.last.facts.limiters += 1;
        self.last.facts.needs_input = true;
        self.last.said.limiters.push(lock_of_input(limiter));
        self
    }

    pub(super) fn in_place(mut self, limiter: LockOfCx) -> Self {
        self.last.facts.limiters += 1;
        self.last.said.limiters.push(LockOf::Cx(limiter));
        self
    }

    /// Limits the time of the step, of each attempt if there are several, see
    /// [`Added::timeout`](asyncsteps_core::Added::timeout). A later call replaces an earlier one.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.last.facts.timeout = Some(limit);
        self.last.said.timeout = Some(limit);
        self
    }

    /// Tries the step again when it fails, see [`Added::retry`](asyncsteps_core::Added::retry); its input is cloned for
    /// that.
    pub fn retry(mut self, policy: Retry) -> Self
    where
        A: Clone,
        (Cx<S, P>, A): Replayable,
    {
        self.last.facts.retry = Some(policy.clone());
        self.last.said.retry = Some(Tries::new(policy));
        self
    }

    /// Runs a body for the error of the step, which returns another result, or fails with this error or
    /// another one (FTN12 §1.2).
    ///
    /// In a [durable](crate::recorder) request what the body returns is not recorded: the step fails again
    /// with its recorded error when the request goes on, and the body runs again. So it only reads or
    /// computes.
    pub fn recover<F>(mut self, body: F) -> Self
    where
        F: AsyncFn(&Cx<S, P>, &Error) -> BodyResult<T> + Send + Sync + 'static,
    {
        self.last.facts.recovers = true;
        self.last.said.recover = Some(Arc::new(CxBody::new(body)));
        self
    }

    /// Shields the body from what ends the step from outside, see
    /// [`Added::shielded`](asyncsteps_core::Added::shielded). It is for steps that are a body.
    pub fn shielded(mut self) -> Self {
        self.last.facts.needs_body("shielded");
        self.last.facts.is_shielded = true;
        self.last.said.is_shielded = true;
        self
    }

    /// Sets the compensation of the step: undoes it when something later fails, on every way out, see
    /// [`Added::undo`](asyncsteps_core::Added::undo). The body gets the same [key](Cx::key) as the step, and its
    /// result, which is cloned for it: a value that is not `Clone` travels in an [`Arc`]. It is for steps that are a
    /// body: steps inside of others have an undo of their own.
    pub fn undo<F>(self, undo: F) -> Self
    where
        T: Clone,
        F: AsyncFn(&Cx<S, P>, Undo<&T>) -> BodyResult<()> + Send + Sync + 'static,
    {
        self.undo_with(UndoPolicy::default(), undo)
    }

    /// [`undo`](Self::undo) with a policy: how long it may take, and whether it is tried again.
    pub fn undo_with<F>(mut self, policy: UndoPolicy, undo: F) -> Self
    where
        T: Clone,
        F: AsyncFn(&Cx<S, P>, Undo<&T>) -> BodyResult<()> + Send + Sync + 'static,
    {
        self.last.facts.needs_body("undo");
        self.last.facts.undo = Some(UndoForm::OfResult);
        self.last.said.undo = Some(Arc::new(UndoResult(policy, CxBody::new(undo))));
        self
    }

    /// [`undo`](Self::undo) that also gets what the step took, which is cloned for it. In a
    /// [durable](crate::recorder) request that has to be recorded, as for [`locked_by`](Self::locked_by).
    pub fn undo_taking<F>(self, undo: F) -> Self
    where
        A: Clone,
        T: Clone,
        F: AsyncFn(&Cx<S, P>, &A, Undo<&T>) -> BodyResult<()> + Send + Sync + 'static,
    {
        self.undo_taking_with(UndoPolicy::default(), undo)
    }

    /// [`undo_taking`](Self::undo_taking) with a policy.
    pub fn undo_taking_with<F>(mut self, policy: UndoPolicy, undo: F) -> Self
    where
        A: Clone,
        T: Clone,
        F: AsyncFn(&Cx<S, P>, &A, Undo<&T>) -> BodyResult<()> + Send + Sync + 'static,
    {
        self.last.facts.needs_body("undo_taking");
        self.last.facts.needs_input = true;
        self.last.facts.undo = Some(UndoForm::OfInputAndResult);
        self.last.said.undo = Some(Arc::new(UndoInput(policy, CxBody::new(undo))));
        self
    }

    /// How many items a step carries out at once that has [items](super::Steps::each): 16 by default.
    pub fn at_once(mut self, most: usize) -> Self {
        if self.last.facts.form != Form::Each || most == 0 {
            self.last.facts.misplaced.push("at_once");
        }
        self.last.facts.at_once = Some(most);
        self.last.said.items.at_once = most;
        self
    }
}

/// The steps, whatever the last of them takes.
impl<S: Service, P: 'static, I, A: 'static, T: 'static, E> Step<S, P, I, A, T, E> {
    /// The same steps, whatever the last of them takes, so that a loop of the code can add to them. Nothing more
    /// can be said about them.
    pub fn erased(self) -> Step<S, P, I, Erased, T, E> {
        let Self { before, last, .. } = self;
        let Last { id, facts, body, inside, said } = last;
        let work = body.into_work(Arc::clone(&id), said);
        let body: Box<dyn IntoWork<Erased, T>> = Box::new(Ready(work));
        Step {
            before,
            last: Last { id, facts, body, inside, said: Said::default() },
            types: PhantomData,
        }
    }
}

/// The input of an [erased](Step::erased) step.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Erased {}

/// A step about which all is said.
struct Ready(Arc<dyn Work>);

impl<T: 'static> IntoWork<Erased, T> for Ready {
    fn into_work(self: Box<Self>, _: Arc<StepId>, _: Said<Erased, T>) -> Arc<dyn Work> {
        self.0
    }
}
