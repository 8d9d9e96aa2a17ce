//! The promise: a function that wants a lock which its caller holds does not wait until the deadline;
//! the deadlock is found like any other (FTN12 §1.11.5).

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_actors::sync::deadlock::{self, Deadlock, Resource};
use asyncsteps_core::sync::mutex::Options;
use asyncsteps_core::{AsyncSteps, StepResult, Template, sleep};
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{
    Builder, CallSteps, Cx, Executor, RequestSteps, Returns, Service, Steps, TypedCall,
};
use asyncsteps_fabric::{Client, Endpoint, Fabric as _, LocalFabric};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, TryStreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
        let text = "deadlock: calls wait for each other";
        assert_eq!(error.info(), Some(text), "callers are not told the places");
        let text = found(function).to_string();
        assert_eq!(text.matches("waits for the call of test.locks:1.0:").count(), calls, "{text}");
        assert_eq!(text.matches(", carried out by flow ").count(), calls, "{text}");
        assert_eq!(text.matches(", held by flow ").count(), 1, "{text}");
        tokio::time::resume();
    }
}

struct Locks(Mutex);

impl Service for Locks {
    type Errors = ();
}

/// Calls on with a lock, or without.
fn call_on(steps: &Steps<Locks, On>) -> Returns<String> {
    let call = async |cx: &Cx<Locks, On>, ()| match &*cx.params.by {
        "request" => Ok(cx.request().call("test.typed:1.0:take", ()).await?),
        "client" => Ok(cx.request().client().call(Take).await?),
        "system" => Ok(cx.request().executor().call_as_system("test.typed:1.0:take", ()).await?),
        "asi" => Ok(cx.request().call("test.typed:1.0:passOn", ()).await?),
        // of several futures, each of which is polled when it is woken
        "several" => {
            let (slow, took) =
                (sleep(Duration::from_millis(1)), cx.request().call("test.typed:1.0:take", ()));
            let all = FuturesUnordered::new();
            all.push(slow.map(|()| Ok(String::new())).boxed_local());
            all.push(took.boxed_local());
            Ok(all.try_collect::<Vec<String>>().await?.concat())
        }
        _ => Ok(cx
            .request()
            .call("test.typed:1.0:callOn", json!({ "by": "request", "locked": false }))
            .await?),
    };
    let lock = |cx: &Cx<Locks, On>| cx.params.locked.then(|| cx.0.clone());
    steps.run("calls", call).locked(lock).returns()
}

/// The same in a branch.
fn call_in_branch(steps: &Steps<Locks, On>) -> Returns<(String, ())> {
    steps.join("both", |both| (both.nested("call", call_on), both.pass())).returns()
}

#[derive(Deserialize, JsonSchema)]
struct On {
    by: String,
    locked: bool,
}

#[derive(Serialize)]
struct Take;

impl TypedCall for Take {
    const FUNCTION: &'static str = "test.typed:1.0:take";
    type Result = String;
    type Errors = std::convert::Infallible;
}

fn typed(name: &'static str) -> Executor {
    let service = Locks(Mutex::named(name, Options::default()));
    hosting("test.typed:1.0", service, Executor::builder())
}

fn hosting(interface: &str, service: Locks, builder: Builder) -> Executor {
    let mut interface = Interface::new(interface.parse().expect("a name"));
    interface.allow_anonymous();
    let builder = builder.service(interface, service, |functions| {
        functions.on("callOn", call_on).on("callInBranch", call_in_branch);
        functions.on("take", |steps: &Steps<Locks, ()>| {
            let take = steps.run("take", async |_, ()| Ok("taken".to_owned()));
            take.locked(|cx| cx.0.clone()).returns()
        });
        functions.on("passOn", |steps: &Steps<Locks, ()>| {
            steps
                .asi::<String>("on", |asi, _, ()| {
                    asi.call::<String>("test.typed:1.0:take", ())?;
                    Ok(())
                })
                .returns()
        });
    });
    builder.build().expect("a right configuration")
}

#[actix::test]
async fn so_it_does_when_the_body_of_a_typed_function_calls() {
    for (name, function, by, calls) in [
        ("by request", "callOn", "request", 1),
        ("by client", "callOn", "client", 1),
        ("as system", "callOn", "system", 1),
        ("by several", "callOn", "several", 1),
        ("over a body", "callOn", "body", 2),
        ("over asi", "callOn", "asi", 2),
        ("in a branch", "callInBranch", "request", 1),
    ] {
        tokio::time::pause();
        let executor = typed(name);
        let begin = Instant::now();
        let params = json!({ "by": by, "locked": true });
        let call = executor.call_as_system::<Value>(&format!("test.typed:1.0:{function}"), params);
        call.await.expect_err("it would wait for itself");
        assert!(begin.elapsed().is_zero(), "{name}: it did not wait for the deadline");
        let text = found(name).to_string();
        assert_eq!(text.matches("waits for the call of test.typed:1.0:").count(), calls, "{text}");
        let free = json!({ "by": by, "locked": false });
        let call = executor.call_as_system::<Value>(&format!("test.typed:1.0:{function}"), free);
        call.await.expect("the lock is free");
        tokio::time::resume();
    }
}

#[actix::test]
async fn so_it_does_over_a_fabric() {
    tokio::time::pause();
    let (fabric, lock) = (LocalFabric::new(), Mutex::named("fabric", Options::default()));
    let far = hosting("test.typed:1.0", Locks(lock.clone()), Executor::builder());
    let client = Client::new(Arc::new(fabric.clone()));
    let near = hosting("test.near:1.0", Locks(lock), Executor::builder().invoker(client));
    let serves = fabric.serve(Endpoint::all(&far), far.clone()).await.expect("it serves");
    let begin = Instant::now();
    let params = json!({ "by": "request", "locked": true });
    let call = near.call_as_system::<Value>("test.near:1.0:callOn", params);
    call.await.expect_err("it would wait for itself");
    assert!(begin.elapsed().is_zero(), "it did not wait for the deadline");
    found("fabric");
    drop(serves);
}

#[actix::test]
async fn a_function_that_wants_another_lock_gets_it() {
    let executor = executor("free");
    let taken: Value =
        executor.call_as_system("test.locks:1.0:free", ()).await.expect("it is free");
    assert_eq!(taken, json!("taken"));
}
