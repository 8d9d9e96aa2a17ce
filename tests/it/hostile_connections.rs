//! The promise: a connection costs little and ends, whatever its client sends, does not send, or does
//! not read.

use std::net::Ipv4Addr;
use std::time::Duration;

use asyncsteps_executor::Executor;
use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{Connection, head, message, post};
use asyncsteps_support::conform;
use asyncsteps_support::jobs::{Job, Jobs};
use asyncsteps_support::server::{TestServer, resident_bytes};
use asyncsteps_support::stream::Stream;
use asyncsteps_transport::http::ServerLimits;
use serde_json::json;
use tokio::time::Instant;

/// How many hostile connections there are.
const CONNECTIONS: usize = 60;

/// How many there are of those that cost almost nothing. Each has two file descriptors.
const MANY: usize = 400;

/// The most memory that one without a request may take, in bytes: without hyper's two buffers of 8 KiB,
/// but with the one of its client, which is in this process too.
const IDLE: usize = 22_000;

/// A request to no service.
const NOTHING: &[u8] = b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n";

/// What each of them sends ahead of its answers, in bytes: less than the system takes from a server
/// that does not read.
const AHEAD: usize = 120_000;

/// The most memory that each may take, in bytes. The goal is 2,000 in 300 MB.
const MEMORY: usize = 150_000;

/// Times that are too short for an attack, and long enough to send a request.
const SHORT: Duration = Duration::from_secs(1);

const ONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

fn short() -> ServerLimits {
    ServerLimits { head_timeout: SHORT, stall_timeout: SHORT, ..ServerLimits::default() }
}

fn conform_with(limits: ServerLimits) -> TestServer {
    TestServer::start_with(1, limits, None, conform::executor, |service| service)
}

fn jobs() -> (Jobs, Executor) {
    let (jobs, builder) = Jobs::add(Executor::builder().request_timeout(Duration::from_secs(600)));
    (jobs, builder.build().expect("a right configuration"))
}

/// Sends requests behind one that is not answered, on many connections.
#[track_caller]
fn check_pipelining(first: &[u8]) {
    let (mut jobs, executor) = jobs();
    let host = TestServer::start(1, || executor);
    let all = [first, &NOTHING.repeat(AHEAD / NOTHING.len())].concat();
    let before = resident_bytes();
    let mut clients = Vec::new();
    let mut running: Vec<Job> = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = Connection::open(host.address);
        client.send(&all);
        running.push(jobs.wait_for_start());
        clients.push(client);
    }
    // a round trip, after which the server has seen all
    let mut other = Connection::open(host.address);
    assert_eq!(other.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").receive().status(), 404);
    let each = resident_bytes().saturating_sub(before) / CONNECTIONS;
    assert!(each < MEMORY, "{each} bytes for each connection");
    // all of them would be answered
    clients.truncate(2);
    running.drain(..2).for_each(Job::finish);
    for client in &mut clients {
        assert_eq!(client.receive().json(), json!({ "r": { "n": 0 } }));
        for _ in 0..AHEAD / NOTHING.len() {
            assert_eq!(client.receive().status(), 404);
        }
    }
}

#[test]
fn requests_behind_one_that_is_not_answered_cost_little() {
    check_pipelining(&post(&message("test.jobs:1.0:wait", &json!({}))));
}

#[test]
fn nor_do_those_behind_a_chunked_one() {
    let message = message("test.jobs:1.0:wait", &json!({}));
    let chunk = format!("{:x}\r\n", message.len());
    let head = head("Transfer-Encoding: chunked");
    check_pipelining(&[&head, chunk.as_bytes(), &message, b"\r\n0\r\n\r\n"].concat());
}

#[test]
fn a_request_that_stops_in_its_head_ends_its_connection() {
    let host = conform_with(short());
    let stops = || {
        let mut client = Connection::open(host.address);
        assert_eq!(client.send(NOTHING).receive().status(), 404);
        client.send(b"P");
        client
    };
    let _clients: Vec<_> = (0..MANY).map(|_| stops()).collect();
    host.connections.wait_for_the_end_of(MANY);
}

#[test]
fn a_connection_that_is_answered_and_silent_ends() {
    // no alarm of an earlier limit is left
    let host = conform_with(ServerLimits {
        head_timeout: Duration::ZERO,
        keep_alive: SHORT,
        ..ServerLimits::default()
    });
    let answered = |request: &[u8]| {
        let mut client = Connection::open(host.address);
        assert!(client.send(request).receive().status() < 500);
        client
    };
    // a body, one that comes later, chunks, and none of them
    let post = post(&message("conform.main:1.2:answer", &json!({})));
    let raw = b"GET /ftn/conform.main/1.2/download?n=9 HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut clients: Vec<_> = [&post[..], raw, NOTHING].into_iter().map(answered).collect();
    let (start, end) = post.split_at(post.len() - 1);
    let mut late = Connection::open(host.address);
    assert_eq!(late.send(start).send(end).receive().status(), 200);
    clients.push(late);
    host.connections.wait_for_the_end_of(clients.len());
}

