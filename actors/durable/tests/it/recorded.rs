//! The promise: what is recorded about people is sealed, and a request that the keys do not open waits for them.

use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::journal::memory::Memory;
use asyncsteps_durable::journal::request::{FlowState, Resume};
use asyncsteps_durable::journal::{Keys, Uid};
use asyncsteps_durable::{Durable, Node, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::{Interface, Sensitive};
use asyncsteps_executor::{Executor, Returns, Steps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::jobs::{ANN, OPERATOR, ask};
use crate::node::run;
use asyncsteps_journal::TokioClock;

fn greeting(steps: &Steps<(), ()>) -> Returns<String> {
    steps
        .run("look up", async |_, ()| Ok("ann@example.org".to_owned()))
        .recorded()
        .then_pause("until she is awake", MINUTE)
        .then("write", async |_, address| Ok(format!("to {address}")))
        .recorded()
        .returns()
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct Parcel {
    number: i32,
    to: Sensitive<String>,
}

/// Its undo and its second step see what it has recorded.
fn parcel(steps: &Steps<(), ()>) -> Returns<Parcel> {
    steps
        .run("pack", async |_, ()| Ok(Parcel { number: 7, to: Sensitive("Ann".to_owned()) }))
        .recorded()
        .then_pause("until the van comes", MINUTE)
        .then("check", async |_, parcel| {
            assert_eq!(parcel.to.0, "Ann");
            Ok(parcel)
        })
        .recorded()
        .returns()
}

const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);

/// A process with these keys, each of which is its own id.
async fn process(journal: &Memory, keys: &[&str]) -> (Durable, Node) {
    let bytes: Vec<_> = keys.iter().map(|key| [key.as_bytes()[0]; 32]).collect();
    let keys = Keys::new(keys.iter().copied().zip(&bytes)).expect("keys");
    let durable = Durable::new(journal.clone().keys(keys));
    let interface = Interface::new("test.greeter:1.0".parse().expect("it is a name"));
    let executor = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "greeting", greeting);
    });
    let executor = executor.build().expect("it is complete");
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    (durable, node)
}

async fn state(durable: &Durable, uid: Uid) -> (FlowState, String) {
    let flow = durable.status(uid).await.expect("it is there").flow;
    (flow.state, flow.reason.unwrap_or_default())
}

#[test]
fn a_request_waits_for_a_missing_key_and_goes_on_with_it() {
    run(async {
        let journal = Memory::new(TokioClock::start());
        let (durable, node) = process(&journal, &["a"]).await;
        let options = Options::default().caller(User::new("ann", SecurityLevel::SafeOps));
        let submit = durable.submit("test.greeter:1.0:greeting", json!({}), options);
        let uid = submit.await.expect("it is stored");
        tokio::time::sleep(MINUTE / 2).await;
        assert_eq!(state(&durable, uid).await.0, FlowState::Parked);
        node.stop().await;
        let (durable, node) = process(&journal, &["b"]).await;
        tokio::time::sleep(MINUTE).await;
        let (state, reason) = state(&durable, uid).await;
        assert_eq!(state, FlowState::Paused);
        let why = "cannot be read: it is sealed with the key `a`, which this program does not have";
        assert!(reason.starts_with("record 0 of flow ") && reason.ends_with(why), "{reason}");
        node.stop().await;
        let (durable, _node) = process(&journal, &["b", "a"]).await;
        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        let greeting: String = durable.result(uid).await.expect("it goes on");
        assert_eq!(greeting, "to ann@example.org");
    });
}

#[test]
fn sensitive_fields_of_a_result_are_for_its_user() {
    run(async {
        let journal = Memory::new(TokioClock::start());
        let durable = Durable::new(journal.clone());
        let interface = Interface::new("test.parcels:1.0".parse().expect("it is a name"));
        let builder = Executor::builder().service(interface, (), |functions| {
            durable.on(functions, "parcel", parcel);
        });
        let executor = Jobs::new(durable.clone())
            .allow(JobsFunction::ALL)
            .host(builder)
            .build()
            .expect("it is complete");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let submission = json!({ "function": "test.parcels:1.0:parcel" });
        let submitted = ask(&executor, ANN, "submit", submission).await.expect("it is stored");
        tokio::time::sleep(2 * MINUTE).await;
        let result = async |executor: &Executor, user| {
            let named = json!({ "uid": submitted["uid"] });
            ask(executor, user, "result", named).await.expect("it has ended")["result"].clone()
        };
        let whole = json!({ "number": 7, "to": "Ann" });
        assert_eq!(result(&executor, ANN).await, whole);
        assert_eq!(
            result(&executor, ("ann", OPERATOR.1)).await,
            whole,
            "she is an operator herself"
        );
        assert_eq!(result(&executor, OPERATOR).await, json!({ "number": 7, "to": "[redacted]" }));
        let uid = submitted["uid"].as_str().expect("a name").parse().expect("a uid");
        let parcel: Parcel = durable.result(uid).await.expect("it has ended");
        assert_eq!(parcel.to.0, "Ann", "the program has it");
        // another process does not know what is sensitive
        let other = Jobs::new(Durable::new(journal)).host(Executor::builder());
        let other = other.build().expect("it is complete");
        assert_eq!(result(&other, OPERATOR).await, json!(null));
        assert_eq!(result(&other, ANN).await, whole);
    });
}
