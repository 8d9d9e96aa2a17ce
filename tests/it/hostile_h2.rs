//! The promise: a connection of HTTP/2 costs little and ends, whatever its client sends, does not
//! send, or does not read.

use std::time::Duration;

use asyncsteps_executor::Executor;
use asyncsteps_support::h2::{Answer, Http2, field, flag, frame, head, kind};
use asyncsteps_support::jobs::Jobs;
use asyncsteps_support::server::{TestServer, resident_bytes};
use asyncsteps_support::stream::Stream;
use asyncsteps_support::{client, conform};
use asyncsteps_transport::http::ServerLimits;
use serde_json::json;

const WAIT: &str = "test.jobs:1.0:wait";
const BIG: &str = "conform.main:1.2:big";

/// Times that are too short for an attack, and long enough to send a request.
const SHORT: Duration = Duration::from_secs(1);

/// How many frames end a connection in any case.
const FLOOD: usize = 100_000;

/// Why a client gives a request up (RFC 9113 §7).
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// Bytes of a head at most.
const HEAD: usize = 16 << 10;

fn short() -> ServerLimits {
    ServerLimits { head_timeout: SHORT, stall_timeout: SHORT, ..ServerLimits::default() }
}

fn conform_with(limits: ServerLimits) -> TestServer {
    TestServer::start_with(1, limits, None, conform::executor, |service| service)
}

fn jobs_with(limits: ServerLimits) -> (Jobs, TestServer) {
    let (jobs, builder) = Jobs::add(Executor::builder().request_timeout(Duration::from_secs(600)));
    let executor = builder.build().expect("a right configuration");
    (jobs, TestServer::start_with(1, limits, None, || executor, |service| service))
}

#[test]
fn a_client_that_gives_up_too_many_requests_loses_its_connection_and_all_of_them() {
    let limits = ServerLimits { resets_per_second: 3, ..ServerLimits::default() };
    let (mut jobs, host) = jobs_with(limits);
    let mut other = Http2::open(host.address);
    other.request(1, WAIT, &json!({ "n": 100 }));
    let kept = jobs.wait_for_start();
    let mut client = Http2::open(host.address);
    let streams = [1, 3, 5, 7, 9];
    for stream in streams {
        client.request(stream, WAIT, &json!({ "n": stream }));
        jobs.wait_for_start();
    }
    // in one packet, all but the last one
    let resets =
        streams[..4].iter().flat_map(|stream| frame(kind::RST_STREAM, 0, *stream, &CANCEL));
    client.send_bytes(&resets.collect::<Vec<_>>());
    client.expect_end();
    let mut cancelled = streams.map(|_| jobs.wait_for_cancel());
    cancelled.sort_unstable();
    assert_eq!(cancelled, streams.map(i64::from));
    kept.finish();
    assert!(matches!(other.answer(1), Answer::Ok(_)));
}

#[test]
fn a_client_that_gives_requests_up_at_once_loses_its_connection() {
    let (jobs, host) = jobs_with(ServerLimits::default());
    let mut client = Http2::open(host.address);
    for stream in (1..).step_by(2).take(FLOOD) {
        let head = frame(kind::HEADERS, flag::END_HEADERS, stream, &head("POST", "/ftn/", &[]));
        if !client.try_send(&[head, frame(kind::RST_STREAM, 0, stream, &CANCEL)].concat()) {
            break;
        }
    }
    client.expect_end();
    host.connections.wait_for_the_end_of(1);
    assert!(jobs.is_quiet());
    assert_eq!(client::call(host.address, "no.such:1.0:f", &json!({}))["e"], "UnknownInterface");
}

/// Sends a head in frames of a size that the server has to take.
fn send_head(client: &mut Http2, stream: u32, block: &[u8]) {
    let mut parts = block.chunks(HEAD).peekable();
    let mut kind = kind::HEADERS;
    while let Some(part) = parts.next() {
        let end = if parts.peek().is_none() { flag::END_HEADERS } else { 0 };
        let flags = if kind == kind::HEADERS { end | flag::END_STREAM } else { end };
        if !client.try_send(&frame(kind, flags, stream, part)) {
            return;
        }
        kind = kind::CONTINUATION;
    }
}

