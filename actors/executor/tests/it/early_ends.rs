//! The promise: an early end ends the steps that it is among and no others, and what is behind it has the keys,
//! the undos and the policies that it would have without it.

#![expect(clippy::unused_async, reason = "bodies are async functions")]

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use asyncsteps_core::{BodyResult, Code, Error, Retry};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Either, Executor, Returns, Service, Steps};
use expect_test::{Expect, expect};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Writes down the keys of its steps.
#[derive(Clone, Default)]
struct Walk(Arc<Mutex<Vec<String>>>);

#[derive(Debug, Code, thiserror::Error)]
#[error("lost")]
struct Lost;

impl Service for Walk {
    type Errors = Lost;
}

#[derive(Deserialize, JsonSchema)]
struct Way {
    /// Where it ends early.
    ends: String,
    /// Whether the last step fails.
    #[serde(default)]
    fails: bool,
}

type On = Cx<Walk, Way>;

impl Walk {
    fn note(&self, cx: &On, what: &str) {
        let key = cx.key().splitn(3, '-').nth(2).unwrap_or_default();
        self.0.lock().expect("nothing panics").push(format!("{what}{key}"));
    }
}

/// A value if the request ends there.
fn end(cx: &On, place: &str) -> Option<String> {
    (cx.params.ends == place).then(|| format!("[{place}]"))
}

async fn rest(cx: &On, (): ()) -> BodyResult<String> {
    cx.note(cx, "");
    Ok("+".to_owned())
}

async fn undone(cx: &On) -> BodyResult<()> {
    cx.note(cx, "undo ");
    Ok(())
}

fn walk(steps: &Steps<Walk, Way>) -> Returns<String> {
    steps
        .run("function", async |cx, ()| Ok(end(cx, "function")))
        .undo(async |cx, _| undone(cx).await)
        .unless_some()
        .then("again", async |cx, ()| Ok(end(cx, "again")))
        .unless_some()
        .then_join("all", |all| {
            (
                all.run("branch", async |cx, ()| Ok(end(cx, "branch")))
                    .unless_some()
                    .then("rest", rest)
                    .undo(async |cx, _| undone(cx).await),
                all.each("each", |_, ()| vec![1, 2], item),
            )
        })
        .then("how", async |_, (one, all)| Ok(Either::<_, ()>::A(format!("{one}{}", all.concat()))))
        .either("way", way, |other| other.run("other", rest).returns())
        .then_repeat("repeat", iteration)
        .then("check", async |cx, all| if cx.params.fails { Err(Lost)? } else { Ok(all) })
        .returns()
}

fn item(item: &Steps<Walk, Way, i32>) -> Returns<String> {
    item.run("item", async |cx, n| Ok(end(cx, "item").filter(|_| n == 1)))
        .unless_some()
        .then("rest", rest)
        .undo(async |cx, _| undone(cx).await)
        .returns()
}

fn way(way: &Steps<Walk, Way, String>) -> Returns<String> {
    way.run("way", async |cx, all| match end(cx, "way") {
        Some(end) => Ok(ControlFlow::Break(end)),
        None => Ok(ControlFlow::Continue(all)),
    })
    .or_end()
    .then_nested("inner", |inner| {
        inner
            .join("keep", |both| {
                (both.pass(), both.run("nested", async |cx, _| Ok(end(cx, "nested"))))
            })
            .then("known", async |_, (all, end)| {
                Ok(end.map_or(ControlFlow::Continue(all), ControlFlow::Break))
            })
            .or_end()
            .then("rest", async |cx, all| Ok(all + &rest(cx, ()).await?))
            .returns()
    })
    .returns()
}

fn iteration(steps: &Steps<Walk, Way, String>) -> Returns<ControlFlow<String, String>> {
    steps
        .run("iteration", async |cx, all: String| {
            Ok(match end(cx, "iteration") {
                Some(end) => ControlFlow::Break(ControlFlow::Break(all + &end)),
                None => ControlFlow::Continue(all),
            })
        })
        .or_end()
        .then("rest", async |cx, all| {
            let all = all + &rest(cx, ()).await?;
            Ok(if all.len() < 5 { ControlFlow::Continue(all) } else { ControlFlow::Break(all) })
        })
        .returns()
}

/// An early end inside of steps that are tried again together: the attempt that ends has its policies.
fn again(steps: &Steps<Walk, Way>) -> Returns<String> {
    steps
        .run("before", async |cx, ()| {
            cx.note(cx, "");
            Ok(())
        })
        .undo(async |cx, _| undone(cx).await)
        .then("known", async |cx, ()| {
            let attempts = cx.state(|_| Cell::new(0));
            attempts.set(attempts.get() + 1);
            Ok((attempts.get() == 3).then(|| format!("at attempt {}", attempts.get())))
        })
        .unless_some()
        .then("rest", async |_, ()| Err(Lost)?)
        .as_one()
        .retry(Retry::attempts(4).on(|_: &Lost| true))
        .then("after", async |cx, all: String| {
            cx.note(cx, "");
            Ok(all)
        })
        .returns()
}

/// Early ends in front of the end of a group and behind it.
fn grouped(steps: &Steps<Walk, Way>) -> Returns<String> {
    steps
        .run("first", async |cx, ()| Ok(end(cx, "inside")))
        .unless_some()
        .then("rest", rest)
        .as_one()
        .then("known", async |cx, all| match end(cx, "behind") {
            Some(end) => Ok(ControlFlow::Break(end)),
            None => Ok(ControlFlow::Continue(all)),
        })
        .as_one()
        .or_end()
        .then("after", async |cx, all| Ok(all + &rest(cx, ()).await?))
        .returns()
}

