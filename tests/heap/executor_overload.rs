//! The promise: an executor takes no more requests than its budget allows, refuses others at once, and
//! lets no client starve the others.

use std::ops::Range;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use asyncsteps_actors::budget::{Budget, Client, Limits};
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{Executor, Incoming, Reply};
use asyncsteps_support::client::{Connection, message, post};
use asyncsteps_support::jobs::Jobs;
use asyncsteps_support::server::TestServer;
use serde_json::{Value, json};
use tokio::time::Instant;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Requests that meet an executor whose handlers are stuck.
const REQUESTS: usize = 100_000;

/// An executor that takes the client out of the request's id.
fn executor(concurrent: usize, queued: usize) -> (Jobs, Executor, Budget) {
    let budget = Budget::new(Limits { concurrent, queued, ..Limits::default() });
    let builder =
        Executor::builder().request_timeout(TIMEOUT).budget(budget.clone()).client(|request, _| {
            let name = request.rid().and_then(|rid| rid.as_value().as_str());
            Client::from(name.unwrap_or_default())
        });
    let (jobs, builder) = Jobs::add(builder);
    (jobs, builder.build().expect("a right configuration"), budget)
}

type Dispatched = Pin<Box<dyn Future<Output = Reply>>>;

fn request(executor: &Executor, client: &str, n: usize) -> Dispatched {
    let executor = executor.clone();
    let mut message = message("test.jobs:1.0:wait", &json!({ "n": n }));
    message.pop();
    message.extend_from_slice(format!(r#","rid":"{client}"}}"#).as_bytes());
    let request = Request::parse(&message).expect("a request");
    let channel = Channel::local();
    Box::pin(async move { executor.dispatch(Incoming::new(request, channel)).await })
}

/// Polls once: the answer, if there is one at once.
async fn at_once(dispatched: &mut Dispatched) -> Option<Value> {
    let polled = std::future::poll_fn(|cx| Poll::Ready(dispatched.as_mut().poll(cx))).await;
    match polled {
        Poll::Ready(reply) => Some(value(reply)),
        Poll::Pending => None,
    }
}

fn value(reply: Reply) -> Value {
    let bytes = reply.into_bytes().expect("an answer");
    let mut value: Value = serde_json::from_slice(&bytes).expect("JSON");
    if let Some(fields) = value.as_object_mut() {
        fields.remove("rid");
    }
    value
}

fn refused(why: &str) -> Value {
    json!({ "e": "DefenseRejected", "edesc": why })
}

#[test]
fn stuck_handlers_take_no_more_than_the_budget_and_further_requests_are_refused_at_once() {
    let arbiter = actix_rt::System::new();
    let (mut jobs, executor, budget) = executor(100, 50);
    let (mut taken, mut stuck) = (Vec::new(), Vec::new());
    arbiter.block_on(async {
        tokio::time::pause();
        for n in 0..150 {
            let mut dispatched = request(&executor, "flood", n);
            assert_eq!(at_once(&mut dispatched).await, None);
            taken.push(dispatched);
        }
        for _ in 0..100 {
            stuck.push(jobs.started().await);
        }
    });
    let refuse = async |numbers: Range<usize>| {
        let begin = Instant::now();
        for n in numbers {
            let answer = at_once(&mut request(&executor, "flood", n)).await;
            assert_eq!(answer, Some(refused("Too many requests")));
        }
        assert_eq!(begin.elapsed(), Duration::ZERO, "nothing waited for time to pass");
    };
    // the last hundred refused requests are kept to be looked at
    arbiter.block_on(refuse(150..300));
    let flood = asyncsteps_counted_heap::measure(|| arbiter.block_on(refuse(300..REQUESTS)));
    // one request at a time, and its answer
    assert!(flood.bytes_at_once < 64 << 10, "{} bytes at once", flood.bytes_at_once);
    assert!(flood.bytes_kept.unsigned_abs() < 4 << 10, "{} bytes kept", flood.bytes_kept);
    let usage = budget.usage();
    assert_eq!((usage.running, usage.queued, usage.clients), (100, 50, 1));
    assert_eq!((usage.admitted, usage.refused), (100, (REQUESTS - 150) as u64));
    assert_eq!(executor.in_flight_count(), 150);
    assert!(jobs.is_quiet(), "nothing else was started");
    // clients that give up leave nothing behind
    arbiter.block_on(async {
        taken.clear();
        for _ in 0..100 {
            jobs.cancelled().await;
        }
    });
    let usage = budget.usage();
    assert_eq!((usage.running, usage.queued, usage.memory, usage.clients), (0, 0, 0, 0));
    assert_eq!((usage.withdrawn, executor.in_flight_count()), (50, 0));
}

#[actix::test]
async fn a_client_that_floods_delays_only_itself() {
    tokio::time::pause();
    let (mut jobs, executor, budget) = executor(1, 10);
    let mut flood: Vec<_> = (0..11).map(|n| request(&executor, "flood", n)).collect();
    for dispatched in &mut flood {
        assert_eq!(at_once(dispatched).await, None);
    }
    let mut running = jobs.started().await;
    let mut others = [request(&executor, "ann", 100), request(&executor, "bob", 200)];
    for dispatched in &mut others {
        assert_eq!(at_once(dispatched).await, None, "there is a place in the queue");
    }
    let mut answers = Vec::new();
    for dispatched in &mut flood {
        answers.push(at_once(dispatched).await);
    }
    let displaced = Some(refused("Too many requests"));
    assert_eq!(answers[9..], [displaced.clone(), displaced], "its latest had to give way");
    assert!(answers[..9].iter().all(Option::is_none));
    let waiting = flood.drain(..9).chain(others).map(actix_rt::spawn);
    let waiting: Vec<_> = waiting.collect();
    let mut order = Vec::new();
    for _ in 1..waiting.len() {
        order.push(running.n);
        running.finish();
        running = jobs.started().await;
    }
    assert_eq!(order, [0, 1, 100, 200, 2, 3, 4, 5, 6, 7]);
    running.finish();
    for answer in waiting {
        assert!(value(answer.await.expect("no panic")).get("r").is_some());
    }
    assert_eq!((budget.usage().running, budget.usage().clients), (0, 0));
}

#[actix::test]
async fn the_time_in_the_queue_is_time_of_the_request() {
    tokio::time::pause();
    let (mut jobs, executor, budget) = executor(1, 10);
    let begin = Instant::now();
    let first = actix_rt::spawn(request(&executor, "a", 1));
    let _stuck = jobs.started().await;
    tokio::time::sleep(TIMEOUT / 2).await;
    let second = actix_rt::spawn(request(&executor, "a", 2));
    let late = actix_rt::spawn(request(&executor, "b", 3));
    assert_eq!(value(first.await.expect("no panic")), json!({ "e": "InternalError" }));
    assert_eq!(jobs.cancelled().await, 1);
    assert_eq!(begin.elapsed().as_secs(), TIMEOUT.as_secs());
    // the second one runs now, for the half of its time that is left
    let _stuck = jobs.started().await;
    let why = "Too many requests: no place in time";
    let half = TIMEOUT.as_secs() / 2;
    assert_eq!(budget.usage().queued, 1);
    assert_eq!(value(second.await.expect("no panic")), json!({ "e": "InternalError" }));
    assert_eq!(value(late.await.expect("no panic")), refused(why));
    assert!(jobs.cancelled().await == 2 && jobs.is_quiet(), "the last one never began");
    assert_eq!(begin.elapsed().as_secs(), TIMEOUT.as_secs() + half);
    assert_eq!((budget.usage().queued, executor.in_flight_count()), (0, 0));
}

#[actix::test]
async fn closing_serves_waiting_requests_within_the_grace_and_then_refuses_them() {
    tokio::time::pause();
    let (mut jobs, executor, _budget) = executor(1, 10);
    let mut waiting: Vec<_> =
        (1..=3).map(|n| actix_rt::spawn(request(&executor, "a", n))).collect();
    let first = jobs.started().await;
    let closing = actix_rt::spawn({
        let executor = executor.clone();
        async move { executor.close(TIMEOUT / 2).await }
    });
    tokio::time::sleep(TIMEOUT / 4).await;
    first.finish();
    let _stuck = jobs.started().await;
    let closed = closing.await.expect("no panic");
    assert_eq!((closed.finished, closed.cancelled), (1, 2));
    let mut answers = Vec::new();
    for answer in waiting.drain(..) {
        answers.push(value(answer.await.expect("no panic")));
    }
    let lost = json!({ "e": "InternalError", "edesc": "Executor is closing" });
    assert_eq!(answers, [json!({ "r": { "n": 1 } }), lost, refused("Executor is closing")]);
}

#[test]
fn connections_of_one_machine_are_one_client() {
    let budget = Budget::new(Limits { concurrent: 1, queued: 10, ..Limits::default() });
    let (mut jobs, builder) = Jobs::add(Executor::builder().budget(budget));
    let host = TestServer::start(1, || builder.build().expect("a right configuration"));
    let mut clients = [(); 3].map(|()| Connection::open(host.address));
    for client in &mut clients {
        client.send(&post(&message("test.jobs:1.0:wait", &json!({}))));
    }
    host.wait_for_in_flight(3);
    let usage = host.executor.usage();
    assert_eq!((usage.queued, usage.clients), (2, 1));
    for _ in &clients {
        jobs.wait_for_start().finish();
    }
    for client in &mut clients {
        assert_eq!(client.receive().json(), json!({ "r": { "n": 0 } }));
    }
}
