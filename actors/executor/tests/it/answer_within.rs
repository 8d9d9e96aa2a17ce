//! The promise: a function answers its caller in time with an error of the service, and what it has done is undone
//! behind the answer, under its locks, in the budget and in sight.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::sim;
use asyncsteps_core::sync::mutex::Options;
use asyncsteps_core::{Code, Error, sleep};
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, RequestState, Returns, Service, Steps};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

/// How long a caller waits.
const LIMIT: Duration = Duration::from_millis(200);

/// How long an undo takes.
const UNDO: Duration = Duration::from_secs(1);

#[derive(Clone)]
struct Hotel {
    reserved: Arc<StdMutex<BTreeSet<String>>>,
    rooms: Mutex,
}

#[derive(Debug, Code, thiserror::Error)]
enum HotelError {
    #[error("the hotel is slow")]
    #[code(public)]
    Slow,
    #[error("no card")]
    #[code(public)]
    NoCard,
}

impl Service for Hotel {
    type Errors = HotelError;
}

#[derive(Deserialize, JsonSchema)]
struct Stay {
    guest: String,
    /// Milliseconds that the payment takes.
    pay: i32,
    /// Whether the card is refused.
    refused: bool,
}

impl Hotel {
    fn new() -> Self {
        Self { reserved: Arc::default(), rooms: Mutex::new(Options::default()) }
    }

    fn reserved(&self) -> usize {
        self.reserved.lock().expect("no test panics with it").len()
    }

    fn stay(steps: &Steps<Self, Stay>) -> Returns<String> {
        steps.answer_within(LIMIT, || HotelError::Slow);
        steps.locked(|cx| cx.rooms.clone());
        Self::book(steps)
    }

    /// The same without an answer in time.
    fn wait(steps: &Steps<Self, Stay>) -> Returns<String> {
        Self::book(steps)
    }

    fn book(steps: &Steps<Self, Stay>) -> Returns<String> {
        steps
            .run("reserve", async |cx, ()| {
                cx.reserved.lock().expect("no test panics with it").insert(cx.key().to_owned());
                Ok(())
            })
            .undo(async |cx, _| {
                sleep(UNDO).await;
                cx.reserved.lock().expect("no test panics with it").remove(cx.key());
                Ok(())
            })
            .then("pay", async |cx, ()| {
                sleep(Duration::from_millis(cx.params.pay.try_into()?)).await;
                if cx.params.refused {
                    Err(HotelError::NoCard.into())
                } else {
                    Ok(cx.params.guest.clone())
                }
            })
            .returns()
    }

    fn executor(&self) -> Executor {
        let mut interface = Interface::new("acme.hotel:1.0".parse().expect("a name"));
        interface.allow_anonymous();
        let builder = Executor::builder().request_timeout(Duration::from_secs(5));
        let executor = builder.service(interface, self.clone(), |functions| {
            functions.on("stay", Self::stay).on("wait", Self::wait);
        });
        executor.build().expect("it is complete")
    }
}

fn stay(function: &str, pay: i32, refused: bool) -> TestRequest {
    TestRequest::new(format!("acme.hotel:1.0:{function}"))
        .params(json!({ "guest": "ann", "pay": pay, "refused": refused }))
}

/// Calls in virtual time; returns the answer and how long it took, in whole steps of 10 ms.
async fn call(executor: &Executor, request: TestRequest) -> (Result<String, String>, Duration) {
    let begun = Instant::now();
    let answer = request.call(executor).await.map_err(|error: Error| error.code().to_owned());
    let steps = u32::try_from(begun.elapsed().as_millis() / 10).expect("some seconds");
    (answer, Duration::from_millis(10) * steps)
}

#[actix::test]
async fn the_caller_gets_the_error_of_the_service_in_time_and_the_undo_goes_on_behind_it() {
    tokio::time::pause();
    let hotel = Hotel::new();
    let executor = hotel.executor();
    let (answer, took) = call(&executor, stay("stay", 10_000, false)).await;
    assert_eq!((answer, took), (Err("Slow".to_owned()), LIMIT));
    // the undo runs: in sight, in the budget, under the lock of the function
    assert_eq!((hotel.reserved(), executor.usage().running), (1, 1));
    let in_flight = executor.in_flight().await;
    let states: Vec<_> = in_flight.iter().map(|request| request.state).collect();
    assert_eq!(states, [RequestState::Undoing]);
    let (next, took) = call(&executor, stay("stay", 0, false)).await;
    assert_eq!((next, took), (Err("Slow".to_owned()), LIMIT), "the lock is held");
    // a graceful close waits for it
    let closed = executor.close(Duration::from_secs(10)).await;
    assert_eq!((closed.not_undone, hotel.reserved(), executor.usage().running), (0, 0, 0));
}

#[actix::test]
async fn a_result_in_time_is_the_answer_and_a_limit_during_an_undo_does_not_cut_it() {
    tokio::time::pause();
    let hotel = Hotel::new();
    let executor = hotel.executor();
    let (answer, took) = call(&executor, stay("stay", 150, false)).await;
    assert_eq!((answer, took), (Ok("ann".to_owned()), Duration::from_millis(150)));
    assert_eq!(hotel.reserved(), 1, "it is booked");
    // the card is refused, and the limit passes while the reservation is undone
    let (answer, took) = call(&executor, stay("stay", 100, true)).await;
    assert_eq!((answer, took), (Err("Slow".to_owned()), LIMIT));
    assert_eq!(hotel.reserved(), 2);
    tokio::time::sleep(UNDO).await;
    assert_eq!(hotel.reserved(), 1, "the second one is undone");
}

#[test]
fn an_answer_of_substeps_is_a_mistake() {
    /// Sub-steps have no caller.
    fn nested(steps: &Steps<Hotel, Stay>) -> Returns<String> {
        steps
            .nested("inside", |steps| {
                steps.answer_within(LIMIT, || HotelError::Slow);
                Hotel::book(steps)
            })
            .returns()
    }
    let interface = Interface::new("acme.hotel:1.0".parse().expect("a name"));
    let executor = Executor::builder().service(interface, Hotel::new(), |functions| {
        functions.on("nested", nested);
    });
    let error = executor.build().expect_err("a mistake").to_string();
    assert!(error.contains("tests/it/answer_within.rs:"), "{error}");
    assert!(error.contains("`answer_within` is said for the function as a whole"), "{error}");
}

#[actix::test]
async fn a_flow_of_a_test_ends_when_its_caller_is_answered() {
    tokio::time::pause();
    for (function, code, end) in
        [("stay", "Slow", LIMIT), ("wait", "InternalError", Duration::from_secs(5))]
    {
        let (hotel, request) = (Hotel::new(), stay(function, 10_000, false));
        let (answer, took) = call(&hotel.executor(), request.clone()).await;
        assert_eq!((answer, took), (Err(code.to_owned()), end), "call of {function}");
        sim::check(0..10, |sim| {
            let hotel = Hotel::new();
            let started = sim.start(request.clone().flow(&hotel.executor()));
            sim.run_for(end + Duration::from_millis(10));
            started.assert_error(code);
            assert_eq!(hotel.reserved(), 1, "flow of {function} ends before the undo");
            sim.run();
            assert_eq!(hotel.reserved(), 0, "which goes on");
        });
    }
}
