//! Steps that only some requests need, ways of which a request takes one, and steps that end early.

use std::ops::ControlFlow;
use std::panic::Location;
use std::sync::Arc;

use asyncsteps_core::{Args, Error};

use super::context::Context;
use super::facts::Define;
use super::form::Form;
use super::function::typed;
use super::given::Given;
use super::mistake::Mistake;
use super::node::{Level, Node};
use super::returns::IntoReturns;
use super::service::Service;
use super::step::{Chain, OrEnd, Step, group, pass};
use super::steps::Steps;

/// One of two values, which decides on one of two ways; see [`Step::either`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "there are two ways")]
pub enum Either<A, B> {
    /// The first way.
    A(A),
    /// The second way.
    B(B),
}

impl<S: Service, P: 'static, I: 'static> Steps<S, P, I> {
    /// A step whose sub-steps run if `value` returns something, which the first of them takes. It returns their
    /// result, or `None`.
    #[track_caller]
    pub fn when_some<X, R>(
        &self,
        name: &'static str,
        value: impl Fn(&Given<'_, P>, I) -> Option<X> + Send + Sync + 'static,
        steps: impl FnOnce(&Steps<S, P, X>) -> R,
    ) -> Step<S, P, I, I, Option<R::Result>>
    where
        X: 'static,
        R: IntoReturns<S, P, X>,
    {
        when_some(Chain::new(), name, value, steps)
    }

    /// A step whose sub-steps are the steps of a function, or of a part of it: they have a name of their own in paths
    /// and [keys](super::Cx::key).
    #[track_caller]
    pub fn nested<R: IntoReturns<S, P, I>>(
        &self,
        name: &'static str,
        steps: impl FnOnce(&Self) -> R,
    ) -> Step<S, P, I, I, R::Result> {
        group(Chain::new(), name, Level::of(Self::inside(steps)))
    }

    /// [`nested`](Self::nested) steps whose normal end is final: they are not undone any more when a later step fails,
    /// see [`AsyncSteps::scope`](asyncsteps_core::AsyncSteps::scope).
    #[track_caller]
    pub fn scope<R: IntoReturns<S, P, I>>(
        &self,
        name: &'static str,
        steps: impl FnOnce(&Self) -> R,
    ) -> Step<S, P, I, I, R::Result> {
        scope(Chain::new(), name, Level::of(Self::inside(steps)))
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
    /// [`nested`](Steps::nested) steps that take the result of the step before.
    #[track_caller]
    pub fn then_nested<R: IntoReturns<S, P, T>>(
        self,
        name: &'static str,
        steps: impl FnOnce(&Steps<S, P, T>) -> R,
    ) -> Step<S, P, I, T, R::Result, E> {
        let level = Level::of(Steps::inside(steps));
        group(self.into_chain(), name, level)
    }

    /// [`scope`](Steps::scope) of steps that take the result of the step before.
    #[track_caller]
    pub fn then_scope<R: IntoReturns<S, P, T>>(
        self,
        name: &'static str,
        steps: impl FnOnce(&Steps<S, P, T>) -> R,
    ) -> Step<S, P, I, T, R::Result, E> {
        let level = Level::of(Steps::inside(steps));
        scope(self.into_chain(), name, level)
    }

    /// Steps for one of the two values that the step before returns: a request takes one of the ways, and the plan
    /// has both.
    ///
    /// ```
    /// # use asyncsteps_executor::{Either, Returns, Service, Steps};
    /// # struct Payments;
    /// # impl Service for Payments { type Errors = (); }
    /// # struct Charge { card: Option<String> }
    /// fn charge(steps: &Steps<Payments, Charge>) -> Returns<String> {
    ///     steps
    ///         .run("how", async |cx, ()| {
    ///             Ok(cx.params.card.clone().map_or(Either::A(()), Either::B))
    ///         })
    ///         .either(
    ///             "pay",
    ///             |gift| gift.run("gift", async |_, ()| Ok("nothing to pay".to_owned())),
    ///             |card| card.run("card", async |_, card| Ok(format!("paid by {card}"))),
    ///         )
    ///         .returns()
    /// }
    /// ```
    #[track_caller]
    pub fn either<X, Y, Q, R>(
        self,
        name: &'static str,
        one: impl FnOnce(&Steps<S, P, X>) -> Q,
        other: impl FnOnce(&Steps<S, P, Y>) -> R,
    ) -> Step<S, P, I, T, Q::Result, E>
    where
        T: Into<Either<X, Y>>,
        X: 'static,
        Y: 'static,
        Q: IntoReturns<S, P, X>,
        R: IntoReturns<S, P, Y, Result = Q::Result>,
    {
        let level = Level::of_ways(vec![Steps::inside(one), Steps::inside(other)]);
        let inside = Some(Arc::clone(&level));
        self.into_chain().substeps(
            name,
            Form::Either,
            inside,
            move |asi, cx: Context, value: T, _| match value.into() {
                Either::A(value) => {
                    level.enter_way(0, asi, level.inside(&cx, Some(0), None)?, value)
                }
                Either::B(value) => {
                    level.enter_way(1, asi, level.inside(&cx, Some(1), None)?, value)
                }
            },
        )
    }

    /// [`when_some`](Steps::when_some) for what the step before returns.
    #[track_caller]
    pub fn then_when_some<X, R>(
        self,
        name: &'static str,
        value: impl Fn(&Given<'_, P>, T) -> Option<X> + Send + Sync + 'static,
        steps: impl FnOnce(&Steps<S, P, X>) -> R,
    ) -> Step<S, P, I, T, Option<R::Result>, E>
    where
        X: 'static,
        R: IntoReturns<S, P, X>,
    {
        when_some(self.into_chain(), name, value, steps)
    }

    /// Sub-steps whose number or kind only the value knows that the step before returns: they are defined when a
    /// request reaches them, by a function of nothing but that value. A plan cannot show them, so this is for what
    /// no other form can say. They are nested at most 200 deep, where each early end nests the steps behind it.
    ///
    /// In a [durable](crate::recorder) function it comes directly behind a body whose result is recorded, and that does
    /// not recover: before a request goes on, the steps are defined from that.
    #[track_caller]
    pub fn dynamic<R: IntoReturns<S, P, ()>>(
        self,
        name: &'static str,
        steps: impl Fn(&Steps<S, P>, T) -> R + Send + Sync + 'static,
    ) -> Step<S, P, I, T, R::Result, E> {
        let (source, facts) = (Location::caller(), &self.last.facts);
        let read = facts.read.clone().filter(|_| !facts.passes && !facts.recovers);
        let nodes = Arc::new(move |value| Steps::inside(|at: &Steps<S, P>| steps(at, value)));
        let of_host = Arc::clone(&nodes);
        let define = Arc::new(move |cx: &Context, value: T| {
            defined(source, (cx.step.retried(), cx.host().is_some()), || nodes(value))
        });
        let of_undo = Arc::clone(&define);
        let mut step = self.into_chain().substeps(
            name,
            Form::Dynamic,
            None,
            move |asi, cx: Context, value: T, _| {
                let level = define(&cx, value)?;
                level.enter(asi, level.inside(&cx, None, None)?, ())
            },
        );
        step.last.said.define = Some(of_undo);
        step.last.facts.define = read.map(|read| {
            Define(Arc::new(move |stored| {
                let (value,) = typed::<(T,)>(read.read(stored)?)?;
                let level = defined(source, (None, true), || of_host(value))?;
                Ok(Arc::clone(level.steps()))
            }))
        });
        step
    }
}

impl<S, P, I, A, B, C, E> Step<S, P, I, A, ControlFlow<B, C>, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    B: 'static,
    C: 'static,
{
    /// Goes on with the value of a `Continue`; a `Break` ends the steps of this function, branch, item or iteration
    /// with its value, as `?` does, and no others. In front of [`as_one`](Self::as_one) it ends the steps up to there,
    /// and what is behind goes on with its value; behind `as_one` it ends all steps.
    #[track_caller]
    pub fn or_end<Ends>(self) -> Step<S, P, I, C, C, Ends>
    where
        E: OrEnd<B, Ends = Ends>,
    {
        pass(self.end_or(|flow| flow))
    }
}

impl<S, P, I, A, B, E> Step<S, P, I, A, Option<B>, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    B: 'static,
{
    /// Ends the steps with the value of a `Some`, see [`or_end`](Self::or_end), and goes on otherwise.
    #[track_caller]
    pub fn unless_some<Ends>(self) -> Step<S, P, I, (), (), Ends>
    where
        E: OrEnd<B, Ends = Ends>,
    {
        pass(self.end_or(|value| value.map_or(ControlFlow::Continue(()), ControlFlow::Break)))
    }
}

/// The steps of a dynamic step that was written there, for a request that a host records or another one.
fn defined(
    source: &'static Location<'static>,
    (retried, is_recorded): (Option<&'static str>, bool),
    nodes: impl FnOnce() -> Vec<Node>,
) -> Result<Arc<Level>, Error> {
    let level = Mistake::catch(source, || Level::of(nodes())).map_err(Mistake::into_error)?;
    let mut mistakes = Vec::new();
    level.complete(retried, &mut mistakes);
    level.check_answers(&mut false, &mut mistakes);
    if is_recorded {
        level.check_recorded(&mut mistakes);
    }
    mistakes.pop().map_or(Ok(level), |mistake| Err(mistake.into_error()))
}

/// A step whose sub-steps are the steps of a level, and whose normal end is final.
#[track_caller]
fn scope<S, P, I, A, T, E>(
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
    chain.substeps(name, Form::Scope, inside, move |asi, cx: Context, value, _| {
        let (level, source) = (Arc::clone(&level), cx.source());
        let around = level.inside(&cx, None, None)?;
        let Some(recorded) = around.recorded.clone() else {
            asi.scope(move |asi, ()| level.enter(asi, around, value)).located_at(source);
            return Ok(());
        };
        asi.scope(move |asi, ()| level.enter_branch(0, asi, around, value))
            .remembered(recorded.inside())
            .located_at(source);
        asi.add_inner(move |asi, result: Args| {
            recorded.ended(true)?;
            asi.success(result)
        });
        Ok(())
    })
}

#[track_caller]
fn when_some<S, P, I, A, X, R, E>(
    chain: Chain,
    name: &'static str,
    value: impl Fn(&Given<'_, P>, A) -> Option<X> + Send + Sync + 'static,
    steps: impl FnOnce(&Steps<S, P, X>) -> R,
) -> Step<S, P, I, A, Option<R::Result>, E>
where
    S: Service,
    P: 'static,
    A: 'static,
    X: 'static,
    R: IntoReturns<S, P, X>,
{
    let level = Level::of(Steps::inside(steps));
    let inside = Some(Arc::clone(&level));
    chain.substeps(name, Form::When, inside, move |asi, cx: Context, input, _| {
        let Some(value) = value(&Given::to(&cx), input) else {
            return asi.success((None::<R::Result>,));
        };
        level.enter(asi, level.inside(&cx, None, None)?, value)?;
        asi.add_inner(|asi, (result,): (R::Result,)| asi.success((Some(result),)));
        Ok(())
    })
}
