//! The promise: bytes that two ends could take for different requests are refused (RFC 9112), and
//! what is wrong behind a request does not lose its answer.

use std::time::Duration;

use asyncsteps_executor::Executor;
use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{Connection, head, message, post};
use asyncsteps_support::conform;
use asyncsteps_support::jobs::Jobs;
use asyncsteps_support::server::{TestServer, resident_bytes};
use asyncsteps_transport::http::ServerLimits;
use serde_json::json;

/// Times that are too short for an attack, and long enough to send a request.
const SHORT: Duration = Duration::from_secs(1);

/// A request whose answer needs no explanation.
const ANSWER: &str = "GET /ftn/conform.main/1.2/answer";

fn host() -> TestServer {
    TestServer::start(1, conform::executor)
}

/// Sends a head behind a request that is right: the first is answered, the second refused.
#[track_caller]
fn check(host: &TestServer, head: &str) {
    let mut client = Connection::open(host.address);
    client.send(format!("{ANSWER} HTTP/1.1\r\nHost: a\r\n\r\n{head}").as_bytes());
    assert_eq!(client.receive().text(), r#"{"r":42}"#);
    assert_eq!(client.receive().status(), 400, "{head:?}");
    client.expect_closed();
}

#[test]
fn heads_that_can_be_read_in_two_ways_are_refused() {
    let host = host();
    for fields in [
        // lines that go on (§5.2)
        "Host: a\r\nX: a\r\n b\r\n",
        "Host: a\r\nTransfer-Encoding:\r\n chunked\r\n",
        "Host: a\r\n X: a\r\n",
        // a CR alone (§2.2)
        "Host: a\r\nX: a\rb\r\n",
        "Host: a\r\nX: a\rTransfer-Encoding: chunked\r\n",
        "Host: a\rX: a\r\n",
        // a space before the colon (§5.1)
        "Host: a\r\nTransfer-Encoding : chunked\r\n",
        "Host : a\r\n",
        // none and two (§3.2)
        "",
        "Host: a\r\nHost: a\r\n",
        "Host: a\r\nhost: b\r\n",
        // no name, and bytes that are none of a name
        "Host: a\r\n: a\r\n",
        "Host: a\r\nX\0: a\r\n",
        "Host: a\r\nX: a\0b\r\n",
    ] {
        check(&host, &format!("{ANSWER} HTTP/1.1\r\n{fields}\r\n"));
    }
    for line in [
        "GET /ftn/conform.main/1.2/answer\r HTTP/1.1\r\nHost: a\r\n",
        "GET  /ftn/conform.main/1.2/answer HTTP/1.1\r\nHost: a\r\n",
        "GET /ftn/conform.main/1.2/ answer HTTP/1.1\r\nHost: a\r\n",
        "GET\t/ftn/conform.main/1.2/answer HTTP/1.1\r\nHost: a\r\n",
    ] {
        check(&host, &format!("{line}\r\n"));
    }
}

#[test]
fn old_clients_need_not_say_which_host_they_mean() {
    let host = host();
    let mut client = Connection::open(host.address);
    client.send(format!("{ANSWER} HTTP/1.0\r\n\r\n").as_bytes());
    assert_eq!(client.receive().text(), r#"{"r":42}"#);
}

#[test]
fn extensions_of_chunks_are_skipped_and_bounded() {
    let host = host();
    let message = message("conform.main:1.2:answer", &json!({}));
    let size = message.len();
    let chunked = |extension: &str| {
        let chunk = format!("{size:x}{extension}\r\n");
        [&head("Transfer-Encoding: chunked"), chunk.as_bytes(), &message, b"\r\n0\r\n\r\n"].concat()
    };
    for extension in [";a", ";a=b;c=\"d e\"", " ; a"] {
        let answer = Connection::open(host.address).send(&chunked(extension)).receive();
        assert_eq!(answer.text(), r#"{"r":42}"#, "{extension}");
    }
    for extension in [";a\n", ";a\r1", &format!(";{}", "a".repeat(100_000))] {
        let mut client = Connection::open(host.address);
        client.try_send(&chunked(extension));
        let answer = client.try_receive();
        assert!(answer.is_none_or(|answer| answer.status() == 400));
    }
}

#[test]
fn a_head_over_the_limit_is_refused() {
    let host = TestServer::start_with(
        1,
        ServerLimits { head_size: 16 << 10, ..ServerLimits::default() },
        None,
        conform::executor,
        |service| service,
    );
    let filler = "x".repeat(16 << 10);
    for request in [
        format!("{ANSWER} HTTP/1.1\r\nHost: a\r\nX-Filler: {filler}\r\n\r\n"),
        format!("{ANSWER}?x={filler} HTTP/1.1\r\nHost: a\r\n\r\n"),
    ] {
        let mut client = Connection::open(host.address);
        client.try_send(request.as_bytes());
        assert_eq!(client.receive().status(), 431);
        client.expect_closed();
    }
}

#[test]
fn a_second_head_that_does_not_end_in_time_is_answered() {
    let limits = ServerLimits { head_timeout: SHORT, ..ServerLimits::default() };
    let host = TestServer::start_with(1, limits, None, conform::executor, |service| service);
    let mut client = Connection::open(host.address);
    client.send(format!("{ANSWER} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    assert_eq!(client.receive().text(), r#"{"r":42}"#);
    client.send(format!("{ANSWER} HTTP/1.1\r\nHo").as_bytes());
    assert_eq!(client.receive().status(), 408);
    client.expect_closed();
}

#[test]
fn a_request_that_is_wrong_does_not_lose_the_answer_before_it() {
    let (mut jobs, builder) = Jobs::add(Executor::builder().request_timeout(PATIENCE));
    let executor = builder.build().expect("a right configuration");
    let host = TestServer::start(1, || executor);
    let wait = post(&message("test.jobs:1.0:wait", &json!({})));
    for garbage in ["\0\x01", "GET\r\n\r\n", "POST / HTTP/1.1\r\nHost : a\r\n\r\n"] {
        let mut client = Connection::open(host.address);
        client.send(&[&wait, garbage.as_bytes()].concat());
        jobs.wait_for_start().finish();
        assert_eq!(client.receive().json(), json!({ "r": { "n": 0 } }));
        assert_eq!(client.receive().status(), 400, "{garbage:?}");
        client.expect_closed();
    }
}

/// How many clients there are that read nothing.
const CLIENTS: usize = 40;

/// How many requests each of them sends.
const REQUESTS: usize = 400;

/// The most memory that each may take, in bytes.
const MEMORY: usize = 150_000;

#[test]
fn clients_that_read_nothing_cost_little_and_delay_no_others() {
    let limits = ServerLimits { stall_timeout: SHORT, ..ServerLimits::default() };
    let host = TestServer::start_with(1, limits, None, conform::executor, |service| service);
    // eight megabytes of answers
    let big = post(&message("conform.main:1.2:big", &json!({ "size": 20_000 })));
    let all = big.repeat(REQUESTS);
    let before = resident_bytes();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Connection::open(host.address)).collect();
    for client in &mut clients {
        client.try_send(&all);
    }
    let mut other = Connection::open(host.address);
    let mut most = 0;
    while host.connections.open() > 1 {
        let answer = other.call("conform.main:1.2:answer", &json!({}));
        assert_eq!(answer, json!({ "r": 42 }));
        most = most.max(resident_bytes());
    }
    let each = most.saturating_sub(before) / CLIENTS;
    assert!(each < MEMORY, "{each} bytes for each client");
}

#[test]
fn clients_that_take_an_answer_slowly_get_all_of_it() {
    let limits = ServerLimits { keep_alive: SHORT, ..ServerLimits::default() };
    let host = TestServer::start_with(1, limits, None, conform::executor, |service| service);
    let big = post(&message("conform.main:1.2:big", &json!({ "size": 1_000_000 })));
    // the system takes some megabytes, so one of them has its last answer in part
    let mut slow: Vec<_> = (3..=6).map(|count| (count, Connection::open(host.address))).collect();
    for (count, client) in &mut slow {
        client.send(&big.repeat(*count));
    }
    // twice as long as a connection is kept without a request
    for _ in 0..2 {
        let mut idle = Connection::open(host.address);
        idle.send(format!("{ANSWER} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).receive();
        idle.expect_closed();
    }
    for (count, client) in &mut slow {
        for _ in 0..*count {
            assert_eq!(client.receive().body.len(), 1_000_000 + r#"{"r":""}"#.len());
        }
    }
}
