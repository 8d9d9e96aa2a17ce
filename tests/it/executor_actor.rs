//! The promise: an executor is an actor with an address. Other threads send it calls, and it tells
//! what is in flight and why that waits.

use std::thread;
use std::time::Duration;

use asyncsteps_actors::flow::Cancel;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::{Caller, Dispatch, Executor};
use asyncsteps_support::jobs::Jobs;
use asyncsteps_support::log::Log;
use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

const WAIT: &str = "test.jobs:1.0:wait";

fn jobs() -> (Jobs, Executor) {
    let (jobs, builder) = Jobs::add(Executor::builder());
    (jobs, builder.build().expect("a right configuration"))
}

/// Runs work on a thread that is no arbiter, and gives its result.
async fn elsewhere<R: Send + 'static>(work: impl AsyncFnOnce() -> R + Send + 'static) -> R {
    let (done, result) = oneshot::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        // the test may have failed
        let _ = done.send(runtime.block_on(work()));
    });
    result.await.expect("the thread ends")
}

#[actix::test]
async fn a_call_of_another_thread_runs_on_an_arbiter_of_the_executor() {
    let (mut jobs, executor) = jobs();
    assert!(executor.address().is_some_and(|actor| actor.connected()));
    let called = executor.clone();
    let call =
        elsewhere(async move || called.call_as_system::<Value>(WAIT, json!({ "n": 7 })).await);
    let (result, ()) = tokio::join!(call, async { jobs.started().await.finish() });
    assert_eq!(result.expect("it succeeds"), json!({ "n": 7 }));
}

#[actix::test]
async fn a_call_of_another_thread_fails_with_the_error_of_its_function() {
    let (_jobs, executor) = jobs();
    let _actor = executor.address();
    let error = elsewhere(async move || {
        executor.call_as_system::<Value>(WAIT, json!({ "n": "x" })).await.unwrap_err()
    });
    assert_eq!(error.await.code(), "InvalidRequest");
}

#[actix::test]
async fn a_call_of_another_thread_that_is_dropped_is_cancelled() {
    let (mut jobs, executor) = jobs();
    let _actor = executor.address();
    let (give_up, given_up) = oneshot::channel::<()>();
    let call = elsewhere(async move || {
        tokio::select! {
            result = executor.call_as_system::<Value>(WAIT, json!({ "n": 1 })) => Some(result),
            _ = given_up => None,
        }
    });
    let (result, cancelled) = tokio::join!(call, async {
        let job = jobs.started().await;
        give_up.send(()).expect("it waits");
        let cancelled = jobs.cancelled().await;
        assert!(!job.is_waiting());
        cancelled
    });
    assert!(result.is_none());
    assert_eq!(cancelled, 1);
}

#[actix::test]
async fn without_an_actor_on_any_arbiter_a_call_of_another_thread_fails() {
    let (_jobs, executor) = jobs();
    let error = elsewhere(async move || {
        assert!(executor.address().is_none());
        executor.call_as_system::<Value>(WAIT, json!({ "n": 1 })).await.unwrap_err()
    });
    assert_eq!(error.await.code(), "CommError");
}

#[actix::test]
async fn an_executor_has_an_actor_on_the_arbiter_of_its_first_request() {
    let (_jobs, executor) = jobs();
    assert!(executor.arbiter_delays().await.is_empty(), "it served nothing yet");
    for _ in 0..2 {
        // refused before a flow starts: nothing of it waits
        let refused = executor.call_as_system::<Value>(WAIT, json!({ "n": "x" })).await;
        assert_eq!(refused.unwrap_err().code(), "InvalidRequest");
        assert_eq!(executor.arbiter_delays().await.len(), 1);
    }
    let called = executor.clone();
    let error = elsewhere(async move || {
        called.call_as_system::<Value>(WAIT, json!({ "n": "x" })).await.unwrap_err()
    });
    assert_eq!(error.await.code(), "InvalidRequest", "the actor carried it out");
}

#[actix::test]
async fn a_message_is_carried_out_for_its_caller() {
    let (mut jobs, executor) = jobs();
    let actor = executor.address().expect("this is an arbiter");
    let params = Map::from_iter([("n".to_owned(), json!(3))]);
    let request = Request::new(WAIT, params);
    let mut reply = Box::pin(actor.send(Dispatch::new(request, Caller::anonymous())));
    assert!(reply.as_mut().now_or_never().is_none());
    jobs.started().await.finish();
    let message = reply.await.expect("the arbiter runs").expect("it has a result");
    assert_eq!(message.into_bytes(), br#"{"r":{"n":3}}"#);
}

#[actix::test]
async fn requests_in_flight_are_listed_with_their_wait_and_an_address_that_cancels_them() {
    tokio::time::pause();
    let (mut jobs, executor) = jobs();
    assert!(executor.in_flight().await.is_empty());
    let ann = User::new("ann", SecurityLevel::Info);
    let call = actix_rt::spawn(executor.call_for::<Value>(&ann, WAIT, json!({ "n": 1 })));
    let job = jobs.started().await;
    tokio::time::advance(Duration::from_secs(2)).await;
    let [request] = <[_; 1]>::try_from(executor.in_flight().await).expect("one request");
    assert_eq!(request.function.as_str(), WAIT);
    assert_eq!(request.user.as_deref(), Some("ann"));
    assert_eq!(request.age, Duration::from_secs(2));
    let text = request.to_string();
    assert!(text.contains("waits for") && text.contains("jobs.rs"), "{text}");
    request.flow.send(Cancel).await.expect("its arbiter runs");
    assert!(call.await.expect("no panic").is_err());
    assert_eq!(jobs.cancelled().await, 1);
    assert!(!job.is_waiting() && executor.in_flight().await.is_empty());
}

#[actix::test]
async fn a_request_that_is_cancelled_at_the_end_of_the_grace_is_logged_with_its_stack() {
    tokio::time::pause();
    let log = Log::default();
    let _open = log.open();
    let (mut jobs, executor) = jobs();
    let call = actix_rt::spawn(executor.call_as_system::<Value>(WAIT, json!({ "n": 1 })));
    let _job = jobs.started().await;
    assert_eq!(executor.close(Duration::from_secs(1)).await.cancelled, 1);
    assert!(call.await.expect("no panic").is_err());
    let text = log.take();
    let parts = ["WARN", "end of the grace", WAIT, "-internal", "waits for", "jobs.rs"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}
