//! What can handle a function, and the template that is made of it.

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

use asyncsteps_core::{AsyncSteps, Fallible, StepResult, Template};
use serde::de::DeserializeOwned;

use super::answer::AnswerWithin;
use super::context::{Cx, Service, coded};
use super::remembered::run_whole;
use super::step::Gives;
use super::steps::Steps;

/// The business logic of a function of the service `S`: `fn(&mut Steps<S, P>) -> Gives<R>`, which adds
/// steps, or `async fn(&Cx<S, P>) -> Fallible<R>`. `Form` tells which; it is never written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle a function of the service `{S}`",
    label = "not a handler of `{S}`",
    note = "a handler is `fn(&mut Steps<{S}, P>) -> Gives<R>` or `async fn(&Cx<{S}, P>) -> Fallible<R>`"
)]
pub trait Handler<S: Service, Form>: Send + Sync + 'static {
    /// What it takes: the parameters as a type.
    type Params: 'static;
    /// What it gives: the result as a type, `()` for none.
    type Result: 'static;

    /// Begins to serve a request, as sub-steps of the running step.
    ///
    /// # Errors
    /// What the step raises.
    #[doc(hidden)]
    fn start(self: Arc<Self>, asi: &mut AsyncSteps, cx: Cx<S, Self::Params>) -> StepResult;

    /// How long a caller waits, if the function limits that. The steps are defined, and none of them runs.
    #[doc(hidden)]
    fn answer_within(&self, cx: Cx<S, Self::Params>) -> Option<AnswerWithin>;
}

/// The form of handlers that add steps.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum AddsSteps {}

/// The form of handlers that are async functions.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Awaits {}

impl<S, P, R, F> Handler<S, (AddsSteps, P, R)> for F
where
    S: Service,
    P: 'static,
    R: 'static,
    F: Fn(&mut Steps<S, P>) -> Gives<R> + Send + Sync + 'static,
{
    type Params = P;
    type Result = R;

    fn start(self: Arc<Self>, asi: &mut AsyncSteps, cx: Cx<S, P>) -> StepResult {
        let (request, memory) = (cx.memory().cloned(), cx.memory_around().cloned());
        let source = cx.source();
        let start = move |asi: &mut AsyncSteps| {
            let mut steps = Steps::new(cx);
            let Gives { .. } = self(&mut steps);
            steps.finish(asi)
        };
        match request.zip(memory) {
            Some(memories) => {
                run_whole(asi, source, memories, start);
                Ok(())
            }
            None => start(asi),
        }
    }

    fn answer_within(&self, cx: Cx<S, P>) -> Option<AnswerWithin> {
        let mut steps = Steps::new(cx);
        // a panic is reported where the function runs
        let define = AssertUnwindSafe(|| {
            let Gives { .. } = self(&mut steps);
        });
        catch_unwind(define).ok().and_then(|()| steps.take_answer())
    }
}

impl<S, P, R, F> Handler<S, (Awaits, P, R)> for F
where
    S: Service,
    P: 'static,
    R: 'static,
    F: AsyncFn(&Cx<S, P>) -> Fallible<R> + Send + Sync + 'static,
{
    type Params = P;
    type Result = R;

    fn start(self: Arc<Self>, asi: &mut AsyncSteps, cx: Cx<S, P>) -> StepResult {
        let (name, source) = (cx.step_name(), cx.source());
        asi.run_with(async move |run, ()| {
            let result = self(&cx.of_attempt(run)).await;
            result.map(|value| (value,)).map_err(coded::<S>)
        })
        .named(name)
        .located_at(source);
        Ok(())
    }

    fn answer_within(&self, _: Cx<S, P>) -> Option<AnswerWithin> {
        None
    }
}

/// The template of a function with this handler, which the application gave at `source`. Its last step
/// gives `(H::Result,)`.
pub(crate) fn typed_template<S, Form, H>(
    function: &'static str,
    state: Arc<S>,
    handler: Arc<H>,
    source: &'static Location<'static>,
) -> Template
where
    S: Service,
    H: Handler<S, Form>,
    H::Params: DeserializeOwned,
{
    Template::build(|asi| {
        asi.add(move |asi, ()| {
            let cx = Cx::of_request(asi, &state, function, source)?;
            Arc::clone(&handler).start(asi, cx)
        })
        .named(function)
        .located_at(source)
        .on_error(|_, error| Err(error.clone().coded::<S::Errors>().into()));
    })
}

/// What callers of a function get whose requests a host remembers: `front`, in a flow that knows how long the
/// caller waits, as an extension.
pub(crate) fn front_template<S, Form, H>(
    function: &'static str,
    state: Arc<S>,
    handler: Arc<H>,
    front: Template,
    source: &'static Location<'static>,
) -> Template
where
    S: Service,
    H: Handler<S, Form>,
    H::Params: DeserializeOwned,
{
    Template::build(|asi| {
        asi.add(move |asi, ()| {
            let cx = Cx::of_request(asi, &state, function, source)?;
            if let Some(answer) = handler.answer_within(cx) {
                asi.extend(answer);
            }
            asi.copy_from(&front);
            Ok(())
        })
        .named(function)
        .located_at(source);
    })
}
