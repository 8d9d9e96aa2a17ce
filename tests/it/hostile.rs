//! The promise: nothing that anybody sends ends or blocks the server. Each message here gets its
//! error (`wire.md`) or a closed connection, and then a new client is served as if nothing was.

use std::fmt::Write as _;
use std::time::Duration;

use asyncsteps_executor::Executor;
use asyncsteps_support::client::{self, Connection, head, post};
use asyncsteps_support::conform;
use asyncsteps_support::jobs::Jobs;
use asyncsteps_support::server::TestServer;
use asyncsteps_support::shop::{Data, Shop};
use expect_test::{Expect, expect};

const PING: &str = r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7}}"#;

/// Posts each body, pings after each, and compares the answers.
#[track_caller]
fn check<'a>(bodies: impl IntoIterator<Item = (&'a str, Vec<u8>)>, expected: Expect) {
    let data = Data::new();
    let shop = Shop::start(&data);
    let mut out = String::new();
    for (name, body) in bodies {
        let answer = Connection::open(shop.address).post(&body);
        let text = answer.text();
        writeln!(out, "{name}\n    {} {text}", answer.status()).expect("a string takes all");
        client::ping(shop.address);
    }
    expected.assert_eq(&out);
}

/// The same for texts, which are their own names.
#[track_caller]
fn check_texts(bodies: &[&str], expected: Expect) {
    check(bodies.iter().map(|body| (*body, body.as_bytes().to_vec())), expected);
}

/// Does something to a server, which has to go on serving.
fn survive(attack: impl FnOnce(&mut Connection)) {
    let data = Data::new();
    let shop = Shop::start(&data);
    attack(&mut Connection::open(shop.address));
    client::ping(shop.address);
}

/// A ping with another value instead of 7.
fn ping_with(value: &str) -> Vec<u8> {
    PING.replace('7', value).into_bytes()
}

