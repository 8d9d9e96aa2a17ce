//! Entities that call entities.

use std::sync::Arc;
use std::time::Duration;

use actix_rt::Arbiter;
use asyncsteps_actors::sync::deadlock;
use asyncsteps_core::BodyResult;
use asyncsteps_durable::Durable;
use asyncsteps_durable::entity::{Entity, EntityCx as _};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::Memory;
use futures_util::future::{join_all, try_join_all};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Barrier;

use super::hops::there;
use super::memory;
use crate::node::run;

/// What the caller of a deadlock sees.
const DEADLOCK: &str = "InternalError: deadlock: calls wait for each other";

/// Each passes what it has to the next one, by a call; where calls cross, when all of them have their first turn.
struct Links(Option<Arc<Barrier>>);

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
        if let Some(all) = &cx.0 {
            all.wait().await;
        }
        let params = json!({ "name": next, "on": on });
        let passed: i32 = cx.request().call("test.links:1.0:pass", params).await?;
        Ok(passed + 1)
    }
}

fn executor(durable: &Durable) -> Executor {
    crossing_executor(durable, None)
}

fn crossing_executor(durable: &Durable, all: Option<&Arc<Barrier>>) -> Executor {
    let interface = Interface::new("test.links:1.0".parse().expect("it is a name"));
    let executor = Executor::builder().service(interface, Links(all.cloned()), |functions| {
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
            assert_eq!(refused, DEADLOCK);
        }
        let found = deadlock::last();
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "deadlock: the entity test.links:1@a calls itself, by a",
                "deadlock: the entity test.links:1@a calls itself, by a, then b, then c",
            ]
        );
        assert!(begun.elapsed() < Duration::from_secs(1), "it is refused at once");
        assert_eq!(pass(&executor, "a", &[]).await, Ok(1), "and nobody waits for it");
    });
}

/// One of the calls that crossed ended as a deadlock, which names these entities.
fn one_ends(mut ended: Vec<Result<i32, String>>, entities: &[&str]) {
    ended.sort();
    let [Ok(2), .., Err(error)] = &*ended else { panic!("{ended:?}") };
    assert_eq!(error, DEADLOCK);
    assert!(ended[..ended.len() - 1].iter().all(Result::is_ok), "{ended:?}");
    let found = deadlock::last();
    let [deadlock] = &*found else { panic!("{found:?}") };
    assert!(!deadlock.left_to_limit);
    let text = deadlock.to_string();
    for name in entities {
        let waits = format!("waits for mutex `entity` key \"test.links:1@{name}\"");
        assert_eq!(text.matches(&waits).count(), 1, "{text}");
    }
}

#[test]
fn of_entities_that_wait_for_each_other_one_ends_at_once() {
    run(async {
        let durable = Durable::new(memory());
        let executor = crossing_executor(&durable, Some(&Arc::new(Barrier::new(2))));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let begun = tokio::time::Instant::now();
        let crossing = [pass(&executor, "a", &["b"]), pass(&executor, "b", &["a"])];
        one_ends(join_all(crossing).await, &["a", "b"]);
        assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
    });
}

#[test]
fn so_they_do_on_several_arbiters() {
    actix::System::new().block_on(async {
        let durable = Durable::new(Memory::default());
        let (all, begin) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
        let executor = crossing_executor(&durable, Some(&all));
        let arbiters = [Arbiter::new(), Arbiter::new(), Arbiter::new()];
        let calls = [("a", "b"), ("b", "c"), ("c", "a")];
        let ended = arbiters.iter().zip(calls).map(|(arbiter, (name, on))| {
            let begin = Arc::clone(&begin);
            there(arbiter, &durable, &executor, async move |executor| {
                // it stays here
                assert_eq!(pass(&executor, name, &[]).await, Ok(1));
                begin.wait().await;
                let ended = pass(&executor, name, &[on]).await;
                begin.wait().await;
                ended
            })
        });
        let ended = try_join_all(ended).await.expect("all end");
        one_ends(ended, &["a", "b", "c"]);
        arbiters.iter().for_each(|arbiter| _ = arbiter.stop());
    });
}

#[test]
fn so_they_do_in_several_processes() {
    run(async {
        let (journal, all) = (memory(), Arc::new(Barrier::new(3)));
        let processes = [(); 3].map(|()| Durable::new(journal.clone()));
        let calls = [("a", "b"), ("b", "c"), ("c", "a")];
        let (mut nodes, mut crossing) = (Vec::new(), Vec::new());
        for (durable, (name, on)) in processes.iter().zip(calls) {
            let executor = crossing_executor(durable, Some(&all));
            nodes.push(durable.start(&executor).await.expect("the journal gives a lease"));
            crossing.push(async move { pass(&executor, name, &[on]).await });
        }
        let begun = tokio::time::Instant::now();
        one_ends(join_all(crossing).await, &["a", "b", "c"]);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    });
}
