//! The promise: many jobs are listed, cancelled, resumed and purged by what they have in common, as they are one by one.

use std::time::Duration;

use asyncsteps_core::Error;
use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::{Bulk, Durable, Node, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::request::{FlowState, Query};
use asyncsteps_journal::{TokioClock, Uid};
use serde_json::{Value, json};

use crate::jobs::{ANN, BOB, OPERATOR, ask};
use crate::node::run;

const SHORT: &str = "test.letters:1.0:letter";
const LONG: &str = "test.letters:1.0:answered";

fn letter(steps: &Steps<(), ()>) -> Returns<()> {
    steps.run("write", async |_, ()| Ok(())).recorded().returns()
}

fn answered(steps: &Steps<(), ()>) -> Returns<()> {
    steps.wait_signal::<()>("answer").returns()
}

async fn start(allowed: impl IntoIterator<Item = JobsFunction>) -> (Durable, Executor, Node) {
    let durable = Durable::new(Memory::new(TokioClock::start()));
    let interface = Interface::new("test.letters:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "letter", letter);
        durable.on(functions, "answered", answered);
    });
    let jobs = Jobs::new(durable.clone()).allow(allowed);
    let executor = jobs.host(builder).build().expect("it is complete");
    let node = durable.start(&executor).await.expect("a lease");
    (durable, executor, node)
}

/// Stores so many jobs with a tag, and waits until they have ended or wait.
async fn stored(
    durable: &Durable,
    user: &str,
    function: &str,
    tag: &str,
    count: usize,
) -> Vec<Uid> {
    let user = User::new(user, SecurityLevel::SafeOps);
    let mut uids = Vec::new();
    for _ in 0..count {
        let options = Options::default().caller(&user).tags([tag]);
        uids.push(durable.submit(function, json!({}), options).await.expect("it is stored"));
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    uids
}

/// Does something to all jobs of a filter, call by call; returns the counts of the calls.
async fn in_calls(executor: &Executor, function: &str, mut filter: Value) -> Vec<u64> {
    let mut counts = Vec::new();
    loop {
        let done = ask(executor, OPERATOR, function, filter.clone()).await.expect("it is done");
        counts.push(done["count"].as_u64().expect("a number"));
        filter["after"] = done["next"].clone();
        if done["next"] == 0 {
            return counts;
        }
    }
}

async fn open(durable: &Durable, tag: &str) -> usize {
    let query = Query { open: true, tag: Some(tag.to_owned()), limit: 9999, ..Query::default() };
    durable.list(query).await.expect("a list").len()
}

#[actix::test]
async fn jobs_are_listed_by_their_tags() -> Result<(), Error> {
    let (_durable, executor, _node) = start(JobsFunction::ALL).await;
    let tagged = async |user, tags: Value| {
        let submission = json!({ "function": LONG, "tags": tags });
        ask(&executor, user, "submit", submission).await
    };
    let first = tagged(ANN, json!(["spring", "campaign 7"])).await?["uid"].clone();
    tagged(BOB, json!(["spring"])).await?;
    tagged(ANN, json!(null)).await?;
    for (user, tag, count) in
        [(OPERATOR, "spring", 2), (ANN, "spring", 1), (OPERATOR, "campaign 7", 1), (ANN, "x", 0)]
    {
        let listed = ask(&executor, user, "list", json!({ "tag": tag })).await?;
        assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(count), "{tag}: {listed}");
    }
    let status = ask(&executor, ANN, "status", json!({ "uid": first })).await?;
    assert_eq!(status["job"]["tags"], json!(["campaign 7", "spring"]));
    let refused = tagged(ANN, json!(["x".repeat(129)])).await.expect_err("it is too long");
    assert_eq!(refused.code(), "InvalidRequest");
    let refused = tagged(ANN, json!(vec!["x"; 17])).await.expect_err("they are too many");
    assert_eq!(refused.code(), "InvalidRequest");
    Ok(())
}

