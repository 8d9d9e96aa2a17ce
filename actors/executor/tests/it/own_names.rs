//! The promise: the loops, names and errors of the library are its own. An application cannot end or say them by
//! accident, callers do not see their text, and a plan that cannot end well or is too deep is refused with its place.

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use asyncsteps_core::{BodyResult, Code, Error, StepReturn, sleep};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Functions, Hooks, Returns, Service, Step, Steps};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Notes the errors that callers do not see.
#[derive(Clone, Default)]
struct Own(Arc<StdMutex<Vec<String>>>);

#[derive(Debug, Code, thiserror::Error)]
enum OwnError {
    #[error("late")]
    #[code(public)]
    Late,
    #[error("another car was faster")]
    #[code(public)]
    RaceLost,
}

impl Service for Own {
    type Errors = (OwnError,);
}

impl Hooks for Own {
    fn not_expected(&self, _: &str, error: &Error) {
        let step = error.location().and_then(|location| location.name()).unwrap_or("no name");
        let cause = std::error::Error::source(error).map(ToString::to_string);
        let text = error.info().map(str::to_owned).or(cause).unwrap_or_default();
        self.0.lock().expect("nothing panics").push(format!("{step}: {text}"));
    }
}

fn built(
    own: &Own,
    define: impl FnOnce(&mut Functions<Own>),
) -> Result<Executor, asyncsteps_executor::ConfigError> {
    let interface = Interface::new("test.own:1.0".parse().expect("a name"));
    Executor::builder().hooks(own.clone()).service(interface, own.clone(), define).build()
}

/// What a call returns, and what the hooks got.
async fn call<R>(
    function: fn(&Steps<Own, ()>) -> Returns<R>,
) -> (Result<Value, String>, Vec<String>)
where
    R: serde::Serialize + schemars::JsonSchema + 'static,
{
    let own = Own::default();
    let executor = built(&own, |functions| _ = functions.on("call", function));
    let executor = executor.expect("the plan is right");
    let result = executor.call_as_system("test.own:1.0:call", json!({})).await;
    let seen = own.0.lock().expect("nothing panics").clone();
    (result.map_err(|error: Error| error.to_string()), seen)
}

/// The mistake in a plan, without its place.
fn mistake<R>(function: fn(&Steps<Own, ()>) -> Returns<R>) -> String
where
    R: serde::Serialize + schemars::JsonSchema + 'static,
{
    let error = built(&Own::default(), |functions| _ = functions.on("call", function));
    let text = error.expect_err("a mistake").to_string();
    let text = text.lines().next().expect("it says something");
    assert!(text.contains("tests/it/own_names.rs:"), "{text}");
    text.split_once("rs:")
        .and_then(|(_, text)| text.split_once(": "))
        .expect("a place")
        .1
        .to_owned()
}

type On = Cx<Own, ()>;

async fn adds(_: &On, number: i32) -> BodyResult<i32> {
    Ok(number + 1)
}

/// So many steps, each of which may end them.
fn ends(steps: &Steps<Own, ()>, count: usize) -> Returns<i32> {
    let mut chain = steps.run("begin", async |_, ()| Ok(None)).unless_some().then("none", none);
    for _ in 0..count {
        chain = chain.unless_some().then("none", none);
    }
    chain.unless_some().then("end", async |_, ()| Ok(7)).returns()
}

async fn none(_: &On, (): ()) -> BodyResult<Option<i32>> {
    Ok(None)
}

#[actix::test]
async fn steps_that_are_nested_too_deep_are_refused() {
    fn some(steps: &Steps<Own, ()>) -> Returns<i32> {
        steps
            .run("begin", async |_, ()| Ok(()))
            .dynamic("ends", |steps, ()| ends(steps, 190))
            .returns()
    }
    fn many(steps: &Steps<Own, ()>) -> Returns<i32> {
        let begin = steps.run("begin", async |_, ()| Ok(()));
        begin.dynamic("ends", |steps, ()| ends(steps, 10_000)).returns()
    }
    fn groups(steps: &Steps<Own, ()>) -> Returns<()> {
        let mut group = steps.run("inner", async |_, ()| Ok(())).as_one();
        for _ in 0..10_000 {
            group = group.as_one();
        }
        group.returns()
    }
    let deep =
        "the steps are nested more than 200 deep, where each early end nests the steps behind it";
    assert_eq!(call(some).await.0, Ok(json!(7)));
    let (result, seen) = call(many).await;
    assert_eq!(result, Err("InternalError: Not expected error".to_owned()));
    assert!(matches!(&seen[..], [text] if text.ends_with(deep)), "{seen:?}");
    assert_eq!(mistake(|steps| ends(steps, 10_000)), deep);
    assert_eq!(mistake(groups), deep);
}

#[actix::test]
async fn many_steps_are_no_deep_plan() {
    fn many(steps: &Steps<Own, ()>) -> Returns<i32> {
        let begin = steps.run("begin", async |_, ()| Ok(0));
        begin
            .dynamic("steps", |steps, begin| {
                let first = steps.run("first", async move |_, ()| Ok(begin)).then("add", adds);
                (0..10_000)
                    .fold(first, |chain: Step<_, _, _, _, _, _>, _| chain.then("add", adds))
                    .returns()
            })
            .returns()
    }
    assert_eq!(call(many).await.0, Ok(json!(10_001)));
}