#[test]
fn idle_connections_cost_little_and_can_go_on() {
    let host = conform_with(ServerLimits { keep_alive: PATIENCE, ..ServerLimits::default() });
    let open = || {
        let mut client = Connection::open(host.address);
        assert_eq!(client.send(NOTHING).receive().status(), 404);
        client
    };
    // what the first use of everything takes does not count
    let _first: Vec<_> = (0..CONNECTIONS).map(|_| open()).collect();
    let before = resident_bytes();
    let mut idle: Vec<_> = (0..MANY).map(|_| open()).collect();
    let each = resident_bytes().saturating_sub(before) / MANY;
    assert!(each < IDLE, "{each} bytes for each connection");
    for client in &mut idle {
        // in two packets
        client.send(&NOTHING[..9]).send(&NOTHING[9..]);
        assert_eq!(client.receive().status(), 404);
    }
}

#[test]
fn empty_lines_are_no_requests() {
    let host = conform_with(short());
    let mut client = Connection::open(host.address);
    assert_eq!(client.send(NOTHING).receive().status(), 404);
    client.send(b"\r\n\r\n");
    host.connections.wait_for_the_end_of(1);
}

#[test]
fn a_body_that_does_not_end_ends_its_connection_wherever_it_goes() {
    let host = conform_with(short());
    for framing in ["Transfer-Encoding: chunked", "Content-Length: 100"] {
        let mut client = Connection::open(host.address);
        let request = format!("POST /nothing HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n1\r\na\r\n");
        client.send(request.as_bytes());
        assert_eq!(client.receive().status(), 404);
    }
    host.connections.wait_for_the_end_of(2);
}

#[test]
fn a_client_that_reads_nothing_loses_its_connection() {
    let host = conform_with(short());
    let call = post(&message("conform.main:1.2:big", &json!({ "size": 400_000 })));
    let mut clients: Vec<_> = (0..8).map(|_| Connection::open(host.address)).collect();
    for client in &mut clients {
        // more than the system takes for it
        for _ in 0..40 {
            if !client.try_send(&call) {
                break;
            }
        }
    }
    host.connections.wait_for_the_end_of(8);
}

#[test]
fn answers_are_sent_at_once() {
    let host = TestServer::start(1, conform::executor);
    let mut client = Connection::open(host.address);
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").receive();
    assert!(host.connections.are_nodelay());
}

#[test]
fn one_client_does_not_keep_others_out() {
    let limits =
        ServerLimits { connections: 8, connections_of_client: 4, ..ServerLimits::default() };
    let host = conform_with(limits);
    let connect = |from| Connection::over(Stream::connect_from(from, host.address));
    let served = |client: &mut Connection| {
        client.try_send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") && client.try_receive().is_some()
    };
    let mut taken: Vec<_> = (0..4).map(|_| connect(ONE)).collect();
    assert!(taken.iter_mut().all(served));
    assert!(!served(&mut connect(ONE)), "its fifth");
    assert!(served(&mut connect(OTHER)));
    // one that ends makes room
    taken.pop();
    let begun = Instant::now();
    while !served(&mut connect(ONE)) {
        assert!(begun.elapsed() < PATIENCE, "the server has not seen the end");
    }
}

/// What may follow a request in the same packet, and is no request.
const GARBAGE: [&[u8]; 5] = [
    b"\0\x01\x02\x03",
    b"GET\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nBad Header\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
];

#[test]
fn garbage_behind_a_request_does_not_lose_its_answer() {
    let (mut jobs, executor) = jobs();
    let host = TestServer::start(1, || executor);
    let chunked = {
        let body = message("test.jobs:1.0:wait", &json!({}));
        let head = "POST /ftn/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let size = format!("{:x}\r\n", body.len());
        [head.as_bytes(), size.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat()
    };
    for request in [post(&message("test.jobs:1.0:wait", &json!({}))), chunked] {
        for garbage in GARBAGE {
            let mut client = Connection::open(host.address);
            client.send(&[&request, garbage].concat());
            jobs.wait_for_start().finish();
            assert_eq!(client.receive().json(), json!({ "r": { "n": 0 } }), "{garbage:?}");
        }
    }
}