#[test]
fn values_that_are_no_messages_are_refused() {
    check_texts(
        &["null", "5", r#""x""#, "[]", "[{}]", "{}", "true", "{}{}"],
        expect![[r#"
            null
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            5
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            "x"
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            []
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            [{}]
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            true
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {}{}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
        "#]],
    );
}

#[test]
fn malformed_json_is_refused() {
    check_texts(
        &[
            "{",
            "}",
            "{\"f\"",
            "{\"f\":",
            "{\"f\":\"futoin.anonping:1.0:ping\",\"p\":{\"echo\":7}",
            "{\"f\":\"futoin.anonping:1.0:ping\",\"p\":{\"echo\":7}}}",
            "{\"f\":\"futoin.anonping:1.0:ping\",\"p\":{\"echo\":7},}",
            "{'f':'futoin.anonping:1.0:ping','p':{'echo':7}}",
            "{\"f\":\"futoin.anonping:1.0:ping\",\"p\":{\"echo\":07}}",
            "{\"f\":\"futoin.anonping:1.0:ping\",\"p\":{\"echo\":NaN}}",
            "f=futoin.anonping:1.0:ping",
            "<xml/>",
        ],
        expect![[r#"
            {
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            }
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f"
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7}}}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {'f':'futoin.anonping:1.0:ping','p':{'echo':7}}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":07}}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":NaN}}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            f=futoin.anonping:1.0:ping
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            <xml/>
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
        "#]],
    );
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let with = |bytes: &[u8]| {
        let text = PING.replace("ping\"", "ping@\"").into_bytes();
        let at = text.iter().position(|byte| *byte == b'@').expect("just put there");
        [&text[..at], bytes, &text[at + 1..]].concat()
    };
    check(
        [
            ("a lone continuation byte", with(b"\x80")),
            ("half a character", with(b"\xe2\x82")),
            ("an overlong slash", with(b"\xc0\xaf")),
            ("a surrogate", with(b"\xed\xa0\x80")),
            ("an escaped lone surrogate", with(br"\ud800")),
            ("all bytes", (0..=255).collect()),
            ("zeros", vec![0; 1000]),
            ("UTF-16", PING.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            ("a byte order mark", ["\u{feff}", PING].concat().into_bytes()),
            ("a NUL", with(b"\0")),
            ("nothing", Vec::new()),
            ("spaces", b" \r\n".to_vec()),
            ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec()),
        ],
        expect![[r#"
            a lone continuation byte
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            half a character
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            an overlong slash
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            a surrogate
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            an escaped lone surrogate
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            all bytes
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            zeros
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            UTF-16
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            a byte order mark
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            a NUL
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            nothing
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            spaces
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            gzip
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
        "#]],
    );
}

#[test]
fn deep_nesting_is_refused_without_recursion() {
    let nested = |open: &str, close: &str, depth| {
        ping_with(&format!("{}1{}", open.repeat(depth), close.repeat(depth)))
    };
    check(
        [
            ("60 lists as a value", nested("[", "]", 60)),
            ("10,000 lists as a value", nested("[", "]", 10_000)),
            ("10,000 objects as a value", nested("{\"a\":", "}", 10_000)),
            ("10,000 lists", "[".repeat(10_000).into_bytes()),
            ("10,000 objects", "{\"f\":".repeat(10_000).into_bytes()),
            ("10,000 ends", "]".repeat(10_000).into_bytes()),
            ("60,000 lists", "[".repeat(60_000).into_bytes()),
        ],
        expect![[r#"
            60 lists as a value
                200 {"e":"InvalidRequest","edesc":"Type mismatch for parameter: futoin.anonping:1.0:ping(echo) = \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]...\""}
            10,000 lists as a value
                200 {"e":"InvalidRequest","edesc":"Invalid message: nested too deep"}
            10,000 objects as a value
                200 {"e":"InvalidRequest","edesc":"Invalid message: nested too deep"}
            10,000 lists
                200 {"e":"InvalidRequest","edesc":"Invalid message: nested too deep"}
            10,000 objects
                200 {"e":"InvalidRequest","edesc":"Invalid message: nested too deep"}
            10,000 ends
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            60,000 lists
                200 {"e":"InvalidRequest","edesc":"Invalid message: nested too deep"}
        "#]],
    );
}

#[test]
fn unknown_fields_and_values_of_wrong_types_are_refused() {
    check_texts(
        &[
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"zzz":1}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"":1}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"__proto__":{}}"#,
            r#"{"f":null,"p":{"echo":7}}"#,
            r#"{"f":["futoin.anonping:1.0:ping"],"p":{"echo":7}}"#,
            r#"{"f":{},"p":{"echo":7}}"#,
            r#"{"f":true,"p":{"echo":7}}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":"echo"}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":[7]}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":7}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"rid":{}}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"rid":[]}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"rid":true}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"forcersp":"yes"}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"sec":{"user":"x"}}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"sec":5}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":[7]}}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":{}}}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":"7"}}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":null}}"#,
            r#"{"f":"../../etc/passwd:1.0:ping","p":{}}"#,
            r#"{"f":"futoin.anonping:99999999999999999999.0:ping","p":{}}"#,
            r#"{"f":"futoin.anonping:-1.0:ping","p":{}}"#,
        ],
        expect![[r#"
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"zzz":1}
                200 {"e":"InvalidRequest","edesc":"Unknown request field: zzz"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"":1}
                200 {"e":"InvalidRequest","edesc":"Unknown request field: "}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"__proto__":{}}
                200 {"e":"InvalidRequest","edesc":"Unknown request field: __proto__"}
            {"f":null,"p":{"echo":7}}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":["futoin.anonping:1.0:ping"],"p":{"echo":7}}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":{},"p":{"echo":7}}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":true,"p":{"echo":7}}
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":"futoin.anonping:1.0:ping","p":"echo"}
                200 {"e":"InvalidRequest","edesc":"Invalid message: p"}
            {"f":"futoin.anonping:1.0:ping","p":[7]}
                200 {"e":"InvalidRequest","edesc":"Invalid message: p"}
            {"f":"futoin.anonping:1.0:ping","p":7}
                200 {"e":"InvalidRequest","edesc":"Invalid message: p"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"rid":{}}
                200 {"e":"InvalidRequest","edesc":"Invalid message: rid"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"rid":[]}
                200 {"e":"InvalidRequest","edesc":"Invalid message: rid"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"rid":true}
                200 {"e":"InvalidRequest","edesc":"Invalid message: rid"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"forcersp":"yes"}
                200 {"e":"InvalidRequest","edesc":"Invalid message: forcersp"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"sec":{"user":"x"}}
                200 {"e":"SecurityError","edesc":"Basic Auth Verification Failed"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"sec":5}
                200 {"e":"SecurityError","edesc":"Basic Auth Verification Failed"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":[7]}}
                200 {"e":"InvalidRequest","edesc":"Type mismatch for parameter: futoin.anonping:1.0:ping(echo) = \"[7]\""}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":{}}}
                200 {"e":"InvalidRequest","edesc":"Type mismatch for parameter: futoin.anonping:1.0:ping(echo) = \"{}\""}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":"7"}}
                200 {"e":"InvalidRequest","edesc":"Type mismatch for parameter: futoin.anonping:1.0:ping(echo) = \"7\""}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":null}}
                200 {"e":"InvalidRequest","edesc":"Type mismatch for parameter: futoin.anonping:1.0:ping(echo) = \"null\""}
            {"f":"../../etc/passwd:1.0:ping","p":{}}
                200 {"e":"InvalidRequest","edesc":"Invalid req.f"}
            {"f":"futoin.anonping:99999999999999999999.0:ping","p":{}}
                200 {"e":"InvalidRequest","edesc":"Invalid req.f (version)"}
            {"f":"futoin.anonping:-1.0:ping","p":{}}
                200 {"e":"InvalidRequest","edesc":"Invalid req.f (version)"}
        "#]],
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    check(
        [
            ("1e999", ping_with("1e999")),
            ("-1e999", ping_with("-1e999")),
            ("1e-999", ping_with("1e-999")),
            ("400 digits", ping_with(&"7".repeat(400))),
            ("400 digits after the point", ping_with(&format!("0.{}", "7".repeat(400)))),
            ("an exponent of 400 digits", ping_with(&format!("1e{}", "7".repeat(400)))),
            ("2^31", ping_with("2147483648")),
            ("-2^31", ping_with("-2147483648")),
            ("2^64", ping_with("18446744073709551616")),
            ("-0", ping_with("-0")),
            ("7.5", ping_with("7.5")),
        ],
        expect![[r#"
            1e999
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            -1e999
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            1e-999
                200 {"r":{"echo":0}}
            400 digits
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            400 digits after the point
                200 {"e":"InvalidRequest","edesc":"Type mismatch for parameter: futoin.anonping:1.0:ping(echo) = \"0.7777777777777778\""}
            an exponent of 400 digits
                200 {"e":"InvalidRequest","edesc":"Missing req.f"}
            2^31
                200 {"e":"InvalidRequest","edesc":"Type mismatch for parameter: futoin.anonping:1.0:ping(echo) = \"2147483648\""}
            -2^31
                200 {"r":{"echo":-2147483648}}
            2^64
                200 {"e":"InvalidRequest","edesc":"Type mismatch for parameter: futoin.anonping:1.0:ping(echo) = \"1.8446744073709552e+19\""}
            -0
                200 {"r":{"echo":0}}
            7.5
                200 {"e":"InvalidRequest","edesc":"Type mismatch for parameter: futoin.anonping:1.0:ping(echo) = \"7.5\""}
        "#]],
    );
}

#[test]
fn a_repeated_field_is_refused_with_its_place() {
    check_texts(
        &[
            r#"{"f":"no.such:1.0:f","f":"futoin.anonping:1.0:ping","p":{"echo":7}}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":"x","echo":7}}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"p":{"echo":8}}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"rid":"C1","rid":"C2"}"#,
            r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"f":"futoin.ping:1.0:ping"}"#,
        ],
        expect![[r#"
            {"f":"no.such:1.0:f","f":"futoin.anonping:1.0:ping","p":{"echo":7}}
                200 {"e":"InvalidRequest","edesc":"Invalid message: duplicate key f"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":"x","echo":7}}
                200 {"e":"InvalidRequest","edesc":"Invalid message: duplicate key p.echo"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"p":{"echo":8}}
                200 {"e":"InvalidRequest","edesc":"Invalid message: duplicate key p"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"rid":"C1","rid":"C2"}
                200 {"e":"InvalidRequest","edesc":"Invalid message: duplicate key rid","rid":"C2"}
            {"f":"futoin.anonping:1.0:ping","p":{"echo":7},"f":"futoin.ping:1.0:ping"}
                200 {"e":"InvalidRequest","edesc":"Invalid message: duplicate key f"}
        "#]],
    );
}

#[test]
fn a_message_of_two_megabytes_is_refused() {
    survive(|client| {
        let mut body = PING.as_bytes().to_vec();
        body.resize(2 << 20, b' ');
        // the server answers before it has read everything, and closes
        if client.try_send(&post(&body)) {
            assert!(client.try_receive().is_none_or(|answer| answer.status() == 413));
        }
    });
}

#[test]
fn a_refused_length_costs_no_memory() {
    survive(|client| {
        client.send(&head("Content-Length: 18446744073709551615"));
        let answer = client.receive();
        assert!([400, 413, 431].contains(&answer.status()), "{answer}");
    });
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_request_is_forgotten() {
    let whole = post(PING.as_bytes());
    let data = Data::new();
    let shop = Shop::start(&data);
    for end in (0..whole.len()).step_by(7) {
        let mut client = Connection::open(shop.address);
        client.send(&whole[..end]).finish_sending();
        // no answer, or one that the request was bad; then the end
        let answer = client.try_receive();
        assert!(answer.is_none_or(|answer| answer.status() == 400), "after {end} bytes");
    }
    client::ping(shop.address);
}

#[test]
fn a_length_that_is_too_long_gets_no_answer_until_the_client_leaves() {
    survive(|client| {
        let length = PING.len() + 1;
        client.send(&head(&format!("Content-Length: {length}"))).send(PING.as_bytes());
        client.finish_sending();
        assert!(client.try_receive().is_none_or(|answer| answer.status() == 400));
    });
}

#[test]
fn a_message_that_does_not_arrive_in_time_is_not_waited_for() {
    let limit = Duration::from_millis(10);
    let (_jobs, builder) = Jobs::add(Executor::builder().request_timeout(limit));
    let host = TestServer::start(1, || builder.build().unwrap());
    for (length, body) in
        [("Content-Length: 100", "{"), ("Transfer-Encoding: chunked", "1\r\n{\r\n")]
    {
        let mut client = Connection::open(host.address);
        client.send(&head(length)).send(body.as_bytes());
        assert_eq!(client.receive().status(), 408);
        client.expect_closed();
    }
    host.connections.wait_for_the_end_of(2);
}

#[test]
fn a_refused_body_that_never_ends_is_not_waited_for() {
    let host = TestServer::start(1, conform::executor);
    let chunked = "Host: test\r\nTransfer-Encoding: chunked\r\n";
    for (request, status) in [
        (format!("POST /ftn/ HTTP/1.1\r\n{chunked}Content-Type: text/xml\r\n\r\n"), 415),
        (format!("PUT /ftn/ HTTP/1.1\r\n{chunked}\r\n"), 405),
        (format!("PUT /ftn/conform.main/1.2/answer HTTP/1.1\r\n{chunked}\r\n"), 405),
        // refused with a message
        (format!("POST /ftn/conform.main/1.2/answer HTTP/1.1\r\n{chunked}\r\n"), 200),
        (format!("POST /ftn/no.such/1.0/f HTTP/1.1\r\n{chunked}\r\n"), 200),
    ] {
        let mut client = Connection::open(host.address);
        client.send(request.as_bytes()).send(b"1\r\n{\r\n");
        assert_eq!(client.receive().status(), status, "{request}");
        client.expect_closed();
    }
    host.connections.wait_for_the_end_of(5);
}

#[test]
fn a_length_that_is_too_short_cuts_the_message() {
    survive(|client| {
        let length = PING.len() - 1;
        client.send(&head(&format!("Content-Length: {length}"))).send(PING.as_bytes());
        let answer = client.receive();
        assert_eq!(answer.text(), r#"{"e":"InvalidRequest","edesc":"Missing req.f"}"#);
        // the remaining bytes are no request
        assert_eq!(client.finish_sending().try_receive().map(|answer| answer.status()), Some(400));
    });
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    // what proxies in front could take for two different requests
    for headers in [
        "Content-Length: 5\r\nContent-Length: 50",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: -5",
        "Content-Length: 5, 5",
        "Content-Length: five",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: identity, nonsense",
    ] {
        survive(|client| {
            client.send(&head(headers));
            let answer = client.try_receive();
            assert!(answer.is_none_or(|answer| answer.status() == 400), "{headers}");
        });
    }
}

#[test]
fn malformed_chunks_are_refused() {
    for chunk in ["xyz\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "5\r\nabcdefgh\r\n", "\r\n\r\n"] {
        survive(|client| {
            client.send(&head("Transfer-Encoding: chunked")).send(chunk.as_bytes());
            client.finish_sending();
            let answer = client.try_receive();
            assert!(answer.is_none_or(|answer| answer.status() == 400), "{chunk:?}");
        });
    }
}

#[test]
fn bytes_that_are_not_http_are_refused() {
    for bytes in [
        b"\r\n\r\n\r\n".as_slice(),
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        b"GET /\r\n\r\n",
        b"POST /ftn/ HTTP/9.9\r\n\r\n",
        b"POST /ftn/ HTTP/1.1\r\nNo colon\r\n\r\n",
        b"POST /ftn/ HTTP/1.1\r\nHost: test\r\nX: \0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        survive(|client| {
            client.send(bytes).finish_sending();
            let answer = client.try_receive();
            let text = String::from_utf8_lossy(bytes);
            assert!(answer.is_none_or(|answer| answer.status() >= 400), "{text}");
        });
    }
}

#[test]
fn headers_without_end_are_refused() {
    survive(|client| {
        client.send(b"POST /ftn/ HTTP/1.1\r\nHost: test\r\n");
        let header = format!("X-Filler: {}\r\n", "x".repeat(4000));
        // a megabyte; the server stops before
        let taken = (0..256).all(|_| client.try_send(header.as_bytes()));
        let answer = client.try_receive();
        assert!(!taken || answer.is_none_or(|answer| answer.status() >= 400));
    });
}

#[test]
fn a_slow_sender_delays_no_others() {
    let data = Data::new();
    let shop = Shop::start(&data);
    let mut slow: Vec<Connection> = (0..20).map(|_| Connection::open(shop.address)).collect();
    for byte in post(PING.as_bytes()) {
        for client in &mut slow {
            client.send(&[byte]);
        }
        client::ping(shop.address);
    }
    for client in &mut slow {
        assert_eq!(client.receive().text(), r#"{"r":{"echo":7}}"#);
    }
}
