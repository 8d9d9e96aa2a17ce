//! The promise: a client makes another attempt only where that is safe or was said to be.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_core::codes;
use asyncsteps_executor::Executor;
use asyncsteps_fabric::{
    Call, CallError, CallPolicy, Capabilities, Client, Endpoint, Fabric, NodeInfo, Pending,
    Response, ServeGuard,
};
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::time::{pause, sleep};

/// How long an attempt takes, and how it ends.
type Attempt = (u64, Result<&'static str, CallError>);

/// Answers each attempt as it was told, and writes down when they begin and end.
struct Scripted {
    attempts: Mutex<VecDeque<Attempt>>,
    made: AtomicUsize,
    log: Mutex<String>,
}

/// Notes that an attempt is over, or dropped.
struct Given<'a>(&'a Scripted, usize);

impl Scripted {
    fn note(&self, what: &str, attempt: usize) {
        let mut log = self.log.lock().expect("no panic");
        *log += &format!("{what} {attempt}, ");
    }
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        self.0.note("end", self.1);
    }
}

impl Fabric for Scripted {
    fn call(&self, _: Call) -> Pending<'_, Result<Response, CallError>> {
        let attempt = self.attempts.lock().expect("no panic").pop_front();
        let (millis, result) = attempt.expect("an attempt too many");
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        self.note("begin", number);
        Box::pin(async move {
            let _given = Given(self, number);
            sleep(Duration::from_millis(millis)).await;
            result.map(|result| Response::new(json!(result)))
        })
    }

    fn serve(&self, _: Vec<Endpoint>, _: Executor) -> Pending<'_, Result<ServeGuard, CallError>> {
        unreachable!("clients do not serve")
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeInfo>, CallError>> {
        unreachable!("clients do not ask")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::in_process()
    }
}

/// What a call comes to by a policy.
async fn check<const N: usize>(policy: CallPolicy, attempts: [Attempt; N]) -> String {
    let call = Call::new("a.b:1.0:f", ()).expect("it is a call");
    check_call(call, policy, attempts).await
}

async fn check_call<const N: usize>(
    call: Call,
    policy: CallPolicy,
    attempts: [Attempt; N],
) -> String {
    let script = Arc::new(Scripted {
        attempts: Mutex::new(attempts.into()),
        made: AtomicUsize::new(0),
        log: Mutex::default(),
    });
    let client = Client::new(script.clone()).policy("a.b:1.0:f", policy);
    let result = match client.call(call).await {
        Ok(response) => response.into_value().to_string(),
        Err(error) => error.to_string(),
    };
    let log = script.log.lock().expect("no panic").clone();
    log + &result
}

fn connect() -> CallError {
    CallError::connect("none")
}

fn lost() -> CallError {
    CallError::lost("lost")
}

#[actix::test]
async fn what_was_not_carried_out_is_tried_again() {
    pause();
    let again = check(CallPolicy::new(), [(1, Err(connect())), (1, Ok("two"))]).await;
    assert_eq!(again, "begin 1, end 1, begin 2, end 2, \"two\"");
    let again = check(CallPolicy::new(), [(1, Err(connect())), (1, Err(connect()))]).await;
    assert_eq!(again, "begin 1, end 1, begin 2, end 2, ConnectError: none");
    let large = CallError::not_made(codes::INVALID_REQUEST, "too large");
    let once = check(CallPolicy::new(), [(1, Err(large))]).await;
    assert_eq!(once, "begin 1, end 1, InvalidRequest: too large");
}

#[actix::test]
async fn what_may_have_been_carried_out_is_tried_again_if_it_is_idempotent() {
    pause();
    let once = check(CallPolicy::new().attempts(3), [(1, Err(lost()))]).await;
    assert_eq!(once, "begin 1, end 1, CommError: lost");
    let idempotent = CallPolicy::new().idempotent().attempts(3);
    let again = [(1, Err(lost())), (1, Err(connect())), (1, Ok("three"))];
    let again = check(idempotent, again).await;
    assert_eq!(again, "begin 1, end 1, begin 2, end 2, begin 3, end 3, \"three\"");
    let attempts = [(1, Err(lost())), (1, Err(connect())), (1, Err(connect()))];
    let unknown = check(idempotent, attempts).await;
    assert_eq!(unknown, "begin 1, end 1, begin 2, end 2, begin 3, end 3, CommError: lost");
    let refused = CallError::answered(codes::DEFENSE_REJECTED, None);
    let once = check(idempotent, [(1, Err(refused))]).await;
    assert_eq!(once, "begin 1, end 1, DefenseRejected");
}

#[actix::test]
async fn all_attempts_share_the_time_of_the_call() {
    pause();
    let call = Call::new("a.b:1.0:f", ()).expect("it is a call").within(Duration::from_millis(100));
    let attempts = [(60, Err(lost())), (60, Err(lost()))];
    let late = check_call(call, CallPolicy::new().idempotent().attempts(3), attempts).await;
    assert_eq!(late, "begin 1, end 1, begin 2, end 2, CommError: lost");
}

#[actix::test]
async fn a_hedge_counts_the_first_answer() {
    pause();
    let hedged = CallPolicy::new().attempts(1).hedge_after(Duration::from_millis(10));
    let alone = check(hedged, [(5, Ok("one"))]).await;
    assert_eq!(alone, "begin 1, end 1, \"one\"");
    let second = check(hedged, [(50, Ok("one")), (5, Ok("two"))]).await;
    assert_eq!(second, "begin 1, begin 2, end 2, end 1, \"two\"");
    let first = check(hedged, [(20, Ok("one")), (50, Ok("two"))]).await;
    assert_eq!(first, "begin 1, begin 2, end 1, end 2, \"one\"");
    let other = check(hedged, [(20, Err(lost())), (50, Ok("two"))]).await;
    assert_eq!(other, "begin 1, begin 2, end 1, end 2, \"two\"");
    let neither = check(hedged, [(20, Err(lost())), (50, Err(connect()))]).await;
    assert_eq!(neither, "begin 1, begin 2, end 1, end 2, CommError: lost", "one may have worked");
}
