//! The promise: a request that leaks into another one through what a plan captured is found by a test.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use asyncsteps_core::{Code, sleep};
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

struct Post;

#[derive(Debug, Code, thiserror::Error)]
enum PostError {
    #[error("no address")]
    #[code(public)]
    NoAddress,
}

impl Service for Post {
    type Errors = PostError;
}

#[derive(Deserialize, JsonSchema)]
struct Letter {
    to: String,
}

/// Each letter has a number, from a counter that the plan captured.
fn number(steps: &Steps<Post, Letter>) -> Returns<i32> {
    let last = AtomicI32::new(0);
    steps.run("next", async move |_, ()| Ok(last.fetch_add(1, Ordering::Relaxed))).returns()
}

/// A step writes the address down for the one behind it, and neither waits.
fn written(steps: &Steps<Post, Letter>) -> Returns<String> {
    static ADDRESS: Mutex<String> = Mutex::new(String::new());
    let address = || ADDRESS.lock().unwrap_or_else(PoisonError::into_inner);
    steps
        .run("write", async move |cx, ()| {
            address().clone_from(&cx.params.to);
            Ok(())
        })
        .then("carry", async |_, ()| Ok(()))
        .then("read", async move |_, ()| Ok(address().clone()))
        .returns()
}

/// The first letter decides what all others fail with.
fn remembered(steps: &Steps<Post, Letter>) -> Returns<String> {
    let first = Mutex::new(None::<bool>);
    steps
        .run("remember", async move |cx, ()| {
            let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
            let is_empty = *first.get_or_insert(cx.params.to.is_empty());
            if is_empty { Err(PostError::NoAddress)? } else { Ok(cx.params.to.clone()) }
        })
        .returns()
}

/// What belongs to the request is a value or its state.
fn right(steps: &Steps<Post, Letter>) -> Returns<String> {
    let stamp = "1st class".to_owned();
    steps
        .run("read", async |cx, ()| Ok(cx.params.to.clone()))
        .then("carry", async |cx, to| {
            cx.state(|_| AtomicU32::new(0)).fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(10)).await;
            Ok(to)
        })
        .then("hand over", async move |cx, to| {
            if to.is_empty() {
                Err(PostError::NoAddress)?;
            }
            let carried = cx.state(|_| AtomicU32::new(0)).load(Ordering::Relaxed);
            Ok(format!("{to}, {stamp}, carried {carried} times"))
        })
        .returns()
}

fn executor() -> Executor {
    let mut interface = Interface::new("acme.post:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    Executor::builder()
        .service(interface, Post, |functions| {
            functions.on("number", number).on("written", written);
            functions.on("remembered", remembered).on("right", right);
        })
        .build()
        .expect("a right configuration")
}

/// Runs a function twice; returns what the failure says.
fn twice(function: &str, [one, other]: [&str; 2]) -> Result<(), String> {
    let request = TestRequest::new(format!("acme.post:1.0:{function}"));
    let request = request.params(json!({ "to": one }));
    let run = AssertUnwindSafe(|| request.twice(json!({ "to": other }), executor));
    catch_unwind(run).map_err(|panic| *panic.downcast::<String>().expect("a text"))
}

#[test]
fn a_counter_that_a_plan_captured_is_a_leak() {
    let failure = twice("number", ["Ann", "Bob"]).expect_err("it leaks");
    assert!(failure.contains("beside another request it is answered 1, alone 0"), "{failure}");
    assert!(failure.contains("the simulation with seed"), "{failure}");
}

#[test]
fn a_value_that_the_next_step_reads_from_a_lock_is_a_leak_although_no_step_waits() {
    let failure = twice("written", ["Ann", "Bob"]).expect_err("it leaks");
    assert!(
        failure.contains(r#"it is answered "Ann", alone "Bob""#)
            || failure.contains(r#"it is answered "Bob", alone "Ann""#),
        "{failure}"
    );
    assert!(failure.contains("acme.post:1.0:written with {\"to\":"), "{failure}");
}

#[test]
fn an_error_of_another_request_is_a_leak() {
    let failure = twice("remembered", ["Ann", ""]).expect_err("it leaks");
    assert!(failure.contains("NoAddress: no address"), "{failure}");
}

#[test]
fn values_and_state_of_a_request_are_no_leak() {
    twice("right", ["Ann", "Bob"]).expect("no leak");
    twice("right", ["Ann", "Ann"]).expect("no leak");
    twice("right", ["", "Bob"]).expect("an error is an answer");
}
