//! The promise: closing loses no answer (FTN6 §2.2 `close`). What is in flight may finish within
//! the grace, new requests are refused, what is left is cancelled and answered.

use std::future::poll_fn;
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use asyncsteps_console::Console;
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{Closed, Executor, Incoming};
use asyncsteps_observe::Locks;
use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{Connection, message, post};
use asyncsteps_support::conform;
use asyncsteps_support::h2::Http2;
use asyncsteps_support::jobs::Jobs;
use asyncsteps_support::server::TestServer;
use asyncsteps_support::shop::{Data, Shop};
use asyncsteps_support::stream::Stream;
use asyncsteps_support::ws::{Frame, Socket};
use asyncsteps_transport::http::{Server, ServerLimits};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const GRACE: Duration = Duration::from_secs(3);

fn jobs() -> (Jobs, Executor) {
    let (jobs, builder) = Jobs::add(Executor::builder().request_timeout(GRACE * 10));
    (jobs, builder.build().expect("a right configuration"))
}

/// A request for the job `n`, on its way; its task gives the answer.
fn request(executor: &Executor, n: i64) -> JoinHandle<Value> {
    let executor = executor.clone();
    let message = message("test.jobs:1.0:wait", &json!({ "n": n }));
    actix_rt::spawn(async move {
        let request = Request::parse(&message).expect("a request");
        let channel = Channel::local();
        let reply = executor.dispatch(Incoming::new(request, channel)).await.into_bytes();
        serde_json::from_slice(&reply.expect("an answer")).expect("JSON")
    })
}

fn close(executor: &Executor) -> JoinHandle<Closed> {
    let executor = executor.clone();
    actix_rt::spawn(async move { executor.close(GRACE).await })
}

fn counts(closed: Closed) -> (usize, usize) {
    (closed.finished, closed.cancelled)
}

fn is_refused(answer: &Value) -> bool {
    *answer == json!({ "e": "DefenseRejected", "edesc": "Executor is closing" })
}

#[actix::test]
async fn an_idle_executor_closes_at_once() {
    tokio::time::pause();
    let (_jobs, executor) = jobs();
    let begin = Instant::now();
    assert_eq!(counts(executor.close(GRACE).await), (0, 0));
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert!(is_refused(&request(&executor, 1).await.unwrap()));
}

#[actix::test]
async fn requests_in_flight_finish_within_the_grace() {
    tokio::time::pause();
    let (mut jobs, executor) = jobs();
    let answers = [request(&executor, 1), request(&executor, 2)];
    let running = [jobs.started().await, jobs.started().await];
    let closing = close(&executor);
    // virtual time passes, but not all of the grace
    tokio::time::sleep(GRACE / 2).await;
    assert!(is_refused(&request(&executor, 3).await.unwrap()));
    for job in running {
        assert!(job.is_waiting());
        job.finish();
    }
    for (n, answer) in (1..).zip(answers) {
        assert_eq!(answer.await.unwrap(), json!({ "r": { "n": n } }));
    }
    assert_eq!(counts(closing.await.unwrap()), (2, 0));
    assert!(jobs.is_quiet(), "nothing was cancelled");
}

#[actix::test]
async fn requests_left_after_the_grace_are_cancelled_and_answered() {
    tokio::time::pause();
    let (mut jobs, executor) = jobs();
    let answers = [request(&executor, 1), request(&executor, 2), request(&executor, 3)];
    let [first, second, third] = [jobs.started().await, jobs.started().await, jobs.started().await];
    let begin = Instant::now();
    let closing = close(&executor);
    tokio::time::sleep(GRACE / 2).await;
    first.finish();
    assert_eq!(counts(closing.await.unwrap()), (1, 2));
    assert!(begin.elapsed() >= GRACE);
    let mut cancelled = [jobs.cancelled().await, jobs.cancelled().await];
    cancelled.sort_unstable();
    assert_eq!(cancelled, [2, 3]);
    assert!(!second.is_waiting() && !third.is_waiting());
    let lost = json!({ "e": "InternalError", "edesc": "Executor is closing" });
    let expected = [json!({ "r": { "n": 1 } }), lost.clone(), lost];
    for (answer, expected) in answers.into_iter().zip(expected) {
        assert_eq!(answer.await.unwrap(), expected);
    }
    assert_eq!(executor.in_flight_count(), 0);
}

