//! The promise: an operator sees which entities a process owns, who waits for them, and their last calls.

use std::net::SocketAddr;
use std::sync::Arc;

use asyncsteps_console::Console;
use asyncsteps_core::BodyResult;
use asyncsteps_durable::Durable;
use asyncsteps_durable::entity::{Entity, EntityCx as _};
use asyncsteps_durable::journal::memory::Memory;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Service};
use asyncsteps_observe::Locks;
use futures_util::future::join;
use http::Request;
use http_body_util::BodyExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

/// Doors that count who went through, as soon as they are opened.
struct Doors {
    opened: Arc<Semaphore>,
}

impl Service for Doors {
    type Errors = ();
}

impl Entity for Doors {
    type State = i32;
}

#[derive(Deserialize, JsonSchema)]
struct Pass {
    #[expect(dead_code, reason = "it is the key")]
    door: String,
}

impl Doors {
    async fn pass(cx: &Cx<Self, Pass>) -> BodyResult<i32> {
        cx.opened.acquire().await?.forget();
        Ok(cx.entity().change(|passed| {
            *passed += 1;
            *passed
        })?)
    }
}

/// The entities as the page gets them.
async fn entities(console: &Console) -> Value {
    let peer: SocketAddr = "127.0.0.1:4000".parse().expect("an address");
    let request = Request::builder().uri("/console/entities").header("host", "localhost:8080");
    let request = request.extension(peer).body(()).expect("a request");
    let answer = console.service().oneshot(request).await.expect("an answer");
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    let mut list: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(list["all"], list["entities"].as_array().expect("a list").len());
    list["entities"].take()
}

#[actix::test]
async fn entities_are_seen_with_their_queues_and_last_calls() {
    let opened = Arc::new(Semaphore::new(0));
    let durable = Durable::new(Memory::default());
    let interface = Interface::new("test.doors:1.0".parse().expect("a name"));
    let doors = Doors { opened: Arc::clone(&opened) };
    let executor = Executor::builder().service(interface, doors, |functions| {
        durable.entity(functions, "door").on("pass", Doors::pass);
    });
    let executor = executor.build().expect("a right configuration");
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    let locks = Locks::new().mutex(durable.entity_turns());
    let console = Console::new(&executor, locks).durable(durable.clone());
    assert_eq!(entities(&console).await, json!([]));

    let pass = async || {
        let door = json!({ "door": "front" });
        executor.call_as_system::<i32>("test.doors:1.0:pass", door).await
    };
    let looks = async {
        let seen = loop {
            let seen = entities(&console).await;
            if seen[0]["queued"] == 1 {
                break seen;
            }
            tokio::task::yield_now().await;
        };
        let front = &seen[0];
        assert_eq!(front["name"], "test.doors:1@front");
        let is = (&front["is_busy"], &front["state_bytes"], &front["turns"]);
        assert_eq!(is, (&json!(true), &json!(0), &json!([])));
        opened.add_permits(2);
    };
    let (passed, ()) = join(join(pass(), pass()), looks).await;
    assert_eq!((passed.0.expect("a count"), passed.1.expect("a count")), (1, 2));
    opened.close();
    pass().await.expect_err("it is closed");

    let seen = entities(&console).await;
    let front = &seen[0];
    assert_eq!((&front["is_busy"], &front["queued"]), (&json!(false), &json!(0)));
    assert_eq!(front["state_bytes"], 1, "a small number");
    assert_eq!(front["node"], 1);
    assert!(front["age"].as_f64().is_some_and(|age| age >= 0.0), "{front}");
    let turns = front["turns"].as_array().expect("a list");
    let ends: Vec<_> = turns.iter().map(|turn| (&turn["function"], &turn["is_done"])).collect();
    let (function, done, failed) = (&json!("pass"), &json!(true), &json!(false));
    assert_eq!(ends, [(function, failed), (function, done), (function, done)]);
    node.stop().await;
}