#[test]
fn jobs_are_cancelled_by_a_filter() {
    run(async {
        let (durable, executor, _node) = start(JobsFunction::ALL).await;
        let own = stored(&durable, "ann", LONG, "spring", 3).await;
        stored(&durable, "bob", LONG, "spring", 1200).await;
        stored(&durable, "ann", LONG, "autumn", 2).await;
        stored(&durable, "ann", SHORT, "spring", 1).await;
        let spring = |dry_run| json!({ "tag": "spring", "dry_run": dry_run });
        let all = ask(&executor, OPERATOR, "cancelAll", spring(true)).await.expect("counted");
        assert_eq!((&all["count"], &all["next"]), (&json!(1203), &json!(0)));
        assert_eq!(all["uids"].as_array().map(Vec::len), Some(100));
        assert_eq!(all["uids"][0], json!(own[0].to_string()));
        assert_eq!(open(&durable, "spring").await, 1203, "it was only counted");

        let of_ann = ask(&executor, ANN, "cancelAll", spring(false)).await.expect("it is done");
        let uids: Vec<_> = own.iter().map(Uid::to_string).collect();
        assert_eq!(of_ann, json!({ "count": 3, "uids": uids, "next": 0 }));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let of_bob = json!({ "tag": "spring", "user": "bob", "dry_run": false });
        let none = ask(&executor, ANN, "cancelAll", of_bob).await.expect("she sees none");
        assert_eq!(none["count"], 0);
        let refused = ask(&executor, ANN, "cancelAll", json!({ "tag": "spring" })).await;
        assert_eq!(refused.expect_err("is it a dry run").code(), "InvalidRequest");
        for state in ["ended", "new"] {
            let filter = json!({ "tag": "spring", "state": state, "dry_run": false });
            assert_eq!(in_calls(&executor, "cancelAll", filter).await, [0], "{state}");
        }
        assert_eq!(in_calls(&executor, "cancelAll", spring(false)).await, [1000, 200]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((open(&durable, "spring").await, open(&durable, "autumn").await), (0, 2));
        let status = durable.status(own[0]).await.expect("it is there").flow;
        assert_eq!(status.outcome.as_deref(), Some("Cancelled"));
    });
}

#[test]
fn jobs_that_wait_for_an_operator_are_resumed_by_a_filter() {
    run(async {
        let (durable, executor, _node) = start(JobsFunction::ALL).await;
        let uids = stored(&durable, "ann", LONG, "spring", 5).await;
        for uid in &uids[1..] {
            durable.pause(*uid, "eve").await.expect("it waits");
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let two = json!({ "function": LONG, "most": 3, "dry_run": false });
        assert_eq!(in_calls(&executor, "resumeAll", two).await, [3, 1]);
        for uid in uids {
            let state = durable.status(uid).await.expect("it is there").flow.state;
            assert_ne!(state, FlowState::Paused);
        }
        let refused = ask(&executor, ANN, "resumeAll", json!({ "dry_run": true })).await;
        assert_eq!(refused.expect_err("she is no operator").code(), "PleaseReauth");
    });
}

#[test]
fn what_has_ended_is_purged_by_a_filter() {
    run(async {
        let (durable, executor, _node) = start(JobsFunction::ALL).await;
        let ended = stored(&durable, "ann", SHORT, "spring", 1100).await;
        let before = durable.status(ended[0]).await.expect("it is there").flow.created;
        stored(&durable, "ann", LONG, "spring", 2).await;
        let later = stored(&durable, "bob", SHORT, "spring", 1).await;
        let filter = json!({ "function": SHORT, "before": before.as_millis() + 60_000 });
        let filter = |dry_run| {
            let mut filter = filter.clone();
            filter["dry_run"] = json!(dry_run);
            filter
        };
        assert_eq!(in_calls(&executor, "purge", filter(true)).await, [1100]);
        assert_eq!(in_calls(&executor, "purge", filter(false)).await, [1000, 100]);
        assert_eq!(in_calls(&executor, "purge", filter(false)).await, [0]);
        let all = Query { limit: 9999, ..Query::default() };
        assert_eq!(durable.list(all.clone()).await.expect("a list").len(), 3);
        // from the program
        let found = durable.bulk_targets(&Bulk::Purge, all.clone()).await.expect("a list");
        let found: Vec<_> = found.iter().map(|flow| flow.uid).collect();
        assert_eq!(found, later);
        assert_eq!(durable.bulk(&Bulk::Purge, &found).await.expect("it is done"), 1);
        assert_eq!(durable.bulk_targets(&Bulk::Purge, all).await.expect("a list"), []);
        let gone = durable.bulk(&Bulk::Resume, &found).await.expect("nothing is left of it");
        assert_eq!(gone, 0);
        for user in [ANN, BOB] {
            let refused = ask(&executor, user, "purge", json!({ "dry_run": true })).await;
            assert_eq!(refused.expect_err("no operator").code(), "PleaseReauth");
        }
    });
}

#[actix::test]
async fn many_jobs_are_changed_where_one_is() -> Result<(), Error> {
    let (_durable, executor, _node) = start([JobsFunction::Submit]).await;
    for (function, single) in [("cancelAll", "cancel"), ("resumeAll", "resume"), ("purge", "purge")]
    {
        let refused = ask(&executor, OPERATOR, function, json!({ "dry_run": true })).await;
        let refused = refused.expect_err("it is not allowed");
        let text = format!("`{single}` is not allowed here");
        assert_eq!((refused.code(), refused.info()), ("SecurityError", Some(&*text)));
    }
    Ok(())
}

#[test]
fn a_filter_with_a_field_that_is_not_known_is_refused() {
    run(async {
        let (durable, executor, _node) = start(JobsFunction::ALL).await;
        stored(&durable, "ann", SHORT, "spring", 1).await;
        for function in ["purge", "cancelAll", "resumeAll"] {
            let filter = json!({ "tags": "autumn", "dry_run": false });
            let refused = ask(&executor, OPERATOR, function, filter).await;
            assert_eq!(refused.expect_err("it is a mistake").code(), "InvalidRequest");
        }
    });
}

#[test]
fn a_caller_without_a_user_cancels_no_jobs_of_others() {
    run(async {
        let durable = Durable::new(Memory::new(TokioClock::start()));
        let mut interface = Interface::new("test.letters:1.0".parse().expect("a name"));
        interface.allow_anonymous();
        let builder = Executor::builder().service(interface, (), |functions| {
            durable.on(functions, "answered", answered);
        });
        let jobs = Jobs::new(durable.clone()).allow([JobsFunction::Cancel]);
        let jobs = jobs.callers(SecurityLevel::Anonymous);
        let executor = jobs.host(builder).build().expect("it is complete");
        let uid = durable.submit(LONG, json!({}), Options::default()).await.expect("it is stored");
        let ask = async |function: &str, params: Value| {
            let request = TestRequest::new(format!("asyncsteps.jobs:1.0:{function}"));
            request.params(params).call::<Value>(&executor).await
        };
        let refused = ask("cancelAll", json!({ "dry_run": false })).await.expect_err("no user");
        assert_eq!(refused.code(), "SecurityError", "{refused}");
        assert_eq!(durable.status(uid).await.expect("it is known").flow.cancel, None);
        ask("cancel", json!({ "uid": uid.to_string() })).await.expect("its name is known");
    });
}
