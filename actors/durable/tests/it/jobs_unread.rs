//! The promise: a record or a schedule that cannot be read hides no other job, and no job of another user shows in a
//! list.

use std::time::Duration;

use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::{Durable, Erase, Node};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::request::StoredSchedule;
use asyncsteps_journal::{Journal as _, Keys, TokioClock, Value};
use serde_json::json;

use crate::jobs::{ANN, BOB, OPERATOR, ask};
use crate::node::run;

fn letter(steps: &Steps<(), ()>) -> Returns<String> {
    steps.run("write", async |_, ()| Ok("dear ann".to_owned())).recorded().returns()
}

async fn start(journal: Memory) -> (Durable, Executor, Node) {
    let durable = Durable::new(journal);
    let interface = Interface::new("test.letters:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "letter", letter);
    });
    let executor = Jobs::new(durable.clone())
        .allow(JobsFunction::ALL)
        .host(builder)
        .build()
        .expect("it is complete");
    let node = durable.start(&executor).await.expect("a lease");
    (durable, executor, node)
}

/// Ann submits a request, which runs to its end.
async fn submit(executor: &Executor) -> serde_json::Value {
    let submission = json!({ "function": "test.letters:1.0:letter" });
    let uid = ask(executor, ANN, "submit", submission).await.expect("it is stored")["uid"].clone();
    tokio::time::sleep(Duration::from_secs(5)).await;
    uid
}

#[test]
fn a_list_has_what_can_be_read_and_nothing_of_others() {
    run(async {
        let journal = Memory::new(TokioClock::start());
        let key = |id| Keys::new([(id, &[7; 32])]).expect("a key");
        let (_durable, executor, node) = start(journal.clone().keys(key("lost"))).await;
        submit(&executor).await;
        node.stop().await;
        let (_durable, executor, _node) = start(journal.keys(key("kept"))).await;
        let readable = submit(&executor).await;
        let own = ask(&executor, ANN, "list", json!({})).await.expect("it is listed");
        assert_eq!(own["jobs"].as_array().map(Vec::len), Some(1), "{own}");
        assert_eq!(own["jobs"][0]["uid"], readable);
        // not even how many there are, or when
        let of_ann = json!({ "user": "ann", "most": 1 });
        let others = ask(&executor, BOB, "list", of_ann).await.expect("it is listed");
        assert_eq!(others, json!({ "jobs": [], "next": 0 }));
        let all = ask(&executor, OPERATOR, "list", json!({ "user": "ann" })).await;
        assert_eq!(all.expect("it is listed")["jobs"].as_array().map(Vec::len), Some(2));
    });
}

#[test]
fn a_schedule_of_a_user_is_erased_if_this_program_cannot_begin_it() {
    run(async {
        let journal = Memory::new(TokioClock::start());
        let (durable, _executor, _node) = start(journal.clone()).await;
        let stored = |name: &str, form: &serde_json::Value| StoredSchedule {
            name: name.to_owned(),
            value: Value::encode_json(form).expect("a value"),
        };
        let user = r#"{"lid":"ann","gid":"","slvl":"SafeOps"}"#;
        let form = json!({ "function": "f", "cron": "@daily", "time_zone": "Europe/Atlantis",
            "user": user, "parameters": {} });
        journal.put_schedule(stored("of ann", &form)).await.expect("it is stored");
        let erased = durable.erase(Erase::User("ann".to_owned())).await.expect("it is erased");
        assert_eq!(erased.schedules, ["of ann"]);
        assert_eq!(journal.schedules().await.expect("they are read"), []);
        // it may be one of hers
        journal.put_schedule(stored("of whom", &json!([]))).await.expect("it is stored");
        let erased =
            durable.erase(Erase::User("ann".to_owned())).await.expect("the rest is erased");
        assert_eq!(
            (&erased.schedules[..], &erased.unread[..]),
            (&[][..], &["of whom".to_owned()][..])
        );
    });
}

#[test]
fn a_job_that_cannot_be_read_says_so_and_keeps_its_cancel() {
    run(async {
        let journal = Memory::new(TokioClock::start());
        let key = |id| Keys::new([(id, &[7; 32])]).expect("a key");
        let (durable, executor, node) = start(journal.clone().keys(key("lost"))).await;
        node.stop().await;
        let submission = json!({ "function": "test.letters:1.0:letter" });
        let uid = ask(&executor, ANN, "submit", submission).await.expect("it is stored");
        drop(durable);
        let (durable, executor, _node) = start(journal.keys(key("kept"))).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let dead = ask(&executor, OPERATOR, "deadLetters", json!({})).await.expect("it is listed");
        assert_eq!(dead["jobs"][0]["state"], "paused", "{dead}");
        for (user, function, text) in [
            (OPERATOR, "cancel", "the cancel waits for a program that reads the job: record 0"),
            (OPERATOR, "status", "record 0"),
            (OPERATOR, "signal", "record 0"),
            (ANN, "cancel", "an operator knows why"),
            (BOB, "status", "an operator knows why"),
        ] {
            let params = json!({ "uid": uid["uid"], "name": "any" });
            let params = if function == "signal" { params } else { json!({ "uid": uid["uid"] }) };
            let refused = ask(&executor, user, function, params).await.expect_err(function);
            let info = refused.info().unwrap_or_default();
            assert_eq!(refused.code(), "Unreadable", "{function} of {user:?}: {refused}");
            assert!(info.contains(text) && (user == OPERATOR || !info.contains("lost")), "{info}");
        }
        let job = uid["uid"].as_str().and_then(|uid| uid.parse().ok()).expect("a uid");
        let status = durable.status(job).await.expect("its head is not sealed");
        assert_eq!(status.flow.cancel.map(|it| it.by), Some("eve".into()), "it is stored");
    });
}
