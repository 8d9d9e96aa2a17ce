//! The plan of a function of an executor.

use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{Args, AsyncSteps, BodyResult, Error, StepError, StepResult, Template};
use serde::de::DeserializeOwned;

use super::answer::AnswerWithin;
use super::cx::Cx;
use super::data::Plan;
use super::function::{Built, Ended, FunctionOf, Handler, typed};
use super::mistake::Mistake;
use super::node::Level;
use super::planned::Planned;
use super::service::{Service, coded};
use super::step::Returns;
use super::steps::{Defined, Steps};
use super::whole::run_whole;
use crate::executor::RequestSteps;
use crate::raw::RawInput;

/// The form of handlers that return a plan.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Plans {}

/// The form of handlers that are async functions. In a [durable](crate::recorder) request such a function runs again from
/// its beginning after a crash.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Awaits {}

/// The input of the first step of a function: nothing, or a [`RawInput`] for the raw data of a
/// request (FTN6 §2.2 `rawInput`).
#[diagnostic::on_unimplemented(
    message = "the first step of a function cannot take `{Self}`",
    note = "a function is `fn(&Steps<S, P>) -> Returns<R>`, or `fn(&Steps<S, P, RawInput>) -> Returns<R>` for one \
            that takes raw data"
)]
pub trait FirstInput: Sized + 'static {
    #[doc(hidden)]
    const IS_RAW: bool;

    #[doc(hidden)]
    fn of_request(asi: &mut AsyncSteps) -> Result<Self, Error>;
}

impl FirstInput for () {
    const IS_RAW: bool = false;

    fn of_request(_: &mut AsyncSteps) -> Result<Self, Error> {
        Ok(())
    }
}

impl FirstInput for RawInput {
    const IS_RAW: bool = true;

    fn of_request(asi: &mut AsyncSteps) -> Result<Self, Error> {
        asi.raw_input()
    }
}

impl<S, P, I, R, F> Handler<S, (Plans, P, I, R)> for F
where
    S: Service,
    P: 'static,
    I: FirstInput,
    R: 'static,
    F: Fn(&Steps<S, P, I>) -> Returns<R> + Send + Sync + 'static,
{
    type Params = P;
    type Result = R;

    const TAKES_RAW: bool = I::IS_RAW;

    fn build(self: Arc<Self>, function: &FunctionOf<S>) -> Built
    where
        P: DeserializeOwned,
    {
        built::<S, P, _, R>(function, |steps| self(steps))
    }

    fn ended(returned: Args) -> Result<Ended<R>, Error> {
        ended::<S, P, R>(returned)
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
        let is_durable = function.front.is_some();
        let handler = move |steps: &Steps<S, P>| {
            let step = steps.run(name, async move |cx, ()| self(cx).await).located_at(source);
            if is_durable { step.repeatable() } else { step }.returns()
        };
        built::<S, P, _, R>(function, handler)
    }

    fn ended(returned: Args) -> Result<Ended<R>, Error> {
        ended::<S, P, R>(returned)
    }
}

/// Builds a function with these steps.
fn built<S: Service, P: DeserializeOwned + 'static, I: FirstInput, R: 'static>(
    function: &FunctionOf<S>,
    handler: impl FnOnce(&Steps<S, P, I>) -> Returns<R>,
) -> Built {
    let source = function.source;
    let Defined { nodes, answer } = match Mistake::catch(source, || Steps::define(source, handler))
    {
        Ok(defined) => defined,
        Err(mistake) => return Built::mistaken(vec![mistake]),
    };
    let (level, mut mistakes) = (Level::of(nodes), Vec::new());
    level.complete(0, &mut mistakes);
    if function.front.is_some() {
        level.check_recorded(&mut mistakes);
    }
    if !mistakes.is_empty() {
        return Built::mistaken(mistakes);
    }
    let limit = answer.as_ref().map(|(answer, _)| answer.limit);
    let of_front = answer.as_ref().map(|(answer, _)| answer.clone());
    let plan = Plan::of(function.name, &level, limit);
    let planned = function.front.is_some().then(|| Arc::new(Planned::of(&level)));
    let service = Arc::clone(&function.state);
    let template = Template::build(|steps| {
        steps
            .add(move |asi, ()| {
                let cx = Cx::<S, P>::of_request(asi, &service, source, level.takes_signals)?;
                let Some((answer, source)) = answer.as_ref().filter(|_| cx.host().is_none()) else {
                    return start::<_, _, I>(&level, asi, cx);
                };
                let arrived = asi.request()?.begun();
                let level = Arc::clone(&level);
                let steps = move |asi: &mut AsyncSteps| start::<_, _, I>(&level, asi, cx);
                answer.clone().add(asi, (arrived, source), steps)
            })
            .named(function.name)
            .located_at(source)
            .on_error(|_, error| Err(coded::<S>(error.clone().into())));
    });
    let front = function.front.clone().map(|front| in_front(front, of_front));
    Built { template, front, plan: Some(plan), planned, mistakes }
}

/// The result of a request, which the last step of its function returned with its context.
fn ended<S: Service, P: 'static, R: 'static>(returned: Args) -> Result<Ended<R>, Error> {
    let (cx, result) = typed::<(Cx<S, P>, R)>(returned)?;
    Ok((result, cx.take_head()))
}

/// Makes the running step run the steps of the function, which its host may record.
fn start<S: Service, P: 'static, I: FirstInput>(
    level: &Arc<Level<S, P>>,
    asi: &mut AsyncSteps,
    cx: Cx<S, P>,
) -> StepResult {
    let input = I::of_request(asi)?;
    let Some(host) = cx.host() else { return level.enter(asi, cx, input) };
    let (level, source) = (Arc::clone(level), cx.source());
    let recorders = (Rc::clone(&host.request), Rc::clone(&host.function));
    let recorded = Rc::new(level.of_function(&cx, host));
    let _ = host.level.set(Rc::clone(&recorded));
    if host.request.is_to_undo() {
        let (level, cx, request) = (Arc::clone(&level), cx.clone(), Rc::clone(&host.request));
        asi.add(move |asi, ()| {
            asi.add(move |asi, ()| level.undo(asi, &cx, None))
                .located_at(source)
                .on_error(|asi, _| asi.success(()));
            asi.run(async move |()| request.undone().await.map_err(StepError::from))
                .located_at(source);
        })
        .located_at(source);
    }
    asi.add(move |asi, ()| {
        run_whole(asi, source, recorders, move |asi| {
            recorded.begin()?;
            level.enter(asi, cx, input)
        });
    })
    .located_at(source);
    Ok(())
}

/// The front for callers of a function whose requests a host records, in a flow that knows how long the caller waits.
fn in_front(front: Template, answer: Option<AnswerWithin>) -> Template {
    Template::build(|steps| {
        steps.add(move |asi, ()| {
            if let Some(answer) = &answer {
                asi.extend(answer.clone());
            }
            asi.copy_from(&front);
            Ok(())
        });
    })
}
