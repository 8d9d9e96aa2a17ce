//! The promise: existing FutoIn clients get over WebSocket exactly what they know (`wire.md`), as
//! many answers at once as they like.

use asyncsteps_executor::Executor;
use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{Connection, ping};
use asyncsteps_support::conform;
use asyncsteps_support::front::Front;
use asyncsteps_support::jobs::Jobs;
use asyncsteps_support::server::{TestServer, resident_bytes};
use asyncsteps_support::ws::{Frame, Socket, frame, frame_head, opcode};
use asyncsteps_transport::websocket::WebSocketLimits;
use serde_json::json;

const ANSWER: &str = "conform.main:1.2:answer";

fn host(front: Front) -> TestServer {
    front.start(1, conform::executor)
}

/// Fails unless the next thing on the connection is the answer to a call made now.
#[track_caller]
fn expect_quiet(socket: &mut Socket) {
    assert_eq!(socket.request(ANSWER, &json!({}), "C99").receive(), json!({"r": 42, "rid": "C99"}));
}

fn a_message_is_answered_in_frames_of_its_kind(front: Front) {
    let (mut jobs, builder) = Jobs::add(Executor::builder().request_timeout(PATIENCE));
    let executor = builder.build().expect("a right configuration");
    let host = front.start(1, || executor);
    let mut socket = Socket::open(host.address);
    let request = |n| json!({ "f": "test.jobs:1.0:wait", "p": { "n": n }, "rid": "é" }).to_string();
    socket.send_bytes(&frame(opcode::TEXT, request(1).as_bytes()));
    let first = jobs.wait_for_start();
    // another kind meanwhile
    socket.send_bytes(&frame(opcode::BINARY, request(2).as_bytes()));
    let second = jobs.wait_for_start();
    first.finish();
    assert_eq!(socket.receive_text(), json!({ "r": { "n": 1 }, "rid": "é" }));
    second.finish();
    assert_eq!(socket.receive(), json!({ "r": { "n": 2 }, "rid": "é" }));
    // an error in parts
    let parts = [frame(opcode::FIRST_TEXT, br#"{"rid":"C3"#), frame(opcode::LAST, br#""}"#)];
    socket.send_bytes(&parts.concat());
    let error = json!({ "e": "InvalidRequest", "edesc": "Missing req.f", "rid": "C3" });
    assert_eq!(socket.receive_text(), error);
}

fn each_message_is_answered_in_its_own_coding(front: Front) {
    let host = host(front);
    let mut socket = Socket::open(host.address);
    // {"f": "conform.main:1.2:zero", "rid": "C1"} and its answer {"r": 0, "rid": "C1"}
    let f = b"conform.main:1.2:zero";
    let msgpack = [b"MPCK\x82\xa1f\xb5", &f[..], b"\xa3rid\xa2C1"].concat();
    assert_eq!(socket.send(msgpack).receive_bytes(), b"MPCK\x82\xa1r\x00\xa3rid\xa2C1");
    let cbor = [b"CBOR\xa2\x61f\x75", &f[..], b"\x63rid\x62C1"].concat();
    assert_eq!(socket.send(cbor).receive_bytes(), b"CBOR\xa2\x61r\x00\x63rid\x62C1");
    expect_quiet(&mut socket);
}

fn text_is_no_data_in_a_binary_coding(front: Front) {
    // {"f": "conform.bin:1.0:reverse", "p": {"blob": "AQID"}, "rid": "C1"}, where bytes belong
    let f = b"conform.bin:1.0:reverse";
    let msgpack =
        [b"MPCK\x83\xa1f\xb7", &f[..], b"\xa1p\x81\xa4blob\xa4AQID\xa3rid\xa2C1"].concat();
    let cbor = [b"CBOR\xa3\x61f\x77", &f[..], b"\x61p\xa1\x64blob\x64AQID\x63rid\x62C1"].concat();
    let why = b"Type mismatch for parameter: conform.bin:1.0:reverse(blob) = \"AQID\"";
    let refused = |answer: &[u8]| answer.windows(why.len()).any(|part| part == why);
    let host = host(front);
    let mut socket = Socket::open(host.address);
    let mut client = Connection::open(host.address);
    for message in [msgpack, cbor] {
        assert!(refused(&socket.send(&message).receive_bytes()));
        assert!(refused(&client.post(&message).body));
    }
}

fn the_path_is_served_with_and_without_the_trailing_slash(front: Front) {
    let host = host(front);
    for path in ["/ftn/", "/ftn"] {
        let mut socket = Socket::open_with(host.address, path, "");
        expect_quiet(&mut socket);
    }
}

fn protocols_and_extensions_that_a_client_offers_are_not_taken(front: Front) {
    let host = host(front);
    let offers = "Sec-WebSocket-Protocol: futoin\r\n\
        Sec-WebSocket-Extensions: permessage-deflate\r\n";
    // the client checks that there are none in the answer
    let mut socket = Socket::open_with(host.address, "/ftn/", offers);
    expect_quiet(&mut socket);
}

fn a_malformed_handshake_is_refused(front: Front) {
    let host = host(front);
    let whole = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (changed, to, status) in [
        ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", 400),
        ("dGhlIHNhbXBsZSBub25jZQ==", "short", 400),
        ("Version: 13", "Version: 8", 426),
        ("Connection: Upgrade\r\n", "", 400),
        ("Upgrade: websocket", "Upgrade: h2c", 400),
    ] {
        let headers = whole.replace(changed, to);
        let request = format!("GET /ftn/ HTTP/1.1\r\nHost: test\r\n{headers}\r\n");
        let answer = Connection::open(host.address).send(request.as_bytes()).receive();
        assert_eq!(answer.status(), status, "{headers}");
    }
    ping(host.address);
}

fn answers_come_as_they_are_ready(front: Front) {
    let (mut jobs, builder) = Jobs::add(Executor::builder().request_timeout(PATIENCE));
    let executor = builder.build().expect("a right configuration");
    let host = front.start(1, || executor);
    let mut socket = Socket::open(host.address);
    for n in 1..=3 {
        socket.request("test.jobs:1.0:wait", &json!({ "n": n }), &format!("C{n}"));
    }
    let started = [(); 3].map(|()| jobs.wait_for_start());
    socket.request("test.jobs:1.0:none", &json!({}), "C4");
    assert_eq!(socket.receive()["rid"], "C4");
    for job in started.into_iter().rev() {
        let n = job.n;
        job.finish();
        assert_eq!(socket.receive(), json!({ "r": { "n": n }, "rid": format!("C{n}") }));
    }
}

fn a_function_without_a_result_is_silent_unless_it_fails_or_is_forced(front: Front) {
    let host = host(front);
    let mut socket = Socket::open(host.address);
    socket.request("conform.main:1.2:notify", &json!({ "v": 5 }), "C1");
    socket.request("conform.main:1.2:lastNotify", &json!({}), "C2");
    assert_eq!(socket.receive(), json!({ "r": { "v": 5 }, "rid": "C2" }));
    let forced = json!({
        "f": "conform.main:1.2:notify", "p": { "v": 6 }, "rid": "C3", "forcersp": true
    });
    assert_eq!(socket.send(forced.to_string()).receive(), json!({ "r": {}, "rid": "C3" }));
    socket.request("conform.main:1.2:notify", &json!({}), "C4");
    let missing = "Missing parameter: conform.main:1.2:notify(v)";
    let refused = json!({ "e": "InvalidRequest", "edesc": missing, "rid": "C4" });
    assert_eq!(socket.receive(), refused);
}

fn errors_are_those_of_http(front: Front) {
    let host = host(front);
    let mut socket = Socket::open(host.address);
    let mut http = Connection::open(host.address);
    for (function, params) in [
        ("no.such:1.0:f", json!({})),
        ("conform.main:2.0:echo", json!({})),
        ("conform.main:1.10:echo", json!({})),
        ("conform.main:1.2:noSuch", json!({})),
        ("conform.main:1.2:missingImpl", json!({})),
        ("conform.main:1.2:echo", json!({})),
        ("conform.main:1.2:echo", json!({ "msg": "hi", "zzz": 1 })),
        ("conform.main:1.2:echo", json!({ "msg": "hi", "n": "text" })),
        ("conform.main:1.2:echo", json!(null)),
        ("conform.main", json!({})),
        ("conform.main:1:echo", json!({})),
        ("conform.main:1.2:fail", json!({ "code": "MyError" })),
        ("conform.main:1.2:fail", json!({ "code": "NotDeclared" })),
        ("conform.main:1.2:crash", json!({})),
        ("conform.main:1.2:priv", json!({})),
        ("conform.main:1.2:badResult", json!({ "kind": "type" })),
        ("conform.secret:1.0:whoami", json!({})),
        ("conform.secure:1.0:hello", json!({})),
        ("conform.signed:1.0:sum", json!({ "a": 1, "b": 2 })),
    ] {
        let message = json!({ "f": function, "p": params, "rid": "C1" }).to_string();
        let expected = http.post(message.as_bytes()).json();
        assert!(expected["e"].is_string(), "{expected}");
        assert_eq!(socket.send(&message).receive(), expected, "{message}");
    }
}

fn a_frame_without_a_message_is_ignored_and_counted(front: Front) {
    let host = host(front);
    let mut ignored = 0;
    let mut socket = Socket::open(host.address);
    let deep = "[".repeat(10_000);
    for garbage in [
        &b""[..],
        b"null",
        b"5",
        b"\"x\"",
        b"[]",
        b"{}",
        b"{",
        b"\xff\xfe",
        b"MPCK",
        b"MPCK\xc1",
        b"MPCK\xdf\xff\xff\xff\xff",
        b"MPCK\x81\xa1f\xdb\xff\xff\xff\xff",
        b"CBOR",
        b"CBOR\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
        b"CBOR\xa1\x61f\x7b\x7f\xff\xff\xff\xff\xff\xff\xff",
        deep.as_bytes(),
        // an answer without an id could not be assigned
        br#"{"f":"conform.main:1.2:answer","p":{}}"#,
        br#"{"f":"conform.main:1.2:answer","p":{},"rid":null}"#,
        br#"{"f":"conform.main:1.2:answer","p":{},"rid":{}}"#,
        // answers to calls that were not made
        br#"{"r":{},"rid":"S1"}"#,
        br#"{"e":"MyError","rid":"S18446744073709551616"}"#,
        br#"{"r":5}"#,
    ] {
        socket.send_bytes(&frame(opcode::BINARY, garbage));
        if str::from_utf8(garbage).is_ok() {
            socket.send_bytes(&frame(opcode::TEXT, garbage));
        }
        expect_quiet(&mut socket);
        let is_answer = garbage.starts_with(br#"{"r""#) || garbage.starts_with(br#"{"e""#);
        if !is_answer {
            ignored += 1 + u64::from(str::from_utf8(garbage).is_ok());
        }
        assert_eq!(host.executor.unanswerable(), ignored);
    }
}

fn a_message_that_is_no_request_is_refused_if_it_has_an_id(front: Front) {
    let host = host(front);
    let mut socket = Socket::open(host.address);
    for (message, refusal) in [
        (r#"{"rid":"C1"}"#, json!({"e": "InvalidRequest", "edesc": "Missing req.f", "rid": "C1"})),
        (
            r#"{"f":5,"rid":"C2"}"#,
            json!({"e": "InvalidRequest", "edesc": "Missing req.f", "rid": "C2"}),
        ),
        // no client of FutoIn numbers so, but it can be answered
        (r#"{"f":"conform.main:1.2:answer","rid":7}"#, json!({"r": 42, "rid": 7})),
    ] {
        assert_eq!(socket.send(message).receive(), refusal, "{message}");
    }
}

fn a_message_that_is_too_large_closes_the_connection_with_1009(front: Front) {
    let host = host(front);
    // the largest that a function takes
    let limit = 1 << 20;
    for attack in [
        frame_head(opcode::BINARY, limit + 1),
        // nothing of it is waited for, or taken into memory
        frame_head(opcode::TEXT, u64::MAX >> 1),
        frame(opcode::BINARY, &vec![b' '; 2 << 20]),
        [
            frame(opcode::FIRST_BINARY, &vec![b' '; 600_000]),
            frame(opcode::LAST, &vec![b' '; 600_000]),
        ]
        .concat(),
    ] {
        let mut socket = Socket::open(host.address);
        // a part of it is enough
        socket.try_send(&attack);
        assert_eq!(socket.frame(), Frame::Close(Some(1009)));
    }
    let mut socket = Socket::open(host.address);
    let mut fits = br#"{"f":"conform.main:1.2:bigIn","p":{"data":"x"},"rid":"C1"}"#.to_vec();
    fits.resize(1 << 20, b' ');
    assert_eq!(socket.send(&fits).receive(), json!({ "r": { "len": 1 }, "rid": "C1" }));
    // over the limit of the function, though not of the connection
    let mut large = json!({ "f": ANSWER, "rid": "C2" }).to_string().into_bytes();
    large.resize(1 << 20, b' ');
    let refused = socket.send(&large).receive();
    assert_eq!((&refused["e"], &refused["rid"]), (&json!("InvalidRequest"), &json!("C2")));
}

fn malformed_frames_close_the_connection_with_1002(front: Front) {
    let host = host(front);
    let mut unmasked = frame(opcode::BINARY, b"{}");
    unmasked[1] &= 0x7f;
    for attack in [
        unmasked,
        // reserved bits and opcodes
        frame(opcode::BINARY | 0x40, b"{}"),
        frame(0x83, b"{}"),
        frame(0x8b, b"{}"),
        // control frames in parts, or too long
        frame(opcode::PING & 0x7f, b""),
        frame(opcode::PING, &[0; 126]),
        frame(opcode::CLOSE, &[0; 126]),
        // parts without a beginning, and a beginning in the middle
        frame(opcode::LAST, b"{}"),
        frame(opcode::CONTINUE, b"{}"),
        [frame(opcode::FIRST_BINARY, b"{"), frame(opcode::BINARY, b"}")].concat(),
    ] {
        let mut socket = Socket::open(host.address);
        assert_eq!(socket.send_bytes(&attack).frame(), Frame::Close(Some(1002)), "{attack:?}");
    }
    ping(host.address);
}

fn a_message_may_come_in_parts_with_pings_in_between(front: Front) {
    let host = host(front);
    let mut socket = Socket::open(host.address);
    let message = json!({ "f": ANSWER, "rid": "C1" }).to_string().into_bytes();
    let (first, rest) = message.split_at(10);
    let (middle, last) = rest.split_at(10);
    let frames = [
        frame(opcode::FIRST_BINARY, first),
        frame(opcode::PING, b"ping"),
        frame(opcode::CONTINUE, middle),
        frame(opcode::CONTINUE, b""),
        frame(opcode::LAST, last),
    ]
    .concat();
    // as slowly as can be
    for byte in frames {
        socket.send_bytes(&[byte]);
    }
    assert_eq!(socket.frame(), Frame::Pong(b"ping".to_vec()));
    assert_eq!(socket.receive(), json!({ "r": 42, "rid": "C1" }));
}

fn a_closing_handshake_is_answered(front: Front) {
    let host = host(front);
    let mut socket = Socket::open(host.address);
    socket.send_bytes(&frame(opcode::CLOSE, &1001u16.to_be_bytes()));
    assert_eq!(socket.frame(), Frame::Close(Some(1001)));
    assert_eq!(socket.frame(), Frame::End);
    host.connections.wait_for_the_end_of(1);
}

fn a_closing_handshake_is_answered_with_its_code_if_that_is_valid(front: Front) {
    let host = host(front);
    for (payload, code) in [
        (&b""[..], 1000),
        (b"\x03\xe8", 1000),
        (b"\x03\xe9bye", 1001),
        (b"\x0b\xb8", 3000),
        (b"\x13\x87", 4999),
        (b"\x03", 1002),
        // reserved codes, which are never sent
        (b"\x03\xe7", 1002),
        (b"\x03\xed", 1002),
        (b"\x03\xee", 1002),
        (b"\x03\xf7", 1002),
        (b"\x13\x88", 1002),
        // the reason is a text
        (b"\x03\xe8\xff", 1007),
    ] {
        let mut socket = Socket::open(host.address);
        let answer = socket.send_bytes(&frame(opcode::CLOSE, payload)).frame();
        assert_eq!(answer, Frame::Close(Some(code)), "{payload:?}");
    }
}

fn text_that_is_not_utf8_closes_the_connection_with_1007(front: Front) {
    let host = host(front);
    for attack in [
        frame(opcode::TEXT, b"\xff\xfe"),
        frame(opcode::TEXT, b"{\"f\":\"conform.main:1.2:answer\",\"rid\":\"\xc3\"}"),
        [frame(opcode::FIRST_TEXT, b"\xc3"), frame(opcode::LAST, b"(")].concat(),
    ] {
        let mut socket = Socket::open(host.address);
        assert_eq!(socket.send_bytes(&attack).frame(), Frame::Close(Some(1007)), "{attack:?}");
    }
    // parts need not be texts
    let mut socket = Socket::open(host.address);
    let (first, last) = (b"{\"f\":\"conform.main:1.2:answer\",\"rid\":\"\xc3", b"\xa9\"}");
    socket.send_bytes(&frame(opcode::FIRST_TEXT, first)).send_bytes(&frame(opcode::LAST, last));
    assert_eq!(socket.receive_text(), json!({ "r": 42, "rid": "\u{e9}" }));
}

fn a_connection_that_ends_cancels_all_its_flows(front: Front) {
    let (mut jobs, builder) = Jobs::add(Executor::builder().request_timeout(PATIENCE));
    let executor = builder.build().expect("a right configuration");
    let host = front.start(1, || executor);
    for say_goodbye in [false, true] {
        let mut socket = Socket::open(host.address);
        for n in 0..20 {
            socket.request("test.jobs:1.0:wait", &json!({ "n": n }), &format!("C{n}"));
        }
        let waiting: Vec<_> = (0..20).map(|_| jobs.wait_for_start()).collect();
        if say_goodbye {
            socket.send_bytes(&frame(opcode::CLOSE, b""));
        }
        drop(socket);
        let mut cancelled: Vec<i64> = waiting.iter().map(|_| jobs.wait_for_cancel()).collect();
        cancelled.sort_unstable();
        assert_eq!(cancelled, (0..20).collect::<Vec<_>>());
        assert!(waiting.iter().all(|job| !job.is_waiting()));
    }
    host.wait_for_in_flight(0);
}

fn no_more_requests_of_a_connection_run_than_its_limit(front: Front) {
    let (mut jobs, builder) = Jobs::add(Executor::builder());
    let executor = builder.build().expect("a right configuration");
    let limits = WebSocketLimits { in_flight: 4, ..WebSocketLimits::default() };
    let host = front.start_as(1, || executor, move |service| service.web_socket(limits));
    let mut socket = Socket::open(host.address);
    for n in 0..100 {
        socket.request("test.jobs:1.0:wait", &json!({ "n": n }), &format!("C{n}"));
    }
    let mut waiting: Vec<_> = (0..4).map(|_| jobs.wait_for_start()).collect();
    for n in 0..100 {
        // it had time enough to start more
        host.wait_for_in_flight(waiting.len());
        assert!(jobs.is_quiet());
        waiting.remove(0).finish();
        assert_eq!(socket.receive()["rid"], format!("C{n}"));
        if n + 4 < 100 {
            waiting.push(jobs.wait_for_start());
        }
    }
    // the limit does not keep the server from noticing that a client is gone
    for n in 0..8 {
        socket.request("test.jobs:1.0:wait", &json!({ "n": n }), &format!("C{n}"));
    }
    let waiting: Vec<_> = (0..4).map(|_| jobs.wait_for_start()).collect();
    drop(socket);
    let mut cancelled: Vec<i64> = waiting.iter().map(|_| jobs.wait_for_cancel()).collect();
    cancelled.sort_unstable();
    assert_eq!(cancelled, [0, 1, 2, 3]);
    host.wait_for_in_flight(0);
}

/// One after the other, because each looks at the memory of the process.
#[test]
fn a_client_that_never_reads_costs_bounded_memory_and_delays_no_others() {
    check_unread(Front::Own);
    check_unread(Front::Mounted);
}

fn check_unread(front: Front) {
    let host = host(front);
    let mut deaf = Socket::open(host.address);
    let before = resident_bytes();
    let big =
        frame(opcode::BINARY, br#"{"f":"conform.main:1.2:big","p":{"size":1000000},"rid":"C1"}"#);
    // a gigabyte of answers
    deaf.send_what_fits(&big.repeat(1000));
    for _ in 0..1000 {
        ping(host.address);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    // once it reads, it is served
    assert_eq!(deaf.receive()["r"].as_str().map(str::len), Some(1_000_000));
}

fn idle_connections_delay_no_others(front: Front) {
    let host = host(front);
    let mut sockets: Vec<Socket> = (0..IDLE).map(|_| Socket::open(host.address)).collect();
    ping(host.address);
    expect_quiet(sockets.last_mut().expect("some"));
    drop(sockets);
    host.connections.wait_for_the_end_of(IDLE);
}

/// Two file descriptors each, and most systems give a process a thousand or more.
const IDLE: usize = 400;

asyncsteps_support::on_both_fronts! {
    a_message_is_answered_in_frames_of_its_kind,
    each_message_is_answered_in_its_own_coding,
    text_is_no_data_in_a_binary_coding,
    the_path_is_served_with_and_without_the_trailing_slash,
    protocols_and_extensions_that_a_client_offers_are_not_taken,
    a_malformed_handshake_is_refused,
    answers_come_as_they_are_ready,
    a_function_without_a_result_is_silent_unless_it_fails_or_is_forced,
    errors_are_those_of_http,
    a_frame_without_a_message_is_ignored_and_counted,
    a_message_that_is_no_request_is_refused_if_it_has_an_id,
    a_message_that_is_too_large_closes_the_connection_with_1009,
    malformed_frames_close_the_connection_with_1002,
    a_message_may_come_in_parts_with_pings_in_between,
    a_closing_handshake_is_answered,
    a_closing_handshake_is_answered_with_its_code_if_that_is_valid,
    text_that_is_not_utf8_closes_the_connection_with_1007,
    a_connection_that_ends_cancels_all_its_flows,
    no_more_requests_of_a_connection_run_than_its_limit,
    idle_connections_delay_no_others,
}
