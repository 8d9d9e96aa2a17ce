//! A caller of a durable function is answered in time: result or limit is decided once, and behind the limit
//! everything is undone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use asyncsteps_core::{Code, Error};
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::record::{Ending, Failure};
use asyncsteps_journal::{Clock, LEASE, Limits, TokioClock, Uid};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::node::run;

/// How long a caller waits.
const LIMIT: Duration = Duration::from_millis(500);

/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(300);

const BOOK: &str = "test.hotel:1.0:book";

#[derive(Clone)]
struct Hotel {
    clock: TokioClock,
    /// Whether a room was reserved, and given back, by key.
    rooms: Arc<Mutex<BTreeMap<String, (bool, bool)>>>,
}

#[derive(Debug, Code, thiserror::Error)]
enum HotelError {
    #[error("the hotel is slow")]
    #[code(public)]
    Slow,
}

impl Service for Hotel {
    type Errors = HotelError;
}

#[derive(Deserialize, JsonSchema)]
struct Stay {
    /// Milliseconds that the payment takes.
    pay: i32,
}

fn book(steps: &Steps<Hotel, Stay>) -> Returns<String> {
    steps
        .answer_within(LIMIT, || HotelError::Slow)
        .run("reserve", async |cx, ()| {
            cx.rooms().entry(cx.key().to_owned()).or_default().0 = true;
            Ok(())
        })
        .recorded()
        .undo(async |cx, _| {
            tokio::time::sleep(LIMIT).await;
            cx.rooms().entry(cx.key().to_owned()).or_default().1 = true;
            Ok(())
        })
        .then("pay", async |cx, ()| {
            tokio::time::sleep(Duration::from_millis(cx.params.pay.try_into()?)).await;
            Ok("booked".to_owned())
        })
        .recorded()
        .returns()
}

/// The payment commits the request.
fn sell(steps: &Steps<Hotel, Stay>) -> Returns<String> {
    steps
        .answer_within(LIMIT, || HotelError::Slow)
        .run("pay", async |cx, ()| {
            tokio::time::sleep(Duration::from_millis(cx.params.pay.try_into()?)).await;
            Ok("sold".to_owned())
        })
        .recorded()
        .commits()
        .returns()
}

/// What it has done cannot be undone.
fn stuck(steps: &Steps<Hotel, Stay>) -> Returns<String> {
    steps
        .run("reserve", async |_, ()| Ok(()))
        .recorded()
        .undo(async |_, _| Err("Away".into()))
        .then("pay", async |_, ()| Err::<String, _>("Refused".into()))
        .recorded()
        .returns()
}

/// It may be what kills its process.
fn kills(steps: &Steps<Hotel, Stay>) -> Returns<String> {
    steps
        .run("reserve", async |cx, ()| {
            tokio::time::sleep(Duration::from_millis(cx.params.pay.try_into()?)).await;
            Ok(String::new())
        })
        .recorded()
        .undo(async |_, _| Ok(()))
        .returns()
}

/// It says nothing of how long its caller waits.
fn patient(steps: &Steps<Hotel, Stay>) -> Returns<String> {
    steps
        .run("pay", async |cx, ()| {
            tokio::time::sleep(Duration::from_millis(cx.params.pay.try_into()?)).await;
            Ok("paid".to_owned())
        })
        .recorded()
        .returns()
}

impl Hotel {
    fn new() -> Self {
        Self { clock: TokioClock::start(), rooms: Arc::default() }
    }

    fn rooms(&self) -> MutexGuard<'_, BTreeMap<String, (bool, bool)>> {
        self.rooms.lock().expect("no test panics while it has it")
    }

    /// How many rooms are reserved and not given back.
    fn kept(&self) -> usize {
        self.rooms().values().filter(|(reserved, given_back)| reserved > given_back).count()
    }

    fn process(&self, journal: Memory) -> (Durable, Executor) {
        let durable = Durable::new(journal);
        let interface = Interface::new("test.hotel:1.0".parse().expect("it is a name"));
        let executor = Executor::builder().service(interface, self.clone(), |functions| {
            durable.on(functions, "book", book);
            durable.on(functions, "sell", sell);
            durable.on(functions, "stuck", stuck);
            durable.on(functions, "kills", kills);
            durable.on(functions, "patient", patient);
        });
        let executor = executor.request_timeout(REQUEST);
        (durable, executor.build().expect("it is complete"))
    }
}

/// Calls as ann; returns the answer, and how long it took.
async fn call(executor: &Executor, pay: i32) -> (Result<String, Error>, Duration) {
    call_of(executor, BOOK, pay).await
}

async fn call_of(
    executor: &Executor,
    function: &str,
    pay: i32,
) -> (Result<String, Error>, Duration) {
    let begun = Instant::now();
    let request = TestRequest::new(function).params(json!({ "pay": pay }));
    let answer = request.user("ann", SecurityLevel::SafeOps).call(executor).await;
    (answer, begun.elapsed())
}

