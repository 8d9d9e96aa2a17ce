//! The promise: a function that wants a lock which its caller holds does not wait until the deadline;
//! the deadlock is found like any other (FTN12 §1.11.5).

use std::sync::Arc;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_actors::sync::deadlock::{self, Deadlock, Resource};
use asyncsteps_core::sync::mutex::Options;
use asyncsteps_core::{AsyncSteps, StepResult, Template};
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::{CallSteps, Executor, RequestSteps};
use serde_json::{Value, json};
use tokio::time::Instant;

fn definition() -> Arc<Definition> {
    let function = json!({ "result": "any" });
    let file = json!({
        "iface": "test.locks", "version": "1.0", "ftn3rev": "1.9",
        "funcs": { "direct": function, "detour": function, "free": function,
                   "callsOn": function, "takes": function },
        "requires": ["AllowAnonymous"],
    });
    let source = Source::texts([("test.locks-1.0-iface.json", file.to_string())]);
    let id = "test.locks:1.0".parse().expect("a name");
    Loader::new([source]).load(&id).expect("a definition")
}

/// Calls a function and answers as it does.
fn pass_on(asi: &mut AsyncSteps, function: &str) -> StepResult {
    asi.call::<Value>(&format!("test.locks:1.0:{function}"), ())?.named("calls");
    asi.add(|asi, (result,): (Value,)| asi.reply(result));
    Ok(())
}

fn executor(name: &'static str) -> Executor {
    let lock = Mutex::named(name, Options::default());
    let locked = |function: &'static str, lock: Mutex| {
        Template::build(move |asi| {
            asi.sync(&lock, move |asi, ()| pass_on(asi, function));
        })
    };
    let (direct, detour) = (locked("takes", lock.clone()), locked("callsOn", lock.clone()));
    let free = locked("takes", lock.key("another"));
    let calls_on = Template::build(|asi| {
        asi.add(|asi, ()| pass_on(asi, "takes"));
    });
    let takes = Template::build(move |asi| {
        asi.sync(&lock, |asi, ()| asi.reply("taken")).named("takes it");
    });
    let builder = Executor::builder().interface(definition(), |functions| {
        functions.add("direct", &direct).add("detour", &detour).add("free", &free);
        functions.add("callsOn", &calls_on).add("takes", &takes);
    });
    builder.build().expect("a right configuration")
}

/// The only deadlock at a mutex of this name.
fn found(name: &str) -> Arc<Deadlock> {
    let is_for =
        |resource: &Resource| matches!(resource, Resource::Mutex { name: of, .. } if *of == name);
    let mut found = deadlock::last();
    found.retain(|deadlock| deadlock.waits.iter().any(|wait| is_for(&wait.resource)));
    let [deadlock] = &*found else { panic!("{} deadlocks", found.len()) };
    Arc::clone(deadlock)
}

#[actix::test]
async fn a_function_that_wants_the_lock_of_its_caller_fails_at_once() {
    for (function, calls) in [("direct", 1), ("detour", 2)] {
        tokio::time::pause();
        let executor = executor(function);
        let begin = Instant::now();
        let call = executor.call_as_system::<Value>(&format!("test.locks:1.0:{function}"), ());
        let error = call.await.expect_err("it would wait for itself");
        assert!(begin.elapsed().is_zero(), "it did not wait for the deadline");
        assert_eq!(error.info(), Some("Not expected error"), "callers are not told the places");
        let text = found(function).to_string();
        assert_eq!(text.matches("waits for the call of test.locks:1.0:").count(), calls, "{text}");
        assert_eq!(text.matches(", carried out by flow ").count(), calls, "{text}");
        assert_eq!(text.matches(", held by flow ").count(), 1, "{text}");
        tokio::time::resume();
    }
}

#[actix::test]
async fn a_function_that_wants_another_lock_gets_it() {
    let executor = executor("free");
    let taken: Value =
        executor.call_as_system("test.locks:1.0:free", ()).await.expect("it is free");
    assert_eq!(taken, json!("taken"));
}
