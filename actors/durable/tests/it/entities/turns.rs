//! Calls of an entity run one at a time, and a call that fails has changed nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asyncsteps_journal::memory::{Fault, Operation};
use asyncsteps_journal::request::Query;
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Process, memory};
use crate::node::run;

#[test]
fn calls_run_one_at_a_time_in_the_order_in_which_they_came() {
    run(async {
        let process = Process::start(memory()).await;
        let add = |add: i32| {
            // the first ones take longer
            let params = json!({ "name": "a", "add": add, "millis": 20 - add });
            process.call::<i32>("add", params)
        };
        let sums = join_all((1..=10).map(add)).await;
        let sums: Vec<i32> = sums.into_iter().map(|sum| sum.expect("it is added")).collect();
        assert_eq!(sums, [1, 3, 6, 10, 15, 21, 28, 36, 45, 55]);
        assert_eq!(process.all("a").await, (1..=10).collect::<Vec<_>>());
        process.stop().await;
    });
}

#[test]
fn entities_run_beside_each_other() {
    run(async {
        let process = Process::start(memory()).await;
        let begun = Instant::now();
        let add = |name: usize| {
            let params = json!({ "name": name.to_string(), "add": 1, "millis": 500 });
            process.call::<i32>("add", params)
        };
        let sums = join_all((0..100).map(add)).await;
        assert!(sums.into_iter().all(|sum| matches!(sum, Ok(1))));
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_call_that_fails_or_panics_or_is_left_has_changed_nothing() {
    run(async {
        let process = Process::start(memory()).await;
        process.add("a", 1).await.expect("it is added");
        for fails in ["error", "panic"] {
            let params = json!({ "name": "a", "add": 100, "fails": fails });
            let failed = process.call::<i32>("add", params).await.expect_err("it fails");
            let expected = if fails == "panic" { "InternalError" } else { "TooMuch" };
            assert_eq!(failed.code(), expected);
        }
        let long = process.call::<i32>("add", json!({ "name": "a", "add": 100, "millis": 1000 }));
        let left = tokio::time::timeout(Duration::from_millis(1500), long).await;
        assert!(left.is_err(), "its caller has left behind the change");
        assert_eq!(process.add("a", 2).await.expect("it is added"), 3);
        assert_eq!(process.all("a").await, [1, 2]);
    });
}

#[test]
fn reads_do_not_wait_for_a_turn_and_see_what_is_stored() {
    run(async {
        let process = Process::start(memory()).await;
        process.add("a", 1).await.expect("it is added");
        let adds = process.call::<i32>("add", json!({ "name": "a", "add": 2, "millis": 1000 }));
        let reads = async {
            sleep(Duration::from_millis(1500)).await;
            process.sum("a").await
        };
        let (added, read) = tokio::join!(adds, reads);
        assert_eq!((added.expect("it is added"), read), (3, 1));
        assert_eq!(process.sum("a").await, 3);
        assert_eq!(process.sum("never called").await, 0);
        let all = process.durable.list(Query { limit: 9, ..Query::default() }).await;
        assert_eq!(all.expect("they are listed").len(), 1, "a read leaves nothing behind");
    });
}

#[test]
fn no_answer_leaves_before_its_change_is_stored_and_turns_go_on_meanwhile() {
    run(async {
        let journal = memory();
        let is_full = Arc::new(AtomicBool::new(false));
        let full = Arc::clone(&is_full);
        let faults = move |operation| {
            let is_full = operation == Operation::Append && full.load(Ordering::Relaxed);
            if is_full { Fault::DiskFull } else { Fault::None }
        };
        let process = Process::start(journal.faults(faults)).await;
        process.add("a", 1).await.expect("it is added");
        is_full.store(true, Ordering::Relaxed);
        let waits = async {
            let adds = join_all((0..3).map(|_| process.add("a", 1)));
            tokio::pin!(adds);
            tokio::select! {
                biased;
                sums = &mut adds => panic!("answered before it is stored: {sums:?}"),
                () = sleep(Duration::from_secs(3)) => {}
            }
            assert_eq!(process.sum("a").await, 1, "reads see what is stored");
            is_full.store(false, Ordering::Relaxed);
            adds.await
        };
        let sums: Vec<_> = waits.await.into_iter().map(|sum| sum.expect("it is added")).collect();
        assert_eq!(sums, [2, 3, 4]);
        assert_eq!(process.sum("a").await, 4);
    });
}