/// A second handle submits the same, and finds the request of the caller by its key.
async fn submit(durable: &Durable, pay: i32, key: &str) -> Uid {
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let options = Options::default().caller(&ann).key(key);
    durable.submit(BOOK, json!({ "pay": pay }), options).await.expect("it is stored")
}

fn slow() -> Ending {
    let text = Some("the hotel is slow".to_owned());
    Ending::Failed(Failure { code: "Slow".to_owned(), text })
}

async fn only(durable: &Durable) -> Uid {
    let all = asyncsteps_journal::request::Query { limit: 10, ..Default::default() };
    let flows = durable.list(all).await.expect("the journal answers");
    let [flow] = &flows[..] else { panic!("one request: {flows:?}") };
    flow.uid
}

#[test]
fn a_caller_is_answered_in_time_and_everything_is_undone_behind_the_answer() {
    run(async {
        let hotel = Hotel::new();
        let (durable, executor) = hotel.process(Memory::new(hotel.clock));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let (answer, took) = call(&executor, 300).await;
        assert_eq!((answer.expect("in time"), hotel.kept()), ("booked".to_owned(), 1));
        assert!(took < LIMIT, "{took:?}");
        durable.trim(Duration::ZERO).await.expect("it is dropped");

        tokio::time::sleep(Duration::from_millis(1)).await;
        durable.trim(Duration::ZERO).await.expect("it is dropped");
        let (answer, took) = call(&executor, 60_000).await;
        let error = answer.expect_err("it is slow");
        assert_eq!((error.code(), error.info()), ("Slow", Some("the hotel is slow")));
        assert!((LIMIT..LIMIT + LIMIT / 2).contains(&took), "{took:?}");
        assert_eq!(hotel.kept(), 2, "it is not undone yet");
        let uid = only(&durable).await;
        // what is decided is the answer to all who ask, before and after the end
        for is_over in [false, true] {
            let result = durable.result::<String>(uid).await.expect_err("it is slow");
            assert_eq!(result.code(), "Slow");
            let ending = durable.status(uid).await.expect("it is known").ending;
            assert_eq!(ending, is_over.then(slow));
            assert_eq!(durable.ended(uid).await.expect("it is known"), slow());
        }
        assert_eq!(hotel.kept(), 1, "the second room is given back");
    });
}

#[test]
fn a_caller_whose_request_takes_longer_than_requests_may_gets_its_name() {
    run(async {
        let hotel = Hotel::new();
        let (durable, executor) = hotel.process(Memory::new(hotel.clock));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let (answer, took) = call_of(&executor, "test.hotel:1.0:patient", 400_000).await;
        let error = answer.expect_err("it has not ended");
        let uid = only(&durable).await;
        assert_eq!(error.code(), "OutcomeUnknown");
        assert_eq!(
            error.info(),
            Some(&*format!("the request {uid} has not ended in time, and goes on"))
        );
        assert!((REQUEST..REQUEST + LIMIT).contains(&took), "{took:?}");
        assert_eq!(durable.result::<String>(uid).await.expect("it ends well"), "paid");
    });
}

#[test]
fn a_caller_whose_process_stood_still_learns_that_the_outcome_is_unknown() {
    run(async {
        let hotel = Hotel::new();
        let (durable, executor) = hotel.process(Memory::new(hotel.clock));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let stands = async {
            tokio::time::sleep(LIMIT).await;
            tokio::time::advance(REQUEST * 3).await;
        };
        let call = call_of(&executor, "test.hotel:1.0:patient", 400_000);
        let ((answer, _), ()) = tokio::join!(call, stands);
        assert_eq!(answer.expect_err("its time has ended").code(), "OutcomeUnknown");
    });
}

#[test]
fn a_caller_whose_request_is_cancelled_meanwhile_gets_its_name() {
    run(async {
        let hotel = Hotel::new();
        let (durable, executor) = hotel.process(Memory::new(hotel.clock));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let cancels = async {
            tokio::time::sleep(LIMIT / 2).await;
            let uid = only(&durable).await;
            durable.cancel(uid, "ann").await.expect("it is known");
            uid
        };
        // it is undone when the limit passes
        let ((answer, _), uid) = tokio::join!(call(&executor, 60_000), cancels);
        let error = answer.expect_err("it is cancelled");
        let info = format!("the request {uid} was cancelled");
        assert_eq!((error.code(), error.info()), ("InternalError", Some(&*info)));
    });
}

