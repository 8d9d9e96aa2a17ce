//! The promise: a signal over the wire reaches its request once, and only from those who see the request.

use asyncsteps_core::Error;
use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::{Durable, Node};
use asyncsteps_executor::plan::Sender;
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Steps};
use asyncsteps_journal::limits::VALUE_BYTES;
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::{Limits, Uid};
use serde_json::{Value, json};

use crate::jobs::{ANN, BOB, OPERATOR, ask};

/// The second decision after a start, which has no value.
fn decided(steps: &Steps<(), ()>) -> Returns<String> {
    let user = |sender: &Sender<()>| sender.is_own() || sender.level() == OPERATOR.1;
    steps
        .wait_signal::<()>("start")
        .from(user)
        .then_wait_signal::<String>("decision")
        .from(user)
        .then_wait_signal::<String>("decision")
        .from(user)
        .returns()
}

const SYSTEM: (&str, SecurityLevel) = ("a service", SecurityLevel::System);

async fn start() -> (Executor, Node) {
    tokio::time::pause();
    let durable =
        Durable::new(Memory::default().limits(Limits { signals: 3, ..Limits::default() }));
    let interface = Interface::new("test.decision:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "decided", decided);
    });
    let executor = Jobs::new(durable.clone())
        .allow(JobsFunction::ALL)
        .host(builder)
        .build()
        .expect("it is complete");
    let node = durable.start(&executor).await.expect("a lease");
    (executor, node)
}

async fn submit(executor: &Executor) -> Result<Value, Error> {
    let submission = json!({ "function": "test.decision:1.0:decided" });
    Ok(ask(executor, ANN, "submit", submission).await?["uid"].clone())
}

#[actix::test]
async fn the_steps_that_wait_take_the_values_and_one_id_is_one_signal() -> Result<(), Error> {
    let (executor, _node) = start().await;
    let uid = submit(&executor).await?;
    let signal = async |user, name: &str, value: Value, id: Option<String>| {
        let sent = json!({ "uid": uid, "name": name, "value": value, "id": id });
        ask(&executor, user, "signal", sent).await
    };
    let id = || Some("0123456789abcdef".repeat(2));
    assert_eq!(signal(ANN, "decision", json!("wait"), id()).await?, json!(true));
    assert_eq!(signal(ANN, "decision", json!("wait"), id()).await?, json!(true));
    assert_eq!(ask(&executor, ANN, "signal", json!({ "uid": uid, "name": "start" })).await?, true);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    // it is taken, and still the same
    signal(ANN, "decision", json!("wait"), id()).await?;
    let open = ask(&executor, ANN, "result", json!({ "uid": uid, "wait": 4_000 })).await?;
    assert_ne!(open["state"], "ended", "there was one decision");
    signal(OPERATOR, "decision", json!("go"), None).await?;
    let ended = ask(&executor, ANN, "result", json!({ "uid": uid, "wait": 4_000 })).await?;
    assert_eq!((&ended["state"], &ended["result"]), (&json!("ended"), &json!("go")));
    let late = signal(ANN, "decision", json!("stop"), None).await.expect_err("it has ended");
    assert_eq!(late.code(), "HasEnded");
    Ok(())
}

#[actix::test]
async fn wrong_signals_are_told() -> Result<(), Error> {
    let (executor, _node) = start().await;
    let uid = submit(&executor).await?;
    let large = "x".repeat(VALUE_BYTES);
    let unknown = Uid::from_bytes([7; 16]).to_string();
    for (user, sent, code, text) in [
        (BOB, json!({ "uid": uid, "name": "start" }), "UnknownJob", ""),
        (ANN, json!({ "uid": unknown, "name": "start" }), "UnknownJob", &*unknown),
        (ANN, json!({ "uid": "x", "name": "start" }), "UnknownJob", "x"),
        (ANN, json!({ "uid": uid, "name": "" }), "InvalidRequest", "name"),
        (ANN, json!({ "uid": uid, "name": "a\0" }), "SecurityError", "takes this signal"),
        (SYSTEM, json!({ "uid": uid, "name": "a\0" }), "InvalidRequest", "name"),
        (SYSTEM, json!({ "uid": uid, "name": "\u{e4}".repeat(4000) }), "InvalidRequest", "name"),
        (ANN, json!({ "uid": uid, "name": "start", "id": "7" }), "InvalidRequest", "`id`"),
        (ANN, json!({ "uid": uid, "name": "start", "value": large }), "InvalidRequest", "`value`"),
        (ANN, json!({ "uid": uid, "name": "decision", "value": 7 }), "InvalidRequest", "type"),
        (SYSTEM, json!({ "uid": uid, "name": "decision" }), "InvalidRequest", "type"),
    ] {
        let refused = ask(&executor, user, "signal", sent).await.expect_err("it is wrong");
        assert_eq!(refused.code(), code, "{refused}");
        assert!(refused.info().is_some_and(|info| info.contains(text)), "{text}: {refused}");
    }
    let decision = json!({ "uid": uid, "name": "decision", "value": "wait" });
    for _ in 0..3 {
        ask(&executor, OPERATOR, "signal", decision.clone()).await?;
    }
    let refused = ask(&executor, ANN, "signal", decision).await.expect_err("three wait");
    assert_eq!(refused.code(), "TooManySignals");
    Ok(())
}
