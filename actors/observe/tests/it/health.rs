//! The promise: what restarts a service and what sends requests to it are told whether it works and
//! whether it should get requests, and why not.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use asyncsteps_actors::budget::{Budget, Client, Limits};
use asyncsteps_actors::pool::ArbiterPool;
use asyncsteps_executor::Executor;
use asyncsteps_executor::health::NotReady;
use asyncsteps_observe::health::service;
use http::{Method, Request};
use tower::ServiceExt as _;

fn executor(budget: &Budget) -> Executor {
    Executor::builder().budget(budget.clone()).build().expect("a right configuration")
}

/// Status and body.
async fn get(executor: &Executor, method: Method, path: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).body(()).expect("a request");
    let answer = service(executor).oneshot(request).await.expect("an answer");
    (answer.status().as_u16(), answer.into_body())
}

#[actix::test]
async fn a_service_that_works_is_alive_and_ready() {
    let executor = executor(&Budget::new(Limits::default()));
    let _address = executor.address();
    let alive = (200, r#"{"alive":true}"#.to_owned());
    assert_eq!(get(&executor, Method::GET, "/health").await, alive);
    let ready = (200, r#"{"ready":true,"reasons":[]}"#.to_owned());
    assert_eq!(get(&executor, Method::GET, "/ready").await, ready);
    assert_eq!(get(&executor, Method::POST, "/ready").await.0, 405);
    assert_eq!(get(&executor, Method::GET, "/readyz").await.0, 404);
}

#[actix::test]
async fn one_that_is_full_or_closes_is_alive_but_not_ready() {
    let budget = Budget::new(Limits { concurrent: 1, queued: 0, ..Limits::default() });
    let executor = executor(&budget);
    let permit = budget.admit(&Client::from("ann"), 1).await.expect("there is room");
    let full = (503, r#"{"ready":false,"reasons":["overloaded"]}"#.to_owned());
    assert_eq!(get(&executor, Method::GET, "/ready").await, full);
    drop(permit);
    assert!(executor.readiness().await.is_ready);
    executor.close(Duration::ZERO).await;
    let closing = (503, r#"{"ready":false,"reasons":["closing"]}"#.to_owned());
    assert_eq!(get(&executor, Method::GET, "/ready").await, closing);
    assert_eq!(get(&executor, Method::GET, "/health").await.0, 200);
}

#[actix::test]
async fn one_that_is_about_to_close_is_not_ready_and_takes_requests() {
    let executor = executor(&Budget::new(Limits::default()));
    executor.announce_close();
    assert_eq!(executor.readiness().await.reasons, [NotReady::Closing]);
    assert!(!executor.is_closing());
}

#[actix::test]
async fn one_that_is_disconnected_is_not_ready() {
    let executor = executor(&Budget::new(Limits::default()));
    let is_connected = Arc::new(AtomicBool::new(false));
    let to_check = Arc::clone(&is_connected);
    let dependency = executor.depends_on(move || to_check.load(Ordering::Relaxed));
    assert_eq!(executor.readiness().await.reasons, [NotReady::Disconnected]);
    let told = r#"{"faults":["a connection is lost"],"ready":false,"reasons":["disconnected"]}"#;
    assert_eq!(get(&executor, Method::GET, "/ready").await, (503, told.to_owned()));
    is_connected.store(true, Ordering::Relaxed);
    assert!(executor.readiness().await.is_ready);
    is_connected.store(false, Ordering::Relaxed);
    drop(dependency);
    assert!(executor.readiness().await.is_ready, "it depends on it no more");
}

#[actix::test]
async fn one_with_an_arbiter_that_is_stuck_is_neither() {
    let executor = executor(&Budget::new(Limits::default()));
    let pool = ArbiterPool::new(NonZeroUsize::MIN);
    let (has_begun, begun) = tokio::sync::oneshot::channel();
    let (goes_on, go_on) = mpsc::channel::<()>();
    let there = executor.clone();
    let stuck = pool.arbiters().next().map(|arbiter| {
        arbiter.spawn_fn(move || {
            let _address = there.address();
            let _ = has_begun.send(());
            // until the test lets it go on
            let _ = go_on.recv();
        })
    });
    assert_eq!(stuck, Some(true));
    begun.await.expect("it runs");
    tokio::time::pause();
    let stuck = (503, r#"{"alive":false,"reasons":["arbiter_stuck"]}"#.to_owned());
    assert_eq!(get(&executor, Method::GET, "/health").await, stuck);
    assert_eq!(executor.readiness().await.reasons, [NotReady::ArbiterStuck]);
    tokio::time::resume();
    drop(goes_on);
    pool.shutdown(Duration::from_secs(5)).await;
    assert!(executor.is_alive().await, "an arbiter that ended is not waited for");
}
