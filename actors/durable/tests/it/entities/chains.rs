//! Entities that call entities.

use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::Durable;
use asyncsteps_durable::entity::{Entity, EntityCx as _};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::memory;
use crate::node::run;

/// Each passes what it has to the next one, by a call.
struct Links;

impl Service for Links {
    type Errors = ();
}

impl Entity for Links {
    type State = i32;
}

#[derive(Deserialize, JsonSchema)]
struct Pass {
    name: String,
    /// The next ones.
    on: Vec<String>,
}

impl Links {
    fn pass(steps: &Steps<Self, Pass>) -> Returns<i32> {
        steps
            .run("count", async |cx, ()| Ok(cx.entity().change(|count| *count += 1)?))
            .repeatable()
            .then("pass on", async |cx, ()| Self::on(cx).await)
            .repeatable()
            .returns()
    }

    async fn on(cx: &Cx<Self, Pass>) -> BodyResult<i32> {
        assert_eq!(cx.fences().last().map(|fence| fence.key()), Some(&*cx.params.name));
        let Some((next, on)) = cx.params.on.split_first() else {
            return Ok(1);
        };
        let params = json!({ "name": next, "on": on });
        let passed: i32 = cx.request().call("test.links:1.0:pass", params).await?;
        Ok(passed + 1)
    }
}

fn executor(durable: &Durable) -> Executor {
    let interface = Interface::new("test.links:1.0".parse().expect("it is a name"));
    let executor = Executor::builder().service(interface, Links, |functions| {
        durable.entity(functions, "name").on("pass", Links::pass);
    });
    executor.build().expect("it is complete")
}

async fn pass(executor: &Executor, name: &str, on: &[&str]) -> Result<i32, String> {
    let params = json!({ "name": name, "on": on });
    let passed = executor.call_as_system("test.links:1.0:pass", params).await;
    passed.map_err(|error| format!("{}: {}", error.code(), error.info().unwrap_or_default()))
}

#[test]
fn an_entity_calls_others_and_never_waits_for_itself() {
    run(async {
        let durable = Durable::new(memory());
        let executor = executor(&durable);
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        assert_eq!(pass(&executor, "a", &["b", "c"]).await, Ok(3));
        let begun = tokio::time::Instant::now();
        for on in [&["a"][..], &["b", "c", "a"]] {
            let refused = pass(&executor, "a", on).await.expect_err("it would wait for itself");
            assert!(refused.starts_with("InternalError"), "{refused}");
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "it is refused at once");
        assert_eq!(pass(&executor, "a", &[]).await, Ok(1), "and nobody waits for it");
    });
}

#[test]
fn two_entities_that_wait_for_each_other_end() {
    run(async {
        let durable = Durable::new(memory());
        let executor = executor(&durable);
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let (one, other) =
            tokio::join!(pass(&executor, "a", &["b"]), pass(&executor, "b", &["a"]),);
        assert!(one.is_err() || other.is_err(), "{one:?} {other:?}");
        assert_eq!(pass(&executor, "a", &["b"]).await, Ok(2));
    });
}
