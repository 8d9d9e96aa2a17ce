//! A call that comes again with its key gets its first answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use asyncsteps_durable::entity::ANSWERS;
use asyncsteps_journal::memory::{Fault, Operation};
use serde_json::json;

use super::{Process, memory};
use crate::node::run;

#[test]
fn a_call_that_comes_again_with_its_key_is_carried_out_once() {
    run(async {
        let journal = memory();
        let one = Process::start(journal.clone()).await;
        let add = json!({ "name": "a", "add": 1 });
        assert_eq!(one.keyed("ann", "k", add.clone()).await, Ok(json!(1)));
        assert_eq!(one.keyed("ann", "k", add.clone()).await, Ok(json!(1)));
        let other = json!({ "name": "a", "add": 2 });
        assert_eq!(one.keyed("ann", "k", other).await, Err("InvalidRequest".to_owned()));
        let wrong = one.keyed("ann", "k; policy=reject", add.clone()).await;
        assert_eq!(wrong, Err("InvalidRequest".to_owned()), "it is not `k` of another policy");
        assert_eq!(one.keyed("ann", "k; policy=return", add.clone()).await, Ok(json!(1)));
        assert_eq!(one.keyed("bob", "k", add.clone()).await, Ok(json!(2)), "another user");
        one.stop().await;
        let next = Process::start(journal.clone()).await;
        assert_eq!(next.keyed("ann", "k", add).await, Ok(json!(1)), "and by the next process");
        assert_eq!(next.sum("a").await, 2);
    });
}

#[test]
fn a_call_with_equal_parameters_is_the_same_call() {
    run(async {
        let process = Process::start(memory()).await;
        let first = json!({ "name": "a", "add": 1, "by": { "rate": 2 } });
        assert_eq!(process.keyed("ann", "k", first).await, Ok(json!(1)));
        for by in [json!({ "rate": 2.0, "note": null }), json!({ "rate": 2, "unknown": [1] })] {
            let again = json!({ "name": "a", "add": 1.0, "fails": null, "by": by });
            assert_eq!(process.keyed("ann", "k", again).await, Ok(json!(1)));
        }
        let other = json!({ "name": "a", "add": 1, "by": { "rate": 3 } });
        assert_eq!(process.keyed("ann", "k", other).await, Err("InvalidRequest".to_owned()));
    });
}

#[test]
fn a_failed_call_is_carried_out_again() {
    run(async {
        let process = Process::start(memory()).await;
        let fails = json!({ "name": "a", "add": 1, "fails": "error" });
        for _ in 0..2 {
            assert_eq!(process.keyed("ann", "k", fails.clone()).await, Err("TooMuch".to_owned()));
        }
        assert_eq!(process.keyed("ann", "k", json!({ "name": "a", "add": 1 })).await, Ok(json!(1)));
    });
}

#[test]
fn the_oldest_answers_are_forgotten() {
    run(async {
        let journal = memory();
        let process = Process::start(journal.clone()).await;
        let add = json!({ "name": "a", "add": 1 });
        for call in 0..ANSWERS + 10 {
            let answer = process.keyed("ann", &call.to_string(), add.clone()).await;
            assert_eq!(answer, Ok(json!(call + 1)));
        }
        process.stop().await;
        let process = Process::start(journal).await;
        let last = (ANSWERS + 9).to_string();
        assert_eq!(process.keyed("ann", &last, add.clone()).await, Ok(json!(ANSWERS + 10)));
        assert_eq!(process.keyed("ann", "0", add).await, Ok(json!(ANSWERS + 11)));
    });
}

/// Each record is once the last thing that the node of a call learns of the journal.
#[test]
fn a_keyed_call_is_counted_once_wherever_its_node_is_lost() {
    for fault in [Fault::NotDone, Fault::AnswerLost, Fault::NeverAnswered] {
        for lost_at in 1..4 {
            run(async {
                let journal = memory();
                let count = Arc::new(AtomicUsize::new(0));
                let faults = move |operation| {
                    let is_append = usize::from(operation == Operation::Append);
                    let appends = count.fetch_add(is_append, Ordering::Relaxed) + is_append;
                    match appends {
                        appends if appends < lost_at => Fault::None,
                        appends if appends == lost_at => fault,
                        _ => Fault::NotDone,
                    }
                };
                let dying = Process::start(journal.clone().faults(faults)).await;
                let heir = Process::start(journal).await;
                for call in 0..5 {
                    let params = json!({ "name": "a", "add": 1 });
                    let key = call.to_string();
                    let first = dying.keyed("ann", &key, params.clone()).await;
                    let again = heir.keyed("ann", &key, params).await;
                    assert_eq!(again, Ok(json!(call + 1)), "{fault:?} {lost_at}");
                    assert!(first.is_err() || first == again, "{fault:?} {lost_at}: {first:?}");
                }
                assert_eq!(heir.all("a").await, [1; 5]);
            });
        }
    }
}
