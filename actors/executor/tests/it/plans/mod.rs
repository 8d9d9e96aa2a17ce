//! The promise: a function is a plan of steps that is built once, and each form of it holds what it says.

#![expect(clippy::unused_async, reason = "bodies are async functions")]
#![expect(clippy::unit_arg, reason = "a body that notes something is one line")]

mod mistakes;
mod races;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::{BodyResult, Code, Error, Retry, Undo, sleep, sync::mutex::Options};
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::raw::{RawInput, RawOutput};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{ConfigError, Cx, Either, Executor, Returns, Service, Steps};
use expect_test::{Expect, expect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Code, thiserror::Error)]
enum TravelError {
    #[error("full")]
    #[code(public)]
    Full,
    #[error("busy")]
    #[code(public)]
    Busy,
}

impl TravelError {
    fn is_busy(&self) -> bool {
        matches!(self, Self::Busy)
    }
}

/// A service that writes down what its steps do.
struct Travel {
    log: Arc<StdMutex<Vec<String>>>,
    seats: Mutex,
}

impl Service for Travel {
    type Errors = (TravelError,);
}

#[derive(Deserialize, JsonSchema)]
struct Trip {
    #[serde(default)]
    car: Option<String>,
    #[serde(default)]
    items: Vec<String>,
    #[serde(default)]
    fails: bool,
}

type On = Cx<Travel, Trip>;

impl Travel {
    fn tell(&self, what: impl Into<String>) {
        self.log.lock().expect("nothing panics").push(what.into());
    }
}

fn step_of(cx: &On) -> String {
    cx.key().splitn(3, '-').nth(2).unwrap_or_default().to_owned()
}

async fn undone(cx: &On) -> BodyResult<()> {
    cx.tell(format!("undo {}", step_of(cx)));
    Ok(())
}

async fn check_fails(cx: &On) -> BodyResult<()> {
    if cx.params.fails { Err(TravelError::Full)? } else { Ok(()) }
}

fn joined(steps: &Steps<Travel, Trip>) -> Returns<String> {
    steps
        .run("begin", async |cx, ()| Ok(cx.tell("begin")))
        .undo(async |cx, _| undone(cx).await)
        .then_join("trip", |all| {
            (
                all.run("flight", async |_, ()| Ok(7)).undo(async |cx, _| undone(cx).await),
                all.run("hotel", async |_, ()| Ok("Ritz"))
                    .undo(async |cx, _| undone(cx).await)
                    .then("room", async |_, hotel| Ok(format!("{hotel} 12b"))),
                all.when_some(
                    "car",
                    |cx, ()| cx.params.car.clone(),
                    |car| {
                        car.run("rent", async |_, car| Ok(format!("a {car}")))
                            .undo(async |cx, _| undone(cx).await)
                            .returns()
                    },
                ),
            )
        })
        .then("check", async |cx, (flight, room, car)| {
            check_fails(cx).await?;
            Ok(format!("{flight}, {room}, {car:?}"))
        })
        .returns()
}

fn items(steps: &Steps<Travel, Trip>) -> Returns<Vec<String>> {
    steps
        .each_by(
            "all",
            |cx, ()| cx.params.items.clone(),
            Clone::clone,
            |item| {
                item.run("take", async |cx, item: String| Ok(format!("{item} by {}", step_of(cx))))
                    .locked_by(|cx, item| cx.seats.key(item))
                    .undo_taking(async |cx, item, outcome| {
                        let done = matches!(outcome, Undo::Done(_));
                        Ok(cx.tell(format!("undo {item} {done} {}", step_of(cx))))
                    })
                    .returns()
            },
        )
        .at_once(2)
        .then("check", async |cx, all| {
            check_fails(cx).await?;
            Ok(all)
        })
        .returns()
}

fn ways(steps: &Steps<Travel, Trip>) -> Returns<String> {
    steps
        .run("look", async |cx, ()| Ok(cx.params.items.first().cloned()))
        .unless_some()
        .then("how", async |cx, ()| Ok(cx.params.car.clone().map_or(Either::A(3), Either::B)))
        .either(
            "go",
            |walk| walk.run("walk", async |_, km: i32| Ok(format!("walk {km}"))).returns(),
            |drive| drive.run("drive", async |_, car| Ok(format!("drive a {car}"))).returns(),
        )
        .returns()
}

fn looped(steps: &Steps<Travel, Trip>) -> Returns<i32> {
    steps
        .run("begin", async |_, ()| Ok(0))
        .then_repeat("poll", |steps| {
            steps
                .run("ask", async |cx, asked: i32| {
                    cx.tell(step_of(cx));
                    Ok(if asked == 2 {
                        ControlFlow::Break(asked)
                    } else {
                        ControlFlow::Continue(asked + 1)
                    })
                })
                .undo(async |cx, _| undone(cx).await)
                .returns()
        })
        .then("check", async |cx, asked| {
            check_fails(cx).await?;
            Ok(asked)
        })
        .returns()
}

