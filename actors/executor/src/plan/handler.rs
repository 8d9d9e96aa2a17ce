//! The plan of a function of an executor.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use asyncsteps_core::{AsyncSteps, BodyResult, StepResult, Template};
use serde::de::DeserializeOwned;

use super::cx::{Cx, coded};
use super::data::Plan;
use super::node::{Level, Mistake};
use super::step::Returns;
use super::steps::{Defined, Steps};
use crate::executor::RequestSteps;
use crate::service::{AnswerWithin, Built, FunctionOf, Handler, Service};

/// The form of handlers that return a plan.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Plans {}

/// The form of handlers that are async functions.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Awaits {}

impl<S, P, R, F> Handler<S, (Plans, P, R)> for F
where
    S: Service,
    P: 'static,
    R: 'static,
    F: Fn(&Steps<S, P>) -> Returns<R> + Send + Sync + 'static,
{
    type Params = P;
    type Result = R;

    fn build(self: Arc<Self>, function: &FunctionOf<S>) -> Built
    where
        P: DeserializeOwned,
    {
        built::<S, P, R>(function, |steps| self(steps))
    }
}

impl<S, P, R, F> Handler<S, (Awaits, P, R)> for F
where
    S: Service,
    P: 'static,
    R: 'static,
    F: AsyncFn(&Cx<S, P>) -> BodyResult<R> + Send + Sync + 'static,
{
    type Params = P;
    type Result = R;

    fn build(self: Arc<Self>, function: &FunctionOf<S>) -> Built
    where
        P: DeserializeOwned,
    {
        let (name, source) = (function.name, function.source);
        let handler = move |steps: &Steps<S, P>| {
            steps.run(name, async move |cx, ()| self(cx).await).located_at(source).returns()
        };
        built::<S, P, R>(function, handler)
    }
}

/// What serves the requests of a function with these steps.
fn built<S: Service, P: DeserializeOwned + 'static, R: 'static>(
    function: &FunctionOf<S>,
    handler: impl FnOnce(&Steps<S, P>) -> Returns<R>,
) -> Built {
    let source = function.source;
    let Defined { nodes, answer } =
        match catch_unwind(AssertUnwindSafe(|| Steps::define(source, handler))) {
            Ok(defined) => defined,
            Err(panic) => {
                let mistake = panic.downcast::<Mistake>().map(|mistake| *mistake);
                let of_panic = |panic: Box<_>| Mistake { source, what: text_of(&*panic) };
                return Built::mistaken(vec![mistake.unwrap_or_else(of_panic)]);
            }
        };
    let (level, mut mistakes) = (Level::of(nodes), Vec::new());
    level.complete(0, &mut mistakes);
    if !mistakes.is_empty() {
        return Built::mistaken(mistakes);
    }
    let limit = answer.as_ref().map(|(answer, _)| answer.limit);
    let plan = Plan::of(function.name, &level, limit);
    let service = Arc::clone(&function.state);
    let template = Template::build(|steps| {
        steps
            .add(move |asi, ()| {
                let cx = Cx::<S, P>::of_request(asi, &service, source)?;
                let Some((answer, source)) = &answer else {
                    return whole::<_, _, R>(&level, asi, cx);
                };
                let arrived = asi.request()?.begun();
                let level = Arc::clone(&level);
                let steps = move |asi: &mut AsyncSteps| whole::<_, _, R>(&level, asi, cx);
                AnswerWithin::of_plan(answer).add(asi, (arrived, source), steps)
            })
            .named(function.name)
            .located_at(source)
            .on_error(|_, error| Err(coded::<S>(error.clone().into())));
    });
    Built { template, front: None, plan: Some(plan), mistakes }
}

/// Has the running step run the steps of the function, and return what the last of them does.
fn whole<S: Service, P: 'static, R: 'static>(
    level: &Level<S, P>,
    asi: &mut AsyncSteps,
    cx: Cx<S, P>,
) -> StepResult {
    level.enter(asi, cx, ())?;
    asi.add_inner(|asi, (_, result): (Cx<S, P>, R)| asi.success((result,)));
    Ok(())
}

/// What a panic says.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the handler panics: {}", text.unwrap_or("without a message"))
}
