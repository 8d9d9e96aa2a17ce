//! Reads of what is stored need no owner, and what a process owns is seen.

use asyncsteps_durable::Durable;
use asyncsteps_journal::request::{FlowInfo, Query};
use asyncsteps_journal::{Error, Journal, memory::Memory};
use serde_json::json;
use tokio::time::Instant;

use super::{Process, executor, memory};
use crate::node::run;

async fn flows(journal: &Memory) -> Result<Vec<FlowInfo>, Error> {
    journal.list(Query { limit: 10, ..Query::default() }).await
}

#[test]
fn what_is_stored_is_read_without_the_owner_and_leaves_it_where_it_is() {
    run(async {
        let journal = memory();
        let one = Process::start(journal.clone()).await;
        assert_eq!(one.add("a", 1).await.expect("it is added"), 1);
        let before = flows(&journal).await.expect("they are listed");
        let other = Process::start(journal.clone()).await;
        for sum in 2..5 {
            assert_eq!(one.add("a", 1).await.expect("it is added"), sum);
            assert_eq!(other.stored("a").await, sum, "what was answered is seen");
        }
        let after = flows(&journal).await.expect("they are listed");
        assert_eq!((after[0].owner, after[0].epoch), (before[0].owner, before[0].epoch));
        assert_eq!(other.stored("b").await, 0);
        assert_eq!(
            flows(&journal).await.expect("they are listed").len(),
            1,
            "a read leaves nothing"
        );
        // a process that could write asks for the entity
        assert_eq!(other.sum("a").await, 4);
        assert_ne!(flows(&journal).await.expect("they are listed")[0].epoch, before[0].epoch);
    });
}

#[test]
fn what_is_stored_is_read_while_nobody_owns_it() {
    run(async {
        let journal = memory();
        let one = Process::start(journal.clone()).await;
        one.add("a", 7).await.expect("it is added");
        // the node ends as by a crash: others wait for its lease before they own the entity
        drop(one);
        let durable = Durable::new(journal);
        let executor = executor(&durable);
        let (began, named) = (Instant::now(), json!({ "name": "a" }));
        let stored = executor.call_as_system::<i32>("test.counters:1.0:stored", named.clone());
        assert_eq!(stored.await.expect("no node is needed"), 7);
        assert!(began.elapsed().is_zero(), "{:?}", began.elapsed());
        let owned = executor.call_as_system::<i32>("test.counters:1.0:sum", named).await;
        let error = owned.expect_err("no node of this process runs");
        assert!(error.info().unwrap_or_default().contains("Durable::start"), "{error:?}");
    });
}

#[test]
fn what_a_process_owns_is_seen() {
    run(async {
        let journal = memory();
        let process = Process::start(journal.clone()).await;
        for name in ["a", "b", "c"] {
            process.add(name, 1).await.expect("it is added");
        }
        for _ in 0..10 {
            process.add("b", 1).await.expect("it is added");
        }
        let fails = json!({ "name": "b", "add": 1, "fails": "yes" });
        process.call::<i32>("add", fails).await.expect_err("it fails");
        let (entities, all) = process.durable.entities(2);
        assert_eq!((entities.len(), all), (2, 3));
        let last = &entities[0];
        assert_eq!((&*last.name, last.is_busy, last.queued), ("test.counters:1@b", false, 0));
        let uid = last.uid.expect("it is owned");
        let flow = process.durable.status(uid).await.expect("it is there").flow;
        assert_eq!(flow.template, "test.counters:1@b");
        let ends: Vec<_> = last.turns.iter().map(|turn| turn.is_done).collect();
        assert_eq!(ends, [false, true, true, true], "the newest first");
        // the sum, and a number for each call
        assert!((11..100).contains(&last.state_bytes), "{}", last.state_bytes);
        let other = Process::start(journal).await;
        other.add("b", 1).await.expect("it is added");
        let names = |process: &Process| {
            let (entities, _) = process.durable.entities(10);
            let mut names: Vec<_> = entities.iter().map(|it| it.name.to_string()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&process), ["test.counters:1@a", "test.counters:1@c"]);
        assert_eq!(names(&other), ["test.counters:1@b"]);
    });
}