fn policies(steps: &Steps<Travel, Trip>) -> Returns<String> {
    steps.locked(|cx| cx.params.car.as_ref().map(|car| cx.seats.key(car)));
    steps.timeout(Duration::from_secs(60));
    steps
        .run("try", async |cx, ()| {
            cx.tell(format!("{} {}", step_of(cx), cx.attempt()));
            if cx.attempt() < 3 { Err(TravelError::Busy)? } else { Ok(cx.attempt()) }
        })
        .retry(Retry::attempts(3).backoff(Duration::from_millis(50)).on(TravelError::is_busy))
        .then("sub", async |_, attempt| Ok(attempt * 10))
        .undo(async |cx, _| undone(cx).await)
        .then("slow", async |_, n| {
            sleep(Duration::from_secs(1)).await;
            Ok(n)
        })
        .timeout(Duration::from_millis(100))
        .as_one()
        .retry(Retry::attempts(2))
        .recover(async |_, error| Ok(error.attempts().unwrap_or(0)))
        .then("tell", async |_, n| Ok(format!("{n}")))
        .returns()
}

fn dynamic(steps: &Steps<Travel, Trip>) -> Returns<i32> {
    steps
        .run("count", async |cx, ()| Ok(cx.params.items.len()))
        .dynamic("stages", |steps, count| {
            let begin = steps.run("begin", async |_, ()| Ok(0)).erased();
            (0..count)
                .fold(begin, |step, n| {
                    step.then("stage", async move |cx: &On, sum: i32| {
                        cx.tell(format!("{} {n}", step_of(cx)));
                        Ok(sum + 1)
                    })
                    .undo(async |cx, _| undone(cx).await)
                    .erased()
                })
                .returns()
        })
        .then("check", async |cx, count| {
            check_fails(cx).await?;
            Ok(count)
        })
        .returns()
}

fn results(steps: &Steps<Travel, Trip>) -> Returns<Vec<String>> {
    steps
        .each(
            "all",
            |cx, ()| cx.params.items.clone(),
            |item| {
                item.run("take", async |_, item| Ok(item))
                    .undo(async |cx, _| undone(cx).await)
                    .then(
                        "check",
                        async |_, item: String| {
                            if item == "bad" { Err(TravelError::Full)? } else { Ok(item) }
                        },
                    )
                    .as_result()
                    .then("show", async |_, result| {
                        Ok(result.unwrap_or_else(|error| error.code().to_owned()))
                    })
                    .returns()
            },
        )
        .then_scope("final", |steps| {
            steps.run("keep", async |_, all| Ok(all)).undo(async |cx, _| undone(cx).await).returns()
        })
        .then("end", async |cx, all: Vec<String>| {
            check_fails(cx).await?;
            Ok(all)
        })
        .returns()
}

fn answered(steps: &Steps<Travel, Trip>) -> Returns<i32> {
    steps.answer_within(Duration::from_millis(200), || TravelError::Busy);
    steps
        .run("reserve", async |_, ()| Ok(7))
        .undo(async |cx, _| undone(cx).await)
        .then("slow", async |cx, seat| {
            if cx.params.fails {
                sleep(Duration::from_secs(1)).await;
            }
            Ok(seat)
        })
        .returns()
}

/// Parts in which there is nothing to do.
fn nothing(steps: &Steps<Travel, Trip>) -> Returns<Vec<String>> {
    steps
        .join("all", |all| {
            (
                all.pass(),
                all.each("items", |cx, ()| cx.params.items.clone(), |item| item.pass().returns()),
                all.when_some("car", |cx, ()| cx.params.car.clone(), |car| car.pass().returns()),
                all.nested("sub", |steps| steps.pass().returns()),
            )
        })
        .then("how", async |_, ((), items, car, ())| Ok(car.map_or(Either::A(items), Either::B)))
        .either(
            "way",
            |items| items.pass().returns(),
            |car| car.run("car", async |_, car| Ok(vec![car])).returns(),
        )
        .returns()
}

fn none(steps: &Steps<Travel, Trip>) -> Returns<()> {
    steps.pass().returns()
}

async fn simple(cx: &On) -> BodyResult<i32> {
    Ok(cx.params.items.len().try_into()?)
}

fn executor(log: &Arc<StdMutex<Vec<String>>>) -> Executor {
    let travel = Travel { log: Arc::clone(log), seats: Mutex::new(Options::default()) };
    Executor::builder()
        .service(Interface::new("acme.travel:1.0".parse().expect("a name")), travel, |functions| {
            functions
                .on("joined", joined)
                .on("items", items)
                .on("ways", ways)
                .on("looped", looped)
                .on("policies", policies)
                .on("dynamic", dynamic)
                .on("race", races::race)
                .on("first", races::first)
                .on("enough", races::enough)
                .on("ftn12", races::ftn12)
                .on("results", results)
                .on("answered", answered)
                .on("nothing", nothing)
                .on("none", none)
                .on("simple", simple);
        })
        .build()
        .expect("the plans are right")
}

