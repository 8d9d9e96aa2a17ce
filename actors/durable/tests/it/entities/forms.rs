//! What a program says of its entities, and what an earlier one has stored.

use asyncsteps_core::BodyResult;
use asyncsteps_durable::Durable;
use asyncsteps_durable::entity::{Entity, EntityCx as _};
use asyncsteps_durable::jobs::Jobs;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Builder, Cx, Executor, Functions, Returns, Service, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::request::{FlowState, Query, Resume};
use asyncsteps_journal::{Journal, Value, ValueError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::memory;
use crate::jobs::{OPERATOR, ask};
use crate::node::run;

/// Names that were changed.
struct Names<const VERSION: u32>;

impl<const VERSION: u32> Service for Names<VERSION> {
    type Errors = ();
}

impl Entity for Names<1> {
    type State = String;
}

impl Entity for Names<1001> {
    type State = ();
    const VERSION: u32 = 1001;
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Name {
    first: String,
    last: String,
}

impl Entity for Names<2> {
    type State = Name;
    const VERSION: u32 = 2;

    fn upgrade(_: u32, stored: &Value) -> Result<Name, ValueError> {
        let name: String = stored.decode()?;
        assert_ne!(name, "panics", "it is no name");
        if name == "unreadable" {
            return Err(ValueError::NotRead("it is no name".to_owned()));
        }
        Ok(Name { first: name, last: String::new() })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Set {
    #[expect(dead_code, reason = "it is the key")]
    id: i32,
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Get {
    #[expect(dead_code, reason = "it is the key")]
    id: i32,
}

async fn set_old(cx: &Cx<Names<1>, Set>) -> BodyResult<()> {
    Ok(cx.entity().change(|name| cx.params.name.clone_into(name))?)
}

async fn get_old(cx: &Cx<Names<1>, Get>) -> BodyResult<String> {
    Ok((*cx.entity().get()).clone())
}

async fn set_new(cx: &Cx<Names<2>, Set>) -> BodyResult<()> {
    Ok(cx.entity().change(|name| cx.params.name.clone_into(&mut name.last))?)
}

async fn get_new(cx: &Cx<Names<2>, Get>) -> BodyResult<String> {
    let name = cx.entity().get();
    Ok(format!("{} {}", name.first, name.last))
}

fn builder<const VERSION: u32>(functions: impl FnOnce(&mut Functions<Names<VERSION>>)) -> Builder {
    let interface = Interface::new("test.names:1.0".parse().expect("it is a name"));
    Executor::builder().service(interface, Names::<VERSION>, functions)
}

async fn call<T: for<'de> Deserialize<'de> + 'static>(
    executor: &Executor,
    function: &str,
    params: serde_json::Value,
) -> Result<T, asyncsteps_core::Error> {
    executor.call_as_system(&format!("test.names:1.0:{function}"), params).await
}

async fn old(journal: &Memory) -> (Executor, asyncsteps_durable::Node) {
    let durable = Durable::new(journal.clone());
    let executor = builder::<1>(|functions| {
        durable.entity(functions, "id").on("set", set_old).reads("get", get_old);
    });
    let executor = executor.build().expect("it is complete");
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    (executor, node)
}

async fn new(journal: &Memory) -> (Executor, asyncsteps_durable::Node, Durable) {
    let durable = Durable::new(journal.clone());
    let executor = builder::<2>(|functions| {
        durable.entity(functions, "id").on("set", set_new).reads("get", get_new);
    });
    let executor = executor.build().expect("it is complete");
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    (executor, node, durable)
}

#[test]
fn a_state_of_an_earlier_version_is_upgraded_and_stored_by_the_first_change() {
    run(async {
        let journal = memory();
        let (before, node) = old(&journal).await;
        call::<()>(&before, "set", json!({ "id": 7, "name": "Ann" })).await.expect("it is set");
        node.stop().await;

        let (after, node, _) = new(&journal).await;
        assert_eq!(call::<String>(&after, "get", json!({ "id": 7 })).await.expect("read"), "Ann ");
        node.stop().await;
        let (before, node) = old(&journal).await;
        let read = call::<String>(&before, "get", json!({ "id": 7 })).await;
        assert_eq!(read.expect("it was only read"), "Ann");
        node.stop().await;

        let (after, node, _) = new(&journal).await;
        call::<()>(&after, "set", json!({ "id": 7, "name": "Lee" })).await.expect("it is set");
        node.stop().await;
        let (before, _node) = old(&journal).await;
        let error = call::<String>(&before, "get", json!({ "id": 7 })).await.expect_err("newer");
        assert!(error.info().unwrap_or_default().contains("version 2 of its state"), "{error:?}");
    });
}

#[test]
fn an_entity_that_cannot_be_read_waits_for_an_operator_and_others_go_on() {
    run(async {
        let journal = memory();
        let (before, node) = old(&journal).await;
        for (id, name) in [(1, "unreadable"), (2, "Bob"), (3, "panics")] {
            let set = json!({ "id": id, "name": name });
            call::<()>(&before, "set", set).await.expect("it is set");
        }
        node.stop().await;
        let (after, node, durable) = new(&journal).await;
        let dump = durable.dump().await.expect("it is read");
        let checked = durable.replay_check(&dump);
        let diverge: Vec<_> = checked.iter().map(|entity| entity.divergence.is_some()).collect();
        assert_eq!(diverge, [true, false, true], "{checked:?}");
        for _ in 0..2 {
            let error = call::<String>(&after, "get", json!({ "id": 1 })).await;
            let error = error.expect_err("it cannot be read");
            assert!(error.info().unwrap_or_default().contains("it is no name"), "{error:?}");
        }
        let panics = call::<String>(&after, "get", json!({ "id": 3 })).await;
        let panics = panics.expect_err("it cannot be read");
        assert!(panics.info().unwrap_or_default().contains("panics"), "{panics:?}");
        assert_eq!(call::<String>(&after, "get", json!({ "id": 2 })).await.expect("read"), "Bob ");
        node.stop().await;
        let paused = Query { state: Some(FlowState::Paused), limit: 9, ..Query::default() };
        let paused = journal.list(paused).await.expect("it is listed");
        assert_eq!(paused[0].template, "test.names:1@1");
        durable.resume(paused[0].uid, Resume::Continue).await.expect("it goes on");
        let (before, _node) = old(&journal).await;
        let read = call::<String>(&before, "get", json!({ "id": 1 })).await;
        assert_eq!(read.expect("the program before reads it"), "unreadable");
    });
}

#[test]
fn a_function_that_is_none_of_an_entity_is_an_error_of_the_builder() {
    fn recorded(steps: &Steps<Names<1>, Set>) -> Returns<()> {
        steps.run("send", async |_, ()| Ok(())).recorded().returns()
    }
    let durable = Durable::new(Memory::default());
    let wrong = builder::<1>(|functions| {
        durable.entity(functions, "name").on("set", recorded).reads("get", get_old);
    });
    let text = wrong.build().expect_err("two functions are wrong").to_string();
    assert!(text.contains("`send` is not `repeatable()`"), "{text}");
    assert!(text.contains("it has no parameter `name`"), "{text}");

    async fn get(_: &Cx<Names<1001>, Get>) -> BodyResult<()> {
        Ok(())
    }
    let wrong = builder::<1001>(|functions| {
        durable.entity(functions, "id").reads("get", get);
    });
    let text = wrong.build().expect_err("a node would name all versions").to_string();
    assert!(text.contains("the version of its entities is 1001"), "{text}");
}

#[test]
fn a_read_cannot_change_the_state_and_a_key_has_limits() {
    run(async {
        let durable = Durable::new(memory());
        let executor = builder::<1>(|functions| {
            durable.entity(functions, "name").reads("set", set_old);
            functions.others_not_implemented();
        });
        let executor = executor.build().expect("it is complete");
        let no_node = call::<()>(&executor, "set", json!({ "id": 1, "name": "a" })).await;
        let info = no_node.expect_err("no node runs");
        assert!(info.info().unwrap_or_default().contains("no node of this process"), "{info:?}");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        for (name, code) in
            [("a", "InternalError"), ("\0", "InvalidRequest"), (&"a".repeat(600), "InvalidRequest")]
        {
            let refused = call::<()>(&executor, "set", json!({ "id": 1, "name": name })).await;
            assert_eq!(refused.expect_err("it is refused").code(), code, "{name:?}");
        }
    });
}

#[test]
fn a_list_of_jobs_has_entities_if_it_is_asked_for_them() {
    run(async {
        let journal = memory();
        let (before, _node) = old(&journal).await;
        call::<()>(&before, "set", json!({ "id": 7, "name": "Ann" })).await.expect("it is set");
        let jobs = Jobs::new(Durable::new(journal)).host(Executor::builder());
        let jobs = jobs.build().expect("it is complete");
        let listed = async |params| {
            let list = ask(&jobs, OPERATOR, "list", params).await.expect("it is listed");
            list["jobs"]
                .as_array()
                .expect("jobs")
                .iter()
                .map(|job| job["function"].clone())
                .collect()
        };
        let none: Vec<serde_json::Value> = listed(json!({})).await;
        assert!(none.is_empty(), "{none:?}");
        let entities = listed(json!({ "entities": true })).await;
        assert_eq!(entities, [json!("test.names:1@7")]);
    });
}
