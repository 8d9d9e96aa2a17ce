//! The promise: an undo is part of its request. It keeps the request's share of the budget, a close
//! waits for it, and it is listed, although the reply may leave before.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::{Error, Template};
use asyncsteps_executor::{Executor, RequestState};
use asyncsteps_support::definition;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const CHARGE: &str = "test.bank:1.0:charge";

/// How long an undo takes.
const UNDO: Duration = Duration::from_secs(2);

const DEFINITION: &str = r#"{
    "iface": "test.bank",
    "version": "1.0",
    "ftn3rev": "1.9",
    "funcs": { "charge": { "result": "boolean" } },
    "requires": [ "AllowAnonymous" ]
}"#;

/// Charges, then waits for ever while it records.
fn executor() -> (Executor, Arc<Notify>) {
    let charged = Arc::new(Notify::new());
    let tells = Arc::clone(&charged);
    let charge = Template::build(move |asi| {
        let tells = Arc::clone(&tells);
        asi.run(async |()| Ok(())).named("charge").undo(async |_| {
            tokio::time::sleep(UNDO).await;
            Ok(())
        });
        asi.run(async move |()| {
            tells.notify_one();
            pending::<Result<(), _>>().await
        });
    });
    (executor_of(&charge), charged)
}

/// An executor whose function has this template.
fn executor_of(charge: &Template) -> Executor {
    let builder = Executor::builder().max_requests(1).interface(
        definition("test.bank:1.0", DEFINITION),
        |functions| {
            functions.add("charge", charge);
        },
    );
    builder.build().expect("a right configuration")
}

fn call(executor: &Executor) -> JoinHandle<Result<Value, Error>> {
    actix_rt::spawn(executor.call_as_system::<Value>(CHARGE, json!({})))
}

/// A request that its caller has left after it charged.
async fn undone() -> Executor {
    tokio::time::pause();
    let (executor, charged) = executor();
    let call = call(&executor);
    charged.notified().await;
    call.abort();
    tokio::time::sleep(UNDO / 4).await;
    executor
}

#[actix::test]
async fn an_undo_keeps_the_share_of_its_request_in_the_budget() {
    let executor = undone().await;
    assert_eq!(executor.usage().running, 1);
    let refused = call(&executor).await.expect("no panic").expect_err("the budget is used up");
    assert_eq!(refused.code(), "DefenseRejected");
    tokio::time::sleep(UNDO * 2).await;
    assert_eq!(executor.usage().running, 0);
}

#[actix::test]
async fn a_request_that_is_undone_is_listed() {
    let executor = undone().await;
    let [request] = <[_; 1]>::try_from(executor.in_flight().await).expect("one request");
    assert_eq!((request.state, request.function.as_str()), (RequestState::Undoing, CHARGE));
    let text = request.to_string();
    assert!(text.contains("undoing: ") && text.contains("charge"), "{text}");
    tokio::time::sleep(UNDO * 2).await;
    assert!(executor.in_flight().await.is_empty());
}

#[actix::test]
async fn a_request_is_listed_and_in_the_budget_until_its_last_branch_is_undone() {
    tokio::time::pause();
    for undos in [[1, 2], [2, 1]] {
        let charge = Template::build(move |asi| {
            asi.parallel(move |branches| {
                for undo in undos {
                    branches.add(move |asi, ()| {
                        asi.run(async |()| Ok(())).undo(async move |_| {
                            tokio::time::sleep(UNDO * undo).await;
                            Ok(())
                        });
                        asi.run(async |()| pending::<Result<(), _>>().await);
                    });
                }
            });
        });
        let executor = executor_of(&charge);
        let call = call(&executor);
        tokio::time::sleep(UNDO / 4).await;
        call.abort();
        for (undoing, pause) in [(1, UNDO / 2), (1, UNDO), (0, UNDO)] {
            tokio::time::sleep(pause).await;
            let listed = executor.in_flight().await.len();
            assert_eq!((listed, executor.usage().running), (undoing, undoing), "{undos:?}");
        }
    }
}

#[actix::test]
async fn a_close_waits_for_undos_within_its_grace() {
    let executor = undone().await;
    let begin = Instant::now();
    let closed = executor.close(UNDO * 10).await;
    assert_eq!(begin.elapsed(), UNDO - UNDO / 4);
    assert_eq!((closed.finished, closed.cancelled), (0, 1));
}

#[actix::test]
async fn a_shielded_body_is_part_of_its_request_until_it_ends() {
    tokio::time::pause();
    let charge = Template::build(|asi| {
        let body = async |()| {
            tokio::time::sleep(UNDO).await;
            Ok(())
        };
        asi.run(body).named("charge").shielded();
    });
    let executor = executor_of(&charge);
    let call = call(&executor);
    for abort in [true, false] {
        tokio::time::sleep(UNDO / 4).await;
        let [request] = <[_; 1]>::try_from(executor.in_flight().await).expect("one request");
        assert_eq!((request.state, executor.usage().running), (RequestState::Running, 1));
        assert!(request.to_string().contains("charge"), "{request}");
        if abort {
            call.abort();
        }
    }
    let begin = Instant::now();
    let closed = executor.close(UNDO * 10).await;
    // a timer may take a millisecond more
    let waited = begin.elapsed().as_millis().next_multiple_of(10);
    assert_eq!((waited, closed.cancelled), ((UNDO / 2).as_millis(), 1));
    assert_eq!((executor.in_flight().await.len(), executor.usage().running), (0, 0));
}

#[actix::test]
async fn the_reply_to_a_request_that_is_cancelled_leaves_before_the_undo() {
    tokio::time::pause();
    let (executor, charged) = executor();
    let call = call(&executor);
    let begin = Instant::now();
    charged.notified().await;
    tokio::task::yield_now().await;
    let [request] = <[_; 1]>::try_from(executor.in_flight().await).expect("one request");
    assert_eq!(request.state, RequestState::Running);
    request.flow.send(asyncsteps_actors::flow::Cancel).await.expect("its arbiter runs");
    assert!(call.await.expect("no panic").is_err());
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!(executor.usage().running, 1);
    tokio::time::sleep(UNDO * 2).await;
    assert_eq!(executor.usage().running, 0);
}
