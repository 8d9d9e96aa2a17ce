//! An entity whose key is in several parameters.

use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::Durable;
use asyncsteps_durable::entity::{Entity, EntityCx as _, Message};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Functions, Service};
use asyncsteps_journal::LEASE;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::memory;
use crate::node::run;

/// The halls of a house, by their names and the days.
struct Halls;

impl Service for Halls {
    type Errors = ();
}

impl Entity for Halls {
    type State = i32;
}

#[derive(Deserialize, JsonSchema)]
struct Evening {
    hall: String,
    day: i32,
}

#[derive(Deserialize, JsonSchema)]
struct Hall {
    #[expect(dead_code, reason = "it is a part of the key")]
    hall: String,
}

impl Halls {
    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn sell(cx: &Cx<Self, Evening>) -> BodyResult<String> {
        let again = Message::new("again", json!({}))?;
        cx.entity().send(again.after(Duration::from_secs(1)))?;
        cx.entity().change(|sold| *sold += 1)?;
        Ok(cx.entity().key().to_owned())
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn again(cx: &Cx<Self, Evening>) -> BodyResult<()> {
        let Evening { hall, day } = &*cx.params;
        assert_eq!(cx.entity().key(), json!([hall, day]).to_string());
        Ok(cx.entity().change(|sold| *sold += 10)?)
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn sold(cx: &Cx<Self, Evening>) -> BodyResult<i32> {
        Ok(*cx.entity().get())
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn of_hall(cx: &Cx<Self, Hall>) -> BodyResult<i32> {
        Ok(*cx.entity().get())
    }
}

fn built(
    durable: &Durable,
    define: fn(&Durable, &mut Functions<Halls>),
) -> Result<Executor, String> {
    let interface = Interface::new("test.halls:1.0".parse().expect("it is a name"));
    let executor = Executor::builder().service(interface, Halls, |own| define(durable, own));
    executor.build().map_err(|error| error.to_string())
}

fn define(durable: &Durable, functions: &mut Functions<Halls>) {
    durable
        .entity(functions, ["hall", "day"])
        .on("sell", Halls::sell)
        .on("again", Halls::again)
        .reads("sold", Halls::sold);
}

#[test]
fn several_parameters_have_a_key_together() {
    run(async {
        let durable = Durable::new(memory());
        let executor = built(&durable, define).expect("it is complete");
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        let call = async |function: &str, hall: Value, day: Value| {
            let function = format!("test.halls:1.0:{function}");
            let params = json!({ "hall": hall, "day": day });
            let called = executor.call_as_system::<Value>(&function, params).await;
            called.map_err(|error| error.to_string())
        };
        // what would be one key, if the parts were only put together
        let evenings = [("a", 11), ("a,1", 1), ("a\",1", 1), ("1", 1)];
        for (hall, day) in evenings {
            let key = call("sell", json!(hall), json!(day)).await.expect("it is called");
            assert_eq!(key, json!([hall, day]).to_string());
            assert_eq!(call("sold", json!(hall), json!(day)).await, Ok(json!(1)), "{hall}");
        }
        // the messages come to the same entities
        tokio::time::sleep(LEASE).await;
        for (hall, day) in evenings {
            assert_eq!(call("sold", json!(hall), json!(day)).await, Ok(json!(11)), "{hall}");
        }
        for (hall, rule) in [
            (
                "a\0b".to_owned(),
                "The parameter hall is a part of the key of an entity: it cannot have",
            ),
            ("x".repeat(600), "The parameters hall, day are the key of an entity: it may have 512"),
        ] {
            let wrong = call("sell", json!(hall), json!(1)).await.expect_err("it is wrong");
            assert!(wrong.contains(rule), "{wrong}");
        }
        node.stop().await;
    });
}

#[test]
fn each_function_has_all_parameters_of_the_key() {
    run(async {
        let durable = Durable::new(memory());
        let wrong = built(&durable, |durable, functions| {
            durable.entity(functions, ["hall", "day"]).reads("ofHall", Halls::of_hall);
        });
        let wrong = wrong.expect_err("a parameter is missing");
        assert!(wrong.contains("it has no parameter `day`, which has the key"), "{wrong}");
    });
}
