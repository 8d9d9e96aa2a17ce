//! What can handle a function, and the template that is made of it.

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

use asyncsteps_core::{AsyncSteps, BodyResult, StepResult, Template};
use serde::de::DeserializeOwned;

use super::answer::AnswerWithin;
use super::context::{Cx, Service, coded};
use super::step::Returns;
use super::steps::Steps;
use crate::plan::{Mistake, Plan, run_whole};

/// The business logic of a function of the service `S`: `fn(&mut Steps<S, P>) -> Returns<R>`, which adds
/// steps, or `async fn(&Cx<S, P>) -> BodyResult<R>`. `Form` tells which; it is never written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle a function of the service `{S}`",
    label = "not a handler of `{S}`",
    note = "a handler is `fn(&Steps<{S}, P>) -> Returns<R>` or `async fn(&Cx<{S}, P>) -> BodyResult<R>`"
)]
pub trait Handler<S: Service, Form>: Send + Sync + 'static {
    /// What it takes: the parameters as a type.
    type Params: 'static;
    /// What it gives: the result as a type, `()` for none.
    type Result: 'static;

    /// Whether it takes raw data beside its parameters.
    #[doc(hidden)]
    const TAKES_RAW: bool = false;

    /// Builds what serves the requests of the function.
    #[doc(hidden)]
    fn build(self: Arc<Self>, function: &FunctionOf<S>) -> Built
    where
        Self::Params: DeserializeOwned;
}

/// A function that is given to an executor.
#[doc(hidden)]
#[derive(Debug)]
pub struct FunctionOf<S> {
    pub(crate) name: &'static str,
    pub(crate) state: Arc<S>,
    /// Where the application gave it.
    pub(crate) source: &'static Location<'static>,
    /// What callers get, if a host remembers its requests.
    pub(crate) front: Option<Template>,
}

/// What serves the requests of a function.
#[doc(hidden)]
#[derive(Debug)]
pub struct Built {
    pub(crate) template: Template,
    /// What callers get, if a host remembers its requests.
    pub(crate) front: Option<Template>,
    /// The steps as data, if they are known.
    pub(crate) plan: Option<Plan>,
    /// Why the function cannot be served.
    pub(crate) mistakes: Vec<Mistake>,
}

impl Built {
    /// A function that cannot be served.
    pub(crate) fn mistaken(mistakes: Vec<Mistake>) -> Self {
        Self { template: Template::build(|_| {}), front: None, plan: None, mistakes }
    }
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
    F: Fn(&mut Steps<S, P>) -> Returns<R> + Send + Sync + 'static,
{
    type Params = P;
    type Result = R;

    fn build(self: Arc<Self>, function: &FunctionOf<S>) -> Built
    where
        P: DeserializeOwned,
    {
        let of_front = Arc::clone(&self);
        built(
            function,
            move |asi, cx| start_steps(&self, asi, cx),
            move |cx| answer_within(&*of_front, cx),
        )
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
        let start = move |asi: &mut AsyncSteps, cx: Cx<S, P>| {
            let (name, source, this) = (cx.step_name(), cx.source(), Arc::clone(&self));
            asi.run_with(async move |run, ()| {
                let result = this(&cx.of_attempt(run)).await;
                result.map(|value| (value,)).map_err(coded::<S>)
            })
            .named(name)
            .located_at(source);
            Ok(())
        };
        built(function, start, |_| None)
    }
}

fn start_steps<S: Service, P: 'static, R>(
    handler: &Arc<impl Fn(&mut Steps<S, P>) -> Returns<R> + 'static>,
    asi: &mut AsyncSteps,
    cx: Cx<S, P>,
) -> StepResult {
    let (request, memory) = (cx.memory().cloned(), cx.memory_around().cloned());
    let (source, handler) = (cx.source(), Arc::clone(handler));
    let start = move |asi: &mut AsyncSteps| {
        let mut steps = Steps::new(cx);
        let Returns { .. } = handler(&mut steps);
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

/// How long a caller waits, if the function limits that. The steps are defined, and none of them runs.
fn answer_within<S: Service, P: 'static, R>(
    handler: &impl Fn(&mut Steps<S, P>) -> Returns<R>,
    cx: Cx<S, P>,
) -> Option<AnswerWithin> {
    let mut steps = Steps::new(cx);
    // a panic is reported where the function runs
    let define = AssertUnwindSafe(|| {
        let Returns { .. } = handler(&mut steps);
    });
    catch_unwind(define).ok().and_then(|()| steps.take_answer())
}

/// What serves the requests of a function: its template, whose last step gives `(R,)`, and in front of a host that
/// remembers requests what their callers get, in a flow that knows how long the caller waits, as an extension.
fn built<S: Service, P: DeserializeOwned + 'static>(
    function: &FunctionOf<S>,
    start: impl Fn(&mut AsyncSteps, Cx<S, P>) -> StepResult + Send + Sync + 'static,
    answer: impl Fn(Cx<S, P>) -> Option<AnswerWithin> + Send + Sync + 'static,
) -> Built {
    let (name, source) = (function.name, function.source);
    let front = function.front.clone().map(|front| {
        let state = Arc::clone(&function.state);
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let cx = Cx::of_request(asi, &state, name, source)?;
                if let Some(answer) = answer(cx) {
                    asi.extend(answer);
                }
                asi.copy_from(&front);
                Ok(())
            })
            .named(name)
            .located_at(source);
        })
    });
    let state = Arc::clone(&function.state);
    let template = Template::build(|asi| {
        asi.add(move |asi, ()| {
            let cx = Cx::of_request(asi, &state, name, source)?;
            start(asi, cx)
        })
        .named(name)
        .located_at(source)
        .on_error(|_, error| Err(error.clone().coded::<S::Errors>().into()));
    });
    Built { template, front, plan: None, mistakes: Vec::new() }
}