/// Ends a loop that it does not have.
fn leaves(
    end: impl Fn(&mut asyncsteps_core::AsyncSteps) -> asyncsteps_core::StepResult
    + Send
    + Sync
    + 'static,
) -> impl Fn(&mut asyncsteps_core::AsyncSteps) + Send + Sync + 'static {
    let end = Arc::new(end);
    move |asi| {
        let end = Arc::clone(&end);
        asi.add(move |asi, ()| end(asi).into_result());
    }
}

#[actix::test]
async fn a_callback_does_not_leave_the_loops_of_its_plan() {
    fn items(steps: &Steps<Own, ()>) -> Returns<Vec<i32>> {
        steps
            .each(
                "items",
                |_, ()| vec![1, 2, 3],
                |item| {
                    let end = leaves(|asi| asi.break_loop(None));
                    item.asi::<()>("leaves", move |asi, _, _| {
                        end(asi);
                        asi.success_step(());
                        Ok(())
                    })
                    .then("end", async |_, ()| Ok(7))
                    .returns()
                },
            )
            .returns()
    }
    fn iterations(steps: &Steps<Own, ()>) -> Returns<i32> {
        steps
            .run("begin", async |_, ()| Ok(0))
            .then_repeat("loop", |turn| {
                let end = leaves(|asi| asi.continue_loop(None));
                turn.asi::<()>("leaves", move |asi, _, _| {
                    end(asi);
                    asi.success_step(());
                    Ok(())
                })
                .then("end", async |_, ()| Ok(std::ops::ControlFlow::Break(7)))
                .returns()
            })
            .returns()
    }
    fn own_loop(steps: &Steps<Own, ()>) -> Returns<i32> {
        steps
            .asi::<i32>("loops", |asi, _, ()| {
                asi.make_loop(|asi| asi.break_loop(None));
                asi.success_step(7);
                Ok(())
            })
            .returns()
    }
    let (result, seen) = call(items).await;
    assert!(result.is_err() && seen[0].contains("break_loop is not inside a loop"), "{seen:?}");
    let (result, seen) = call(iterations).await;
    assert!(result.is_err() && seen[0].contains("continue_loop is not inside a loop"), "{seen:?}");
    assert_eq!(call(own_loop).await.0, Ok(json!(7)));
}

#[actix::test]
async fn a_step_of_any_name_and_an_error_of_any_code_are_those_of_the_application() {
    fn named(steps: &Steps<Own, ()>) -> Returns<i32> {
        steps.answer_within(Duration::from_secs(10), || OwnError::Late);
        steps
            .run("answer within", async |_, ()| {
                sleep(Duration::from_secs(1)).await;
                Ok(7)
            })
            .timeout(Duration::from_millis(10))
            .returns()
    }
    fn lost(steps: &Steps<Own, ()>) -> Returns<Vec<i32>> {
        let car = |car: &Steps<Own, (), i32>| {
            car.run("drive", async |_, _| Err::<i32, _>(OwnError::RaceLost.into())).returns()
        };
        steps.race("cars", |_, ()| vec![1], car).returns()
    }
    tokio::time::pause();
    let begun = Instant::now();
    let (result, seen) = call(named).await;
    assert_eq!(result, Err("InternalError: Not expected error".to_owned()));
    assert_eq!((seen.len(), begun.elapsed() < Duration::from_secs(1)), (1, true));
    let (result, _) = call(lost).await;
    assert_eq!(result, Err("RaceLost: another car was faster".to_owned()));
}

#[actix::test]
async fn a_plan_that_always_fails_is_refused() {
    fn race(steps: &Steps<Own, ()>) -> Returns<Vec<i32>> {
        let all = steps.race("cars", |_, ()| vec![1, 2], |car| car.pass());
        all.first(1).at_least(2).returns()
    }
    fn alone(steps: &Steps<Own, ()>) -> Returns<Vec<i32>> {
        steps.race("cars", |_, ()| vec![1, 2], |car| car.pass()).at_least(2).returns()
    }
    fn at_once(steps: &Steps<Own, ()>) -> Returns<i32> {
        steps.answer_within(Duration::ZERO, || OwnError::Late);
        steps.run("one", async |_, ()| Ok(1)).returns()
    }
    for few in [race, alone] {
        assert_eq!(mistake(few), "`cars` needs 2 winners, and ends with the first 1");
    }
    assert_eq!(mistake(at_once), "`answer_within` no time: no step could begin");
}

#[actix::test]
async fn the_text_of_an_error_of_a_plan_goes_to_the_log_with_its_step() {
    fn keys(steps: &Steps<Own, ()>) -> Returns<Vec<i32>> {
        let key = |card: &&str| (*card).to_owned();
        steps
            .each_by(
                "cards",
                |_, ()| vec!["card 4711", "card 4711"],
                key,
                |card| card.run("pay", async |_, _| Ok(1)),
            )
            .returns()
    }
    fn none(steps: &Steps<Own, ()>) -> Returns<Vec<i32>> {
        steps.race("cars", |_, ()| Vec::new(), |car| car.pass()).returns()
    }
    for (result, seen, expected) in [
        {
            let (result, seen) = call(keys).await;
            (result, seen, "cards: the items 0 and 1 have the same key `card 4711`")
        },
        {
            let (result, seen) = call(none).await;
            (result, seen, "cars: 0 of 1 won the race")
        },
    ] {
        assert_eq!(result, Err("InternalError: Not expected error".to_owned()));
        assert_eq!(seen, [expected]);
    }
}