#[actix::test]
async fn a_client_that_leaves_meanwhile_is_not_waited_for() {
    tokio::time::pause();
    let (mut jobs, executor) = jobs();
    let answer = request(&executor, 1);
    let _job = jobs.started().await;
    let begin = Instant::now();
    let closing = close(&executor);
    tokio::time::sleep(GRACE / 2).await;
    answer.abort();
    assert_eq!(counts(closing.await.unwrap()), (0, 1));
    assert!(begin.elapsed() < GRACE);
    assert_eq!(jobs.cancelled().await, 1);
}

/// Closes the executor of a server from another thread; it refuses new requests already.
fn begin_to_close(host: &TestServer) -> thread::JoinHandle<Closed> {
    let executor = host.executor.clone();
    let (begun, closing) = mpsc::channel();
    let thread = thread::spawn(move || {
        actix_rt::System::new().block_on(async move {
            let mut close = pin!(executor.close(PATIENCE));
            // the first poll refuses new requests
            let polled = poll_fn(|cx| Poll::Ready(close.as_mut().poll(cx))).await;
            begun.send(()).expect("the test waits");
            match polled {
                Poll::Ready(closed) => closed,
                Poll::Pending => close.await,
            }
        })
    });
    closing.recv().expect("it begins");
    thread
}

#[test]
fn clients_on_all_workers_get_their_answers_before_the_server_ends() {
    let (mut jobs, executor) = jobs();
    let host = TestServer::start(2, || executor);
    let mut clients = [(); 4].map(|()| Connection::open(host.address));
    let mut running = Vec::new();
    for (n, client) in (0..).zip(&mut clients) {
        client.send(&post(&message("test.jobs:1.0:wait", &json!({ "n": n }))));
        running.push(jobs.wait_for_start());
    }
    let closing = begin_to_close(&host);
    let late = Connection::open(host.address).call("test.jobs:1.0:wait", &json!({}));
    assert!(is_refused(&late));
    for job in running {
        job.finish();
    }
    for (n, client) in (0..).zip(&mut clients) {
        assert_eq!(client.receive().json(), json!({ "r": { "n": n } }));
    }
    assert_eq!(counts(closing.join().unwrap()), (4, 0));
}

#[actix::test]
async fn the_closing_of_an_executor_can_be_awaited() {
    tokio::time::pause();
    let (mut jobs, executor) = jobs();
    let answer = request(&executor, 1);
    let job = jobs.started().await;
    let mut told = pin!(executor.closing());
    assert!(told.as_mut().now_or_never().is_none() && !executor.is_closing());
    let closing = close(&executor);
    // while requests are in flight
    told.await;
    assert!(executor.is_closing() && job.is_waiting());
    executor.closing().await;
    job.finish();
    answer.await.unwrap();
    assert_eq!(counts(closing.await.unwrap()), (1, 0));
}

#[test]
fn web_sockets_are_closed_with_1001_after_their_answers() {
    let (mut jobs, executor) = jobs();
    let host = TestServer::start(2, || executor);
    let mut idle = Socket::open(host.address);
    let mut busy = Socket::open(host.address);
    for n in 0..3 {
        busy.request("test.jobs:1.0:wait", &json!({ "n": n }), &format!("C{n}"));
    }
    let mut running = [(); 3].map(|()| jobs.wait_for_start()).into_iter();
    let closing = begin_to_close(&host);
    // although another connection is busy
    assert_eq!(idle.frame(), Frame::Close(Some(1001)));
    assert_eq!(idle.frame(), Frame::End);
    // the busy one goes on, and is told that nothing new is taken
    let late = busy.call("test.jobs:1.0:wait", &json!({}));
    assert!(is_refused(&late), "{late}");
    running.next().expect("three").finish();
    assert_eq!(busy.receive(), json!({ "r": { "n": 0 }, "rid": "C0" }));
    running.for_each(asyncsteps_support::jobs::Job::finish);
    let mut last = [busy.receive(), busy.receive()];
    last.sort_unstable_by_key(|answer| answer["r"]["n"].as_i64());
    for (n, answer) in (1..).zip(last) {
        assert_eq!(answer, json!({ "r": { "n": n }, "rid": format!("C{n}") }));
    }
    assert_eq!(busy.frame(), Frame::Close(Some(1001)));
    assert_eq!(counts(closing.join().unwrap()), (3, 0));
    // one that comes too late is told so
    assert_eq!(Socket::open(host.address).frame(), Frame::Close(Some(1001)));
}