/// Calls a function; shows the result and what its steps wrote down.
async fn check(function: &str, params: Value, expected: Expect) {
    let log = Arc::default();
    let executor = executor(&log);
    let result: Result<Value, Error> =
        executor.call_as_system(&format!("acme.travel:1.0:{function}"), params).await;
    let result = result.map_or_else(|error| error.to_string(), |value| value.to_string());
    let log = log.lock().expect("nothing panics").join("\n");
    expected.assert_eq(&format!("{result}\n{log}"));
}

#[actix::test]
async fn branches_return_a_tuple_and_are_undone_beside_each_other() {
    check(
        "joined",
        json!({ "car": "VW" }),
        expect![[r#"
        "7, Ritz 12b, Some(\"a VW\")"
        begin"#]],
    )
    .await;
    check(
        "joined",
        json!({ "car": "VW", "fails": true }),
        expect![[r#"
        Full: full
        begin
        undo trip/car/rent
        undo trip/hotel
        undo trip/flight
        undo begin"#]],
    )
    .await;
    check(
        "joined",
        json!({}),
        expect![[r#"
        "7, Ritz 12b, None"
        begin"#]],
    )
    .await;
}

#[actix::test]
async fn items_have_keys_locks_and_undos_of_their_own() {
    check(
        "items",
        json!({ "items": ["a", "b", "c"] }),
        expect![[r#"
        ["a by all#a/take","b by all#b/take","c by all#c/take"]
    "#]],
    )
    .await;
    check(
        "items",
        json!({ "items": ["a", "b", "c"], "fails": true }),
        expect![[r#"
        Full: full
        undo c true all#c/take
        undo b true all#b/take
        undo a true all#a/take"#]],
    )
    .await;
    check(
        "items",
        json!({ "items": ["a", "a"] }),
        expect![[r#"
        InternalError: Not expected error
    "#]],
    )
    .await;
    check(
        "items",
        json!({}),
        expect![[r#"
        []
    "#]],
    )
    .await;
}

#[actix::test]
async fn a_request_takes_one_way_or_ends_early() {
    check(
        "ways",
        json!({}),
        expect![[r#"
        "walk 3"
    "#]],
    )
    .await;
    check(
        "ways",
        json!({ "car": "VW" }),
        expect![[r#"
        "drive a VW"
    "#]],
    )
    .await;
    check(
        "ways",
        json!({ "items": ["known"] }),
        expect![[r#"
        "known"
    "#]],
    )
    .await;
}

#[actix::test]
async fn a_part_without_steps_returns_what_it_takes() {
    check(
        "nothing",
        json!({ "items": ["a", "b"] }),
        expect![[r#"
        ["a","b"]
    "#]],
    )
    .await;
    check(
        "nothing",
        json!({ "car": "VW" }),
        expect![[r#"
        ["VW"]
    "#]],
    )
    .await;
    check(
        "none",
        json!({}),
        expect![[r#"
        null
    "#]],
    )
    .await;
}

#[actix::test]
async fn iterations_pass_their_state_on() {
    check(
        "looped",
        json!({}),
        expect![[r#"
        2
        poll#0/ask
        poll#1/ask
        poll#2/ask"#]],
    )
    .await;
    check(
        "looped",
        json!({ "fails": true }),
        expect![[r#"
        Full: full
        poll#0/ask
        poll#1/ask
        poll#2/ask
        undo poll#2/ask
        undo poll#1/ask
        undo poll#0/ask"#]],
    )
    .await;
}

#[actix::test]
async fn policies_of_a_step_of_several_and_of_all() {
    tokio::time::pause();
    check(
        "policies",
        json!({ "car": "VW" }),
        expect![[r#"
            "2"
            try 1
            try 2
            try 3
            undo sub
            .2/try 1
            .2/try 2
            .2/try 3
            undo .2/sub"#]],
    )
    .await;
}

#[actix::test]
async fn dynamic_steps_are_defined_when_they_are_reached() {
    check(
        "dynamic",
        json!({ "items": ["a", "b"] }),
        expect![[r#"
        2
        stages/stage 0
        stages/stage~2 1"#]],
    )
    .await;
    check(
        "dynamic",
        json!({ "items": ["a", "b"], "fails": true }),
        expect![[r#"
        Full: full
        stages/stage 0
        stages/stage~2 1
        undo stages/stage~2
        undo stages/stage"#]],
    )
    .await;
}

#[actix::test]
async fn callers_are_answered_in_time_and_the_rest_is_undone() {
    tokio::time::pause();
    check(
        "answered",
        json!({}),
        expect![[r#"
        7
    "#]],
    )
    .await;
    check(
        "answered",
        json!({ "fails": true }),
        expect![[r#"
        Busy: busy
        undo reserve"#]],
    )
    .await;
    check(
        "simple",
        json!({ "items": ["a"] }),
        expect![[r#"
        1
    "#]],
    )
    .await;
}

#[actix::test]
async fn an_error_can_be_a_value_and_an_end_final() {
    check(
        "results",
        json!({ "items": ["a", "bad"] }),
        expect![[r#"
        ["a","Full"]
        undo all#1/take"#]],
    )
    .await;
    check(
        "results",
        json!({ "items": ["a", "bad"], "fails": true }),
        expect![[r#"
        Full: full
        undo all#1/take
        undo all#0/take"#]],
    )
    .await;
}