/// What a request returns, and the keys of its steps.
async fn check(function: &str, ends: &str, fails: bool, expected: Expect) {
    let service = Walk::default();
    let interface = Interface::new("acme.walk:1.0".parse().expect("a name"));
    let executor = Executor::builder()
        .service(interface, service.clone(), |functions| {
            functions.on("walk", walk).on("again", again).on("grouped", grouped);
        })
        .build()
        .expect("the plans are right");
    let params = json!({ "ends": ends, "fails": fails });
    let result: Result<String, Error> =
        executor.call_as_system(&format!("acme.walk:1.0:{function}"), params).await;
    let result = result.unwrap_or_else(|error| error.to_string());
    let log = service.0.lock().expect("nothing panics").join("\n");
    expected.assert_eq(&format!("{result}\n{log}"));
}

#[actix::test]
async fn the_steps_end_that_the_end_is_among() {
    for (ends, expected) in [
        (
            "nowhere",
            expect![[r#"
            +++++
            all/rest
            all/each#0/rest
            all/each#1/rest
            way/inner/rest
            repeat#0/rest"#]],
        ),
        (
            "function",
            expect![[r#"
            [function]
        "#]],
        ),
        (
            "again",
            expect![[r#"
            [again]
        "#]],
        ),
        (
            "branch",
            expect![[r#"
            [branch]++++
            all/each#0/rest
            all/each#1/rest
            way/inner/rest
            repeat#0/rest"#]],
        ),
        (
            "item",
            expect![[r#"
            +[item]+++
            all/rest
            all/each#1/rest
            way/inner/rest
            repeat#0/rest"#]],
        ),
        (
            "way",
            expect![[r#"
            [way]+
            all/rest
            all/each#0/rest
            all/each#1/rest
            repeat#0/rest"#]],
        ),
        (
            "nested",
            expect![[r#"
            [nested]+
            all/rest
            all/each#0/rest
            all/each#1/rest
            repeat#0/rest"#]],
        ),
        (
            "iteration",
            expect![[r#"
            ++++[iteration]
            all/rest
            all/each#0/rest
            all/each#1/rest
            way/inner/rest"#]],
        ),
    ] {
        check("walk", ends, false, expected).await;
    }
}

#[actix::test]
async fn what_was_done_before_and_behind_an_end_is_undone() {
    check(
        "walk",
        "nowhere",
        true,
        expect![[r#"
        Lost
        all/rest
        all/each#0/rest
        all/each#1/rest
        way/inner/rest
        repeat#0/rest
        undo all/each#1/rest
        undo all/each#0/rest
        undo all/rest
        undo function"#]],
    )
    .await;
    check(
        "walk",
        "branch",
        true,
        expect![[r#"
        Lost
        all/each#0/rest
        all/each#1/rest
        way/inner/rest
        repeat#0/rest
        undo all/each#1/rest
        undo all/each#0/rest
        undo function"#]],
    )
    .await;
}

#[actix::test]
async fn an_end_inside_of_attempts_ends_the_last_one() {
    check(
        "again",
        "nowhere",
        false,
        expect![[r#"
            at attempt 3
            before
            undo before
            .2/before
            undo .2/before
            .3/before
            after"#]],
    )
    .await;
}

#[actix::test]
async fn an_end_inside_of_a_group_ends_the_group_and_one_behind_it_all_steps() {
    check(
        "grouped",
        "nowhere",
        false,
        expect![[r#"
        ++
        rest
        after"#]],
    )
    .await;
    check(
        "grouped",
        "inside",
        false,
        expect![[r#"
        [inside]+
        after"#]],
    )
    .await;
    check(
        "grouped",
        "behind",
        false,
        expect![[r#"
        [behind]
        rest"#]],
    )
    .await;
}

/// It answers, ends early behind that with another type, and is undone if what follows fails.
fn answer(steps: &Steps<Walk, Way>) -> Returns<String> {
    steps
        .run("first", async |cx, ()| Ok(end(cx, "first")))
        .unless_some()
        .then("found", rest)
        .undo(async |cx, _| undone(cx).await)
        .answers()
        .then("on", async |cx, _| Ok(end(cx, "on").map(|_| 7)))
        .unless_some()
        .then("last", async |cx, ()| if cx.params.fails { Err(Lost.into()) } else { Ok(1) })
        .returns()
}

#[actix::test]
async fn a_function_returns_what_it_has_answered_whatever_follows() {
    let walk = Walk::default();
    let interface = Interface::new("acme.walk:1.0".parse().expect("a name"));
    let executor = Executor::builder()
        .service(interface, walk.clone(), |functions| _ = functions.on("answer", answer))
        .build()
        .expect("it is complete");
    for (ends, fails, answer) in [
        ("first", false, Ok("[first]")),
        ("on", true, Ok("+")),
        ("", false, Ok("+")),
        ("", true, Err("Lost")),
    ] {
        let called: Result<String, Error> = executor
            .call_as_system("acme.walk:1.0:answer", json!({ "ends": ends, "fails": fails }))
            .await;
        let called = called.as_deref().map_err(|error| error.code());
        assert_eq!(called, answer, "{ends} {fails}");
    }
    let notes = walk.0.lock().expect("nothing panics").clone();
    assert_eq!(notes.iter().filter(|note| note.starts_with("undo")).count(), 1, "{notes:?}");
}