#[test]
fn a_limit_decides_also_if_no_node_runs_and_the_next_node_undoes() {
    run(async {
        let hotel = Hotel::new();
        let journal = Memory::new(hotel.clock);
        let (front, executor) = hotel.process(journal.clone());
        let (durable, other) = hotel.process(journal);
        let node = durable.start(&other).await.expect("the journal gives a lease");
        let dies = async {
            tokio::time::sleep(LIMIT * 3 / 4).await;
            drop(node);
        };
        // the request is taken by the node of the other process, which dies
        let ((answer, took), ()) = tokio::join!(call(&executor, 60_000), dies);
        assert_eq!(answer.expect_err("it is slow").code(), "Slow");
        assert!((LIMIT..LIMIT + LIMIT / 2).contains(&took), "{took:?}");
        let uid = only(&front).await;
        let _node = front.start(&executor).await.expect("the journal gives a lease");
        assert_eq!((front.ended(uid).await.expect("it is known"), hotel.kept()), (slow(), 0));
    });
}

#[test]
fn a_caller_whom_the_journal_does_not_tell_in_time_gets_the_name_of_the_request() {
    for stalls in [Operation::Submit, Operation::Cancel] {
        run(async {
            let hotel = Hotel::new();
            let back = hotel.clock.now().after(LIMIT * 4);
            let clock = hotel.clock;
            let journal = Memory::new(clock).faults(move |operation| {
                let is_away = operation == stalls && clock.now() < back;
                if is_away { Fault::NotDone } else { Fault::None }
            });
            let (durable, executor) = hotel.process(journal);
            let _node = durable.start(&executor).await.expect("the journal gives a lease");
            let (answer, took) = call(&executor, 60_000).await;
            let error = answer.expect_err("it is not known");
            if stalls == Operation::Submit {
                // it was refused at once, or is not known
                assert!(took <= LIMIT * 2, "{took:?}");
                return;
            }
            assert_eq!(error.code(), "OutcomeUnknown");
            assert!((LIMIT..LIMIT * 2).contains(&took), "{took:?}");
            let uid = only(&durable).await;
            assert!(error.info().is_some_and(|info| info.contains(&uid.to_string())), "{error}");
            // the journal is back, and the limit decides after all
            assert_eq!((durable.ended(uid).await.expect("it is known"), hotel.kept()), (slow(), 0));
        });
    }
}

#[test]
fn a_limit_does_not_end_a_request_that_is_committed() {
    run(async {
        let hotel = Hotel::new();
        let (durable, executor) = hotel.process(Memory::new(hotel.clock));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let (answer, took) = call_of(&executor, "test.hotel:1.0:sell", 60_000).await;
        assert_eq!(answer.expect_err("it is not known").code(), "OutcomeUnknown");
        assert!((LIMIT..LIMIT * 2).contains(&took), "{took:?}");
        let sold: String = durable.result(only(&durable).await).await.expect("it is sold");
        assert_eq!(sold, "sold");
    });
}

#[test]
fn a_request_that_was_submitted_runs_without_the_limit_of_callers() {
    run(async {
        let hotel = Hotel::new();
        let (durable, executor) = hotel.process(Memory::new(hotel.clock));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let uid = submit(&durable, 60_000, "k").await;
        let booked: String = durable.result(uid).await.expect("no caller waited for it");
        assert_eq!((booked.as_str(), hotel.kept()), ("booked", 1));
    });
}

#[test]
fn a_caller_does_not_wait_for_an_operator() {
    run(async {
        let hotel = Hotel::new();
        let (durable, executor) = hotel.process(Memory::new(hotel.clock));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let (answer, took) = call_of(&executor, "test.hotel:1.0:stuck", 1).await;
        let error = answer.expect_err("it is paused");
        assert!(took < LIMIT, "{took:?}");
        let info =
            format!("the request {} is paused: it waits for an operator", only(&durable).await);
        assert_eq!((error.code(), error.info()), ("InternalError", Some(&*info)));
    });
}

#[test]
fn a_caller_of_a_request_that_becomes_a_dead_letter_is_told() {
    run(async {
        let hotel = Hotel::new();
        let limits = Limits { claims: 0, ..Limits::default() };
        let journal = Memory::new(hotel.clock).limits(limits);
        let (front, executor) = hotel.process(journal.clone());
        let [one, other] = [(); 2].map(|()| hotel.process(journal.clone()));
        let node = one.0.start(&one.1).await.expect("the journal gives a lease");
        let dies = async {
            tokio::time::sleep(LIMIT).await;
            drop(node);
            other.0.start(&other.1).await.expect("the journal gives a lease")
        };
        let call = call_of(&executor, "test.hotel:1.0:kills", 1_000_000);
        let ((answer, took), _node) = tokio::join!(call, dies);
        let error = answer.expect_err("it is a dead letter");
        assert!(took < LEASE * 2, "{took:?}");
        let uid = only(&front).await;
        let info = format!("the request {uid} is a dead letter: it waits for an operator");
        assert_eq!((error.code(), error.info()), ("InternalError", Some(&*info)));
    });
}
