//! Bodies that do not end: the log, the status and the executor's figures say which, and an operator pauses their requests.

use std::time::Duration;

use asyncsteps_core::Error;
use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::{Durable, Node, Options};
use asyncsteps_executor::{Executor, Returns, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::request::FlowState;
use serde_json::{Value, json};

use crate::jobs::{ANN, OPERATOR, ask};
use crate::lab::{Lab, Nothing};
use crate::log::logged;
use crate::node::run;

const MINUTE: Duration = Duration::from_secs(60);

/// It is charged, and its second body hangs when it runs first.
fn order(steps: &Steps<Lab, Nothing>) -> Returns<()> {
    steps
        .run("charge", async |cx, ()| {
            cx.count("charge");
            Ok(())
        })
        .recorded()
        .undo(async |cx, _| {
            cx.count("undo");
            Ok(())
        })
        .then("ship", async |cx, ()| {
            cx.count("ship");
            if cx.counted("ship") == 1 {
                std::future::pending::<()>().await;
            }
            Ok(())
        })
        .recorded()
        .returns()
}

fn lab() -> Lab {
    Lab::new(|durable, functions| _ = durable.on(functions, "order", order))
}

/// A node whose operators may pause and resume.
async fn start(lab: &Lab, journal: Memory) -> (Durable, Node, Executor, Executor) {
    let (durable, executor) = lab.process(journal);
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    let jobs = Jobs::new(durable.clone()).allow([JobsFunction::Pause, JobsFunction::Resume]);
    let jobs = jobs.host(Executor::builder()).build().expect("it is complete");
    (durable, node, executor, jobs)
}

#[test]
fn a_body_that_hangs_is_in_the_log_and_the_status_of_each_process_says_which() {
    let text = logged(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "order", Options::default()).await;
        let (_durable, _node, executor, here) = start(&lab, journal.clone()).await;
        let (_, other) = lab.process(journal.clone());
        let there = Jobs::new(Durable::new(journal)).host(Executor::builder()).build();
        let there = there.expect("it is complete");
        let running = async |executor: &Executor| -> Value {
            let status = ask(executor, OPERATOR, "status", json!({ "uid": uid.to_string() })).await;
            status.expect("it is known")["running"].clone()
        };
        tokio::time::sleep(MINUTE / 4).await;
        let path = "test.lab:1:order/ship";
        let found = running(&here).await;
        assert_eq!((&found[0]["path"], &found[0]["attempt"]), (&json!(path), &json!(1)));
        assert!(found[0]["running"].as_f64().is_some_and(|it| it > 10_000.0), "{found}");
        assert_eq!(running(&there).await, json!([]), "nothing of it is stored");
        let oldest = executor.host_metrics().await;
        let oldest = oldest.iter().find(|it| it.name == "asyncsteps_durable_oldest_body");
        let [(labels, oldest)] = &oldest.expect("it is shown").samples[..] else { panic!("one") };
        assert_eq!(labels[..], [("function", "test.lab:1:order".to_owned())]);
        assert!(*oldest > (MINUTE / 6).as_secs_f64(), "{oldest:?}");
        assert!(other.host_metrics().await.is_empty());
        tokio::time::sleep(MINUTE * 4).await;
        let found = running(&there).await;
        assert_eq!((&found[0]["path"], &found[0]["attempt"]), (&json!(path), &json!(1)));
    });
    let lines: Vec<_> =
        text.lines().filter(|line| line.contains("a body has not ended for long")).collect();
    // after one minute, two, and four
    assert_eq!(lines.len(), 3, "{text}");
    for said in ["function=test.lab:1:order", "step=test.lab:1:order/ship", "attempt=1", "since="] {
        assert!(lines.iter().all(|line| line.contains(said)), "{said}: {lines:?}");
    }
}

#[test]
fn an_operator_pauses_a_body_that_hangs_and_nothing_is_undone() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "order", Options::default()).await;
        let (durable, _node, _executor, jobs) = start(&lab, journal).await;
        tokio::time::sleep(MINUTE / 60).await;
        let named = json!({ "uid": uid.to_string() });
        ask(&jobs, ANN, "pause", named.clone()).await.expect_err("ann is no operator");
        for _ in 0..2 {
            ask(&jobs, OPERATOR, "pause", named.clone()).await.expect("it is paused");
            tokio::time::sleep(MINUTE / 10).await;
            let flow = durable.status(uid).await.expect("it is known").flow;
            assert_eq!(flow.state, FlowState::Paused, "{flow:?}");
            let reason = flow.reason.unwrap_or_default();
            assert!(reason.starts_with("it was paused by "), "{reason}");
        }
        assert!(durable.running(uid).await.expect("it is known").is_empty());
        ask(&jobs, OPERATOR, "resume", named.clone()).await.expect("it goes on");
        durable.result::<()>(uid).await.expect("it ends");
        let counted = ["charge", "ship", "undo"].map(|what| lab.counted(what));
        assert_eq!(counted, [1, 2, 0]);
        let error: Error = ask(&jobs, OPERATOR, "pause", named).await.expect_err("it has ended");
        assert_eq!(error.code(), "HasEnded");
    });
}

#[test]
fn a_request_that_no_node_runs_is_paused_before_it_goes_on() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "order", Options::default()).await;
        let (stopped, _executor) = lab.process(journal.clone());
        stopped.pause(uid, "ann").await.expect("the journal takes it");
        let (durable, _node, _executor, _jobs) = start(&lab, journal).await;
        tokio::time::sleep(MINUTE / 10).await;
        let flow = durable.status(uid).await.expect("it is known").flow;
        assert_eq!((flow.state, lab.counted("charge")), (FlowState::Paused, 0));
    });
}