#[test]
fn http_connections_are_not_kept_while_it_closes() {
    let (mut jobs, executor) = jobs();
    let host = TestServer::start(1, || executor);
    let mut client = Connection::open(host.address);
    client.send(&post(&message("test.jobs:1.0:wait", &json!({}))));
    let job = jobs.wait_for_start();
    let closing = begin_to_close(&host);
    job.finish();
    let answer = client.receive();
    assert_eq!(
        (answer.json(), answer.header("connection")),
        (json!({ "r": { "n": 0 } }), Some("close"))
    );
    client.expect_closed();
    closing.join().unwrap();
}

#[test]
fn connections_that_were_made_before_are_answered_and_later_ones_refused() {
    let data = Data::new();
    let shop = Shop::start(&data);
    let address = shop.address;
    let ping = post(&message("futoin.anonping:1.0:ping", &json!({ "echo": 7 })));
    let mut clients: Vec<_> = (0..200).map(|_| Connection::open(address)).collect();
    for client in &mut clients {
        client.send(&ping);
    }
    let stopping = thread::spawn(move || shop.stop());
    for client in &mut clients {
        let answer = client.receive().json();
        assert!(answer == json!({ "r": { "echo": 7 } }) || is_refused(&answer), "{answer}");
    }
    stopping.join().expect("no panic");
    assert!(TcpStream::connect(address).is_err());
}

/// A server that waits longer than a test for what it waits for when it closes.
fn patient(
    make: impl FnOnce() -> Executor + Send + 'static,
    set_up: impl FnOnce(Server) -> Server + Send + 'static,
) -> TestServer {
    // no alarm of an earlier limit is left
    let limits = ServerLimits {
        head_timeout: Duration::ZERO,
        stall_timeout: PATIENCE * 10,
        ..ServerLimits::default()
    };
    TestServer::start_server(
        None,
        make,
        |service| service,
        move |server| set_up(server).workers(NonZeroUsize::MIN).limits(limits).grace(PATIENCE * 10),
    )
}

#[test]
fn an_open_console_does_not_hold_the_stop() {
    let (give, given) = mpsc::channel();
    let make = move || {
        let executor = Executor::builder().build().expect("a right configuration");
        give.send(Console::new(&executor, Locks::new())).expect("the server waits");
        executor
    };
    let mut host =
        patient(make, move |server| server.page("/", given.recv().expect("one").service()));
    let mut page = Connection::open(host.address);
    page.send(b"GET /console/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // its first snapshot is there
    while !page.line().expect("it goes on").starts_with("data: ") {}
    host.begin_to_close();
    page.expect_end();
    host.connections.wait_for_the_end_of(1);
}

#[test]
fn clients_that_take_nothing_do_not_hold_the_stop() {
    const LARGE: usize = 900_000;
    let mut host = patient(conform::executor, |server| server);
    let call = message("conform.main:1.2:big", &json!({ "size": LARGE }));
    let mut http1 = Connection::open(host.address);
    let mut http2 = Http2::with_window(Stream::connect(host.address), 0);
    let mut socket = Socket::open(host.address);
    http2.request(1, "conform.main:1.2:big", &json!({ "size": LARGE }));
    for n in 0..40 {
        // more than the system takes for them
        http1.try_send(&post(&call));
        socket.request("conform.main:1.2:big", &json!({ "size": LARGE }), &format!("C{n}"));
    }
    host.wait_for("answers that wait", 0, || host.executor.in_flight_count());
    host.begin_to_close();
    host.connections.wait_for_the_end_of(4);
}
