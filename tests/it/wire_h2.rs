//! The promise: clients of HTTP/2 get what those of HTTP/1.1 get, many answers at once (RFC 9113).

use asyncsteps_executor::Executor;
use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{Connection, message};
use asyncsteps_support::conform;
use asyncsteps_support::h2::{Answer, Http2, flag, head, kind};
use asyncsteps_support::jobs::{Job, Jobs};
use asyncsteps_support::server::TestServer;
use asyncsteps_support::stream::{Stream, server_config};
use asyncsteps_transport::http::ServerLimits;
use serde_json::{Value, json};

const WAIT: &str = "test.jobs:1.0:wait";

/// Why a client gives a request up (RFC 9113 §7).
const CANCEL: u32 = 8;

fn host() -> TestServer {
    TestServer::start(1, conform::executor)
}

fn jobs() -> (Jobs, TestServer) {
    let (jobs, builder) = Jobs::add(Executor::builder().request_timeout(PATIENCE));
    let executor = builder.build().expect("a right configuration");
    (jobs, TestServer::start(1, || executor))
}

fn body(answer: Answer) -> Value {
    let Answer::Ok(body) = answer else { panic!("an answer was expected: {answer:?}") };
    serde_json::from_slice(&body).expect("JSON")
}

#[test]
fn clients_that_know_it_beforehand_begin_with_it() {
    let host = host();
    let mut client = Http2::open(host.address);
    for stream in [1, 3, 5] {
        client.ping(stream);
    }
    let answer = head("HEAD", "/ftn/conform.main/1.2/answer", &[]);
    client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 7, &answer);
    assert_eq!(client.answer(7), Answer::Ok(Vec::new()), "HEAD has no body");
    // other paths belong to the application
    client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 9, &head("GET", "/", &[]));
    assert_eq!(client.answer(9), Answer::Refused);
    client.ping(11);
}

#[test]
fn clients_agree_on_it_in_the_handshake() {
    let limits = ServerLimits::default();
    let tls = Some(server_config());
    let host = TestServer::start_with(1, limits, tls, conform::executor, |service| service);
    let connect = |protocols: &[&[u8]]| Stream::secure_with(host.address, protocols);
    let mut client = Http2::over(connect(&[b"h2", b"http/1.1"]));
    let info = client.call(1, "conform.main:1.2:channelInfo", &json!({}));
    assert_eq!(info["r"]["secure"], true, "{info}");
    for protocols in [&[&b"http/1.1"[..]][..], &[]] {
        let mut client = Connection::over(connect(protocols));
        assert_eq!(client.call("conform.main:1.2:answer", &json!({})), json!({ "r": 42 }));
    }
}

#[test]
fn answers_come_as_they_are_ready() {
    const STREAMS: u32 = 100;
    let (mut jobs, host) = jobs();
    let mut client = Http2::open(host.address);
    let mut running: Vec<(u32, Job)> = Vec::new();
    for n in 0..STREAMS {
        client.request(2 * n + 1, WAIT, &json!({ "n": n }));
        running.push((n, jobs.wait_for_start()));
    }
    for (n, job) in running.into_iter().rev() {
        job.finish();
        assert_eq!(body(client.answer(2 * n + 1)), json!({ "r": { "n": n } }));
    }
}

#[test]
fn large_bodies_go_both_ways() {
    const SIZE: usize = 900_000;
    let host = host();
    let mut client = Http2::open(host.address);
    let data = "x".repeat(SIZE);
    let taken = client.call(1, "conform.main:1.2:bigIn", &json!({ "data": data }));
    assert_eq!(taken, json!({ "r": { "len": SIZE } }));
    let given = client.call(3, "conform.main:1.2:big", &json!({ "size": SIZE }));
    assert_eq!(given["r"].as_str().expect("a text").len(), SIZE);
    let get = head("GET", &format!("/ftn/conform.main/1.2/download?n={SIZE}"), &[]);
    client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 5, &get);
    let Answer::Ok(raw) = client.answer(5) else { panic!("raw data was expected") };
    assert_eq!(raw.len(), SIZE);
    // over the limit of all functions
    let data = "x".repeat(2 * SIZE);
    client.send(kind::HEADERS, flag::END_HEADERS, 7, &head("POST", "/ftn/", &[]));
    let message = message("conform.main:1.2:bigIn", &json!({ "data": data }));
    client.send(kind::DATA, 0, 7, &message[..16_000]);
    client.send(kind::RST_STREAM, 0, 7, &CANCEL.to_be_bytes());
    client.ping(9);
}

#[test]
fn a_client_that_gives_a_request_up_or_leaves_cancels_it() {
    let (mut jobs, host) = jobs();
    let mut client = Http2::open(host.address);
    let mut running = Vec::new();
    for n in 0..3 {
        client.request(2 * n + 1, WAIT, &json!({ "n": n }));
        running.push(jobs.wait_for_start());
    }
    client.send(kind::RST_STREAM, 0, 3, &CANCEL.to_be_bytes());
    assert_eq!(jobs.wait_for_cancel(), 1);
    running.remove(0).finish();
    assert_eq!(body(client.answer(1)), json!({ "r": { "n": 0 } }));
    drop(client);
    assert_eq!(jobs.wait_for_cancel(), 2);
}

#[test]
fn a_busy_connection_is_told_before_the_server_closes() {
    let (mut jobs, host) = jobs();
    let mut client = Http2::open(host.address);
    client.request(1, WAIT, &json!({ "n": 1 }));
    let job = jobs.wait_for_start();
    host.executor.announce_close();
    client.request(3, "test.jobs:1.0:none", &json!({}));
    assert_eq!(body(client.answer(3))["e"], "InvalidRequest");
    job.finish();
    assert_eq!(body(client.answer(1)), json!({ "r": { "n": 1 } }));
    assert!(client.expect_end().is_some(), "it is told");
    // the server goes on
    let mut other = Http2::open(host.address);
    other.request(1, "test.jobs:1.0:none", &json!({}));
    assert_eq!(body(other.answer(1))["e"], "InvalidRequest");
}

#[test]
fn requests_in_flight_are_answered_before_the_server_ends() {
    let (mut jobs, mut host) = jobs();
    let mut idle = Http2::open(host.address);
    idle.request(1, "test.jobs:1.0:none", &json!({}));
    assert_eq!(body(idle.answer(1))["e"], "InvalidRequest");
    let mut busy = Http2::open(host.address);
    busy.request(1, WAIT, &json!({ "n": 1 }));
    let job = jobs.wait_for_start();
    host.begin_to_close();
    assert!(idle.expect_end().is_some(), "it is told");
    while busy.frame().expect("it is told").kind != kind::GOAWAY {}
    job.finish();
    assert_eq!(body(busy.answer(1)), json!({ "r": { "n": 1 } }));
    assert_eq!(busy.expect_end(), Some(1));
}
