//! The plan of a function of an executor.

use std::any::Any;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{
    Args, Arguments, AsyncSteps, BodyResult, Error, StepError, StepResult, Template,
};
use serde::de::DeserializeOwned;

use super::answer::AnswerWithin;
use super::around::Around;
use super::cx::{Cx, read};
use super::data::Plan;
use super::facts::{Facts, StepFacts, StepView};
use super::form::Form;
use super::function::{Built, FunctionOf, Handler};
use super::mistake::Mistake;
use super::node::Level;
use super::of_request::{OfFunction, OfRequest};
use super::place::StepId;
use super::service::{Service, coded};
use super::step::Returns;
use super::step_view::{Planned, ReadParams};
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
}

/// Builds a function with these steps.
fn built<S: Service, P: DeserializeOwned + 'static, I: FirstInput, R: 'static>(
    function: &FunctionOf<S>,
    handler: impl FnOnce(&Steps<S, P, I>) -> Returns<R>,
) -> Built {
    let source = function.source;
    let defined = Mistake::catch(source, || Steps::define(source, handler));
    let types = FunctionTypes {
        name: function.name,
        source,
        service: Arc::<S>::clone(&function.state),
        facts: Facts::new::<S, (), ()>(Form::Group),
        coded: coded::<S>,
        params: |params| Ok(Rc::new(read::<P>(params)?)),
        input: |asi| Ok((I::of_request(asi)?,).into_args()),
    };
    types.build(defined, function.front.clone())
}

/// What the steps of a function need of its types.
struct FunctionTypes {
    name: &'static str,
    source: &'static Location<'static>,
    service: Arc<dyn Any + Send + Sync>,
    /// The function as a step: a group.
    facts: Facts,
    coded: fn(StepError) -> StepError,
    /// Reads the parameters.
    params: ReadParams,
    /// The arguments of the first step.
    input: FirstArgs,
}

type FirstArgs = fn(&mut AsyncSteps) -> Result<Args, Error>;

impl FunctionTypes {
    /// Builds the function with these steps.
    fn build(self, defined: Result<Defined, Mistake>, front: Option<Template>) -> Built {
        let Self { name, source, service, facts, coded, params, input } = self;
        let Defined { nodes, answer } = match defined {
            Ok(defined) => defined,
            Err(mistake) => return Built::mistaken(vec![mistake]),
        };
        let (level, mut mistakes) = (Level::of(nodes), Vec::new());
        level.complete(None, &mut mistakes);
        level.check_answers(&mut true, &mut mistakes);
        if front.is_some() {
            level.check_recorded(&mut mistakes);
        }
        if !mistakes.is_empty() {
            return Built::mistaken(mistakes);
        }
        let limit = answer.as_ref().map(|(answer, _)| answer.limit);
        let of_front = answer.as_ref().map(|(answer, _)| answer.clone());
        let plan = Plan::of(name, &level, limit);
        let (id, ways) = (StepId::new("", source), Arc::clone(level.steps()));
        let step = Arc::new(StepFacts { id, facts, ways });
        let step = StepView { step, is_behind_end: false };
        let planned = Planned { function: step.clone(), reads_params: params };
        let planned = front.is_some().then(|| Arc::new(planned));
        let takes_signals = level.takes_signals;
        let is_hosted = front.is_some();
        let function = OfFunction { service, step, takes_signals, is_hosted };
        let template = Template::build(|steps| {
            steps
                .add(move |asi, ()| {
                    let params = params(asi.request_mut()?.take_params())?;
                    let request = OfRequest::new(asi, params, &function)?;
                    request.close_inbox_at_end(asi);
                    let answer = answer.as_ref().filter(|_| request.host.is_none());
                    let request = Rc::new(request);
                    let Some((answer, source)) = answer else {
                        return start(&level, asi, request, input);
                    };
                    let arrived = asi.request()?.begun();
                    let level = Arc::clone(&level);
                    let steps = move |asi: &mut AsyncSteps| start(&level, asi, request, input);
                    answer.clone().add(asi, (arrived, source), steps)
                })
                .named(name)
                .located_at(source)
                .on_error(move |_, error| Err(coded(error.clone().into())));
        });
        let front = front.map(|front| in_front(front, of_front));
        Built { template, front, plan: Some(plan), planned, mistakes }
    }
}

/// Makes the running step run the steps of the function, which its host may record.
fn start(
    level: &Arc<Level>,
    asi: &mut AsyncSteps,
    request: Rc<OfRequest>,
    input: FirstArgs,
) -> StepResult {
    let args = input(asi)?;
    let Some(host) = &request.host else {
        level.enter_args(0, asi, Around::of_function(request, None), args);
        return Ok(());
    };
    let (level, source) = (Arc::clone(level), request.source);
    let (recorder, function) = (Rc::clone(&host.request), Rc::clone(&host.function));
    if function.recalled(1).is_to_undo {
        let around = level.of_function(&request, &function, false)?;
        let (level, function) = (Arc::clone(&level), Rc::clone(&function));
        asi.add(move |asi, ()| {
            asi.add(move |asi, ()| level.undo(asi, &around, None))
                .located_at(source)
                .on_error(|asi, _| asi.success(()));
            asi.run(async move |()| Ok(function.undone(Ok(())).await?)).located_at(source);
        })
        .located_at(source);
    }
    asi.add(move |asi, ()| {
        run_whole(asi, source, (recorder, Rc::clone(&function)), move |asi| {
            let around = level.of_function(&request, &function, true)?;
            level.enter_args(0, asi, around, args);
            Ok(())
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