#[test]
fn a_head_over_the_limit_is_refused() {
    let host = conform_with(ServerLimits { head_size: HEAD, ..ServerLimits::default() });
    let path = "/ftn/conform.main/1.2/answer";
    let filler = "x".repeat(HEAD);
    let mut client = Http2::open(host.address);
    send_head(&mut client, 1, &head("GET", path, &[("x-filler", &filler)]));
    assert!(!matches!(client.answer(1), Answer::Ok(_)));
    // an entry of the table (RFC 7541 §6.2.1), and a byte for each time it is meant
    let entry = [&[0x40], &field("x-bomb", &"x".repeat(3_000))[1..]].concat();
    let bomb = [head("GET", path, &[]), entry, vec![0x80 | 62; HEAD - 4_000]].concat();
    let before = resident_bytes();
    for _ in 0..20 {
        let mut client = Http2::open(host.address);
        send_head(&mut client, 1, &bomb);
        assert!(!matches!(client.answer(1), Answer::Ok(_)));
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes for heads that are none");
    client::ping(host.address);
}

#[test]
fn a_head_that_names_two_hosts_is_refused() {
    let host = conform_with(ServerLimits::default());
    let mut client = Http2::open(host.address);
    let mut get = |stream, headers: &[(&str, &str)]| {
        let head = head("GET", "/ftn/conform.main/1.2/answer", headers);
        client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &head);
        client.answer(stream)
    };
    assert_eq!(get(1, &[("host", "LocalHost")]), Answer::Ok(br#"{"r":42}"#.to_vec()));
    assert_eq!(get(3, &[("host", "other")]), Answer::Refused);
    assert_eq!(get(5, &[("host", "localhost"), ("host", "localhost")]), Answer::Refused);
    // what belongs to a connection of HTTP/1.1 is malformed (RFC 9113 §8.2.2)
    assert!(!matches!(get(7, &[("transfer-encoding", "chunked")]), Answer::Ok(_)));
    assert!(!matches!(get(9, &[("connection", "upgrade")]), Answer::Ok(_)));
}

#[test]
fn a_head_that_does_not_end_ends_its_connection() {
    let host = conform_with(short());
    let start = frame(kind::HEADERS, 0, 1, &head("GET", "/", &[]));
    // frames without a byte, one byte each, and none
    for part in [Some(&b""[..]), Some(b"\0"), None] {
        let mut client = Http2::open(host.address);
        client.send_bytes(&start);
        if let Some(part) = part {
            let more = frame(kind::CONTINUATION, 0, 1, part);
            let _ = (0..FLOOD).all(|_| client.try_send(&more));
        }
        client.expect_end();
    }
    host.connections.wait_for_the_end_of(3);
    client::ping(host.address);
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let host = conform_with(short());
    let mut client = Http2::open(host.address);
    client.send(kind::HEADERS, flag::END_HEADERS, 1, &head("POST", "/ftn/", &[]));
    client.send(kind::DATA, 0, 1, b"{");
    assert_eq!(client.answer(1), Answer::Refused);
}

#[test]
fn a_client_that_takes_nothing_loses_its_connection() {
    let host = conform_with(short());
    for window in [0, 1] {
        let mut client = Http2::with_window(Stream::connect(host.address), window);
        client.request(1, BIG, &json!({ "size": 400_000 }));
        client.expect_end();
    }
    host.connections.wait_for_the_end_of(2);
}

#[test]
fn nor_does_it_keep_it_by_taking_other_answers() {
    let host = conform_with(short());
    let mut client = Http2::with_window(Stream::connect(host.address), 0);
    client.request(1, BIG, &json!({ "size": 400_000 }));
    let others = (3..).step_by(2).take(FLOOD);
    let ended = others.map(|stream| {
        let request = frame(
            kind::HEADERS,
            flag::END_HEADERS | flag::END_STREAM,
            stream,
            &head("GET", "/ftn/conform.main/1.2/answer", &[]),
        );
        let window = frame(kind::WINDOW_UPDATE, 0, stream, &1_000u32.to_be_bytes());
        client.try_send(&[request, window].concat()) && client.answer(stream) != Answer::End
    });
    assert!(ended.into_iter().any(|is_answered| !is_answered), "it is served for ever");
    host.connections.wait_for_the_end_of(1);
}

#[test]
fn a_connection_without_requests_ends() {
    let host = conform_with(ServerLimits { keep_alive: SHORT, ..short() });
    let mut silent = Http2::open(host.address);
    let mut idle = Http2::open(host.address);
    idle.ping(1);
    silent.expect_end();
    idle.expect_end();
    host.connections.wait_for_the_end_of(2);
}

#[test]
fn a_client_that_pings_without_end_is_a_client_without_requests() {
    let host = conform_with(ServerLimits { keep_alive: SHORT, ..short() });
    let mut client = Http2::open(host.address);
    client.ping(1);
    let ping = frame(kind::PING, 0, 0, &[7; 8]);
    // each is answered, and the connection ends nevertheless
    while client.try_send(&ping) && client.frame().is_some() {}
    host.connections.wait_for_the_end_of(1);
}
