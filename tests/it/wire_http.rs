//! The promise: existing FutoIn clients get over HTTP exactly what they know (`wire.md`, FTN5).
//!
//! The answers are inline snapshots; `UPDATE_EXPECT=1` rewrites them.

use std::fmt::Write as _;

use asyncsteps_support::client::{Connection, head, message, post, post_with};
use asyncsteps_support::conform;
use asyncsteps_support::front::Front;
use asyncsteps_support::server::TestServer;
use expect_test::{Expect, expect};
use serde_json::json;

/// A message whose answer needs no explanation.
const ANSWER: &[u8] = br#"{"f":"conform.main:1.2:answer"}"#;

fn host(front: Front) -> TestServer {
    front.start(1, conform::executor)
}

/// Posts each message and compares the bodies; each answer has to be a FutoIn one.
#[track_caller]
fn check(front: Front, messages: &[&str], expected: Expect) {
    let host = host(front);
    let mut client = Connection::open(host.address);
    let mut out = String::new();
    for message in messages {
        let answer = client.post(message.as_bytes());
        assert_eq!(answer.status(), 200, "{message}");
        assert_eq!(answer.header("content-type"), Some("application/futoin+json"), "{message}");
        writeln!(out, "{message}\n    {}", answer.text()).expect("a string takes all");
    }
    expected.assert_eq(&out);
}

/// Sends whole requests, each on a connection of its own, and compares the answers.
#[track_caller]
fn check_http(front: Front, requests: &[Vec<u8>], expected: Expect) {
    let host = host(front);
    let mut out = String::new();
    for request in requests {
        let answer = Connection::open(host.address).send(request).receive();
        write!(out, "{answer}").expect("a string takes all");
    }
    expected.assert_eq(&out);
}

fn an_answer_is_compact_json_with_its_length_and_media_type(front: Front) {
    check_http(
        front,
        &[
            post(br#"{"f":"conform.main:1.2:echo","p":{"msg":"hi","n":1,"opt":null}}"#),
            post(br#"{"f":"conform.main:1.2:fail","p":{"code":"MyError"}}"#),
        ],
        expect![[r#"
            HTTP/1.1 200 OK
            content-length: 35
            content-type: application/futoin+json

            {"r":{"msg":"hi","n":1,"opt":null}}
            HTTP/1.1 200 OK
            content-length: 44
            content-type: application/futoin+json

            {"e":"MyError","edesc":"Details of MyError"}
        "#]],
    );
}

fn the_path_is_served_with_and_without_the_trailing_slash(front: Front) {
    check_http(
        front,
        &[post_with("/ftn/", "", ANSWER), post_with("/ftn", "", ANSWER)],
        expect![[r#"
            HTTP/1.1 200 OK
            content-length: 8
            content-type: application/futoin+json

            {"r":42}
            HTTP/1.1 200 OK
            content-length: 8
            content-type: application/futoin+json

            {"r":42}
        "#]],
    );
}

fn media_types_are_answered_in_kind_or_refused(front: Front) {
    let host = host(front);
    let mut out = String::new();
    for media in [
        "application/futoin+json",
        "application/vnd.futoin+json",
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/FUTOIN+JSON",
        "text/plain",
        "application/xml",
        "multipart/form-data; boundary=x",
    ] {
        let header = format!("Content-Type: {media}\r\n");
        let request = post_with("/ftn/", &header, ANSWER);
        let answer = Connection::open(host.address).send(&request).receive();
        let own = answer.header("content-type").unwrap_or("none");
        writeln!(out, "{media}: {} {own} {:?}", answer.status(), answer.text())
            .expect("a string takes all");
    }
    expect![[r#"
        application/futoin+json: 200 application/futoin+json "{\"r\":42}"
        application/vnd.futoin+json: 200 application/vnd.futoin+json "{\"r\":42}"
        application/json: 200 application/futoin+json "{\"r\":42}"
        application/json; charset=utf-8: 200 application/futoin+json "{\"r\":42}"
        APPLICATION/FUTOIN+JSON: 200 application/futoin+json "{\"r\":42}"
        text/plain: 415 application/futoin+json "{\"e\":\"InvalidRequest\",\"edesc\":\"Unsupported media type: a message is application/json\"}"
        application/xml: 415 application/futoin+json "{\"e\":\"InvalidRequest\",\"edesc\":\"Unsupported media type: a message is application/json\"}"
        multipart/form-data; boundary=x: 415 application/futoin+json "{\"e\":\"InvalidRequest\",\"edesc\":\"Unsupported media type: a message is application/json\"}"
    "#]]
    .assert_eq(&out);
}

fn content_codings_are_refused(front: Front) {
    let host = host(front);
    for (path, status) in [("/ftn/", 415), ("/ftn/conform.main/1.2/answer", 415)] {
        for (coding, status) in [("gzip", status), ("br, gzip", status), ("identity", 200)] {
            let header =
                format!("Content-Type: application/json\r\nContent-Encoding: {coding}\r\n");
            let body = if path == "/ftn/" { ANSWER } else { b"{}" };
            let answer =
                Connection::open(host.address).send(&post_with(path, &header, body)).receive();
            assert_eq!(answer.status(), status, "{path} {coding}: {}", answer.text());
            let accepted = (status == 415).then_some("identity");
            assert_eq!(answer.header("accept-encoding"), accepted, "{path} {coding}");
        }
    }
}

fn other_paths_belong_to_the_application(front: Front) {
    let host = host(front);
    for path in ["/", "/ftnx", "/ftnx/", "/other/ftn/"] {
        let answer = Connection::open(host.address).send(&post_with(path, "", ANSWER)).receive();
        assert_eq!(answer.status(), 404, "{path}");
    }
}

fn a_message_over_the_limit_is_refused(front: Front) {
    // `bigIn` takes 1 MB, and no function of the host takes more
    let limit = 1 << 20;
    let host = host(front);
    let too_long = head(&format!("Content-Length: {}", limit + 1));
    let told = Connection::open(host.address).send(&too_long).receive();
    assert_eq!((told.status(), told.text()), (413, ""));

    let mut client = Connection::open(host.address);
    client.send(&head("Transfer-Encoding: chunked"));
    let chunk = [b"10000\r\n", " ".repeat(0x10000).as_bytes(), b"\r\n"].concat();
    // the server may refuse and close before it was given everything
    let _ = (0..=limit / 0x10000).all(|_| client.try_send(&chunk));
    assert!(client.try_receive().is_none_or(|answer| answer.status() == 413));

    let around = message("conform.main:1.2:bigIn", &json!({ "data": "" })).len();
    let fits = message("conform.main:1.2:bigIn", &json!({ "data": "x".repeat(limit - around) }));
    assert_eq!(fits.len(), limit);
    let answer = Connection::open(host.address).post(&fits);
    assert_eq!(answer.json(), json!({ "r": { "len": limit - around } }));
}

fn a_function_without_a_result_is_answered_with_nothing_unless_forced(front: Front) {
    check_http(
        front,
        &[
            post(br#"{"f":"conform.main:1.2:notify","p":{"v":5}}"#),
            post(br#"{"f":"conform.main:1.2:notify","p":{"v":6},"rid":"C1"}"#),
            post(br#"{"f":"conform.main:1.2:notify","p":{"v":7},"forcersp":true}"#),
            post(br#"{"f":"conform.main:1.2:notify","p":{"v":8},"forcersp":true,"rid":"C2"}"#),
            post(br#"{"f":"conform.main:1.2:notify","p":{"v":"text"}}"#),
        ],
        expect![[r#"
            HTTP/1.1 200 OK
            content-length: 0


            HTTP/1.1 200 OK
            content-length: 0


            HTTP/1.1 200 OK
            content-length: 8
            content-type: application/futoin+json

            {"r":{}}
            HTTP/1.1 200 OK
            content-length: 19
            content-type: application/futoin+json

            {"r":{},"rid":"C2"}
            HTTP/1.1 200 OK
            content-length: 99
            content-type: application/futoin+json

            {"e":"InvalidRequest","edesc":"Type mismatch for parameter: conform.main:1.2:notify(v) = \"text\""}
        "#]],
    );
}

fn the_request_id_is_repeated_whatever_comes_of_the_request(front: Front) {
    check(
        front,
        &[
            r#"{"f":"conform.main:1.2:answer","rid":"C1"}"#,
            r#"{"f":"conform.main:1.2:answer","rid":7,"forcersp":true}"#,
            r#"{"rid":"C2","f":"conform.main:1.2:fail","p":{"code":"MyError"}}"#,
            r#"{"rid":"C3","f":"conform.main:1.2:fail"}"#,
            r#"{"rid":"C4","f":"conform.main:1.2:crash"}"#,
            r#"{"rid":"C5","f":"no.such:1.0:f"}"#,
            r#"{"rid":"C6"}"#,
            r#"{"f":"conform.main:1.2:answer","rid":null}"#,
        ],
        expect![[r#"
            {"f":"conform.main:1.2:answer","rid":"C1"}
                {"r":42,"rid":"C1"}
            {"f":"conform.main:1.2:answer","rid":7,"forcersp":true}
                {"r":42,"rid":7}
            {"rid":"C2","f":"conform.main:1.2:fail","p":{"code":"MyError"}}
                {"e":"MyError","edesc":"Details of MyError","rid":"C2"}
            {"rid":"C3","f":"conform.main:1.2:fail"}
                {"e":"InvalidRequest","edesc":"Invalid message: p","rid":"C3"}
            {"rid":"C4","f":"conform.main:1.2:crash"}
                {"e":"InternalError","edesc":"Not expected error","rid":"C4"}
            {"rid":"C5","f":"no.such:1.0:f"}
                {"e":"UnknownInterface","edesc":"Unknown interface: no.such","rid":"C5"}
            {"rid":"C6"}
                {"e":"InvalidRequest","edesc":"Missing req.f","rid":"C6"}
            {"f":"conform.main:1.2:answer","rid":null}
                {"r":42}
        "#]],
    );
}

fn any_type_can_be_a_result(front: Front) {
    let functions = ["answer", "zero", "nope", "blank", "words"];
    let messages = functions.map(|name| format!(r#"{{"f":"conform.main:1.2:{name}"}}"#));
    check(
        front,
        &messages.each_ref().map(String::as_str),
        expect![[r#"
            {"f":"conform.main:1.2:answer"}
                {"r":42}
            {"f":"conform.main:1.2:zero"}
                {"r":0}
            {"f":"conform.main:1.2:nope"}
                {"r":false}
            {"f":"conform.main:1.2:blank"}
                {"r":""}
            {"f":"conform.main:1.2:words"}
                {"r":["ab","cd"]}
        "#]],
    );
}

fn parameters_are_checked_and_defaults_filled_in(front: Front) {
    check(
        front,
        &[
            r#"{"f":"conform.main:1.2:echo","p":{"msg":"\u00e9\u20ac\ud83d\ude00"}}"#,
            r#"{"f":"conform.main:1.2:echo","p":{"msg":"hi","n":null,"opt":"x"}}"#,
            r#"{"f":"conform.main:1.2:echo","p":{"n":1}}"#,
            r#"{"f":"conform.main:1.2:echo","p":{"msg":"hi","zzz":1}}"#,
            r#"{"f":"conform.main:1.2:echo","p":{"msg":"hi","n":"text"}}"#,
            r#"{"f":"conform.main:1.2:echo","p":{"msg":"hi","n":2147483648}}"#,
            r#"{"f":"conform.main:1.2:echo","p":{"msg":"hi","n":1.5}}"#,
            r#"{"f":"conform.main:1.2:echo","p":{"msg":"hi","n":1e2}}"#,
            r#"{"f":"conform.main:1.2:variant","p":{"v":"text"}}"#,
            r#"{"f":"conform.main:1.2:variant","p":{"v":true}}"#,
            r#"{"f":"conform.main:1.2:shortcut","p":{"a":1,"b":"c"}}"#,
            r#"{"f":"conform.main:1.2:types","p":{"si":11}}"#,
            r#"{"f":"conform.main:1.2:types","p":{"w":"Upper"}}"#,
            r#"{"f":"conform.main:1.2:types","p":{"f":["r","r"]}}"#,
        ],
        expect![[r#"
            {"f":"conform.main:1.2:echo","p":{"msg":"\u00e9\u20ac\ud83d\ude00"}}
                {"r":{"msg":"é€😀","n":1,"opt":null}}
            {"f":"conform.main:1.2:echo","p":{"msg":"hi","n":null,"opt":"x"}}
                {"r":{"msg":"hi","n":1,"opt":"x"}}
            {"f":"conform.main:1.2:echo","p":{"n":1}}
                {"e":"InvalidRequest","edesc":"Missing parameter: conform.main:1.2:echo(msg)"}
            {"f":"conform.main:1.2:echo","p":{"msg":"hi","zzz":1}}
                {"e":"InvalidRequest","edesc":"Unknown parameter: conform.main:1.2:echo(zzz)"}
            {"f":"conform.main:1.2:echo","p":{"msg":"hi","n":"text"}}
                {"e":"InvalidRequest","edesc":"Type mismatch for parameter: conform.main:1.2:echo(n) = \"text\""}
            {"f":"conform.main:1.2:echo","p":{"msg":"hi","n":2147483648}}
                {"e":"InvalidRequest","edesc":"Type mismatch for parameter: conform.main:1.2:echo(n) = \"2147483648\""}
            {"f":"conform.main:1.2:echo","p":{"msg":"hi","n":1.5}}
                {"e":"InvalidRequest","edesc":"Type mismatch for parameter: conform.main:1.2:echo(n) = \"1.5\""}
            {"f":"conform.main:1.2:echo","p":{"msg":"hi","n":1e2}}
                {"r":{"msg":"hi","n":100,"opt":null}}
            {"f":"conform.main:1.2:variant","p":{"v":"text"}}
                {"r":{"v":"text"}}
            {"f":"conform.main:1.2:variant","p":{"v":true}}
                {"e":"InvalidRequest","edesc":"Type mismatch for parameter: conform.main:1.2:variant(v) = \"true\""}
            {"f":"conform.main:1.2:shortcut","p":{"a":1,"b":"c"}}
                {"r":{"a":1,"b":"c"}}
            {"f":"conform.main:1.2:types","p":{"si":11}}
                {"e":"InvalidRequest","edesc":"Type mismatch for parameter: conform.main:1.2:types(si) = \"11\""}
            {"f":"conform.main:1.2:types","p":{"w":"Upper"}}
                {"e":"InvalidRequest","edesc":"Type mismatch for parameter: conform.main:1.2:types(w) = \"Upper\""}
            {"f":"conform.main:1.2:types","p":{"f":["r","r"]}}
                {"e":"InvalidRequest","edesc":"Type mismatch for parameter: conform.main:1.2:types(f) = \"[\"r\",\"r\"]\""}
        "#]],
    );
}

fn a_function_that_is_not_served_is_refused(front: Front) {
    check(
        front,
        &[
            r#"{"f":"no.such:1.0:f","p":{}}"#,
            r#"{"f":"conform.main:2.0:answer","p":{}}"#,
            r#"{"f":"conform.main:1.3:answer","p":{}}"#,
            r#"{"f":"conform.main:1.10:answer","p":{}}"#,
            r#"{"f":"conform.main:1.0:answer","p":{}}"#,
            r#"{"f":"conform.main:1.2:noSuch","p":{}}"#,
            r#"{"f":"conform.main:1.2:missingImpl","p":{}}"#,
        ],
        expect![[r#"
            {"f":"no.such:1.0:f","p":{}}
                {"e":"UnknownInterface","edesc":"Unknown interface: no.such"}
            {"f":"conform.main:2.0:answer","p":{}}
                {"e":"NotSupportedVersion","edesc":"Different major version: conform.main:2"}
            {"f":"conform.main:1.3:answer","p":{}}
                {"e":"NotSupportedVersion","edesc":"Iface version is too old: conform.main:1.3"}
            {"f":"conform.main:1.10:answer","p":{}}
                {"e":"NotSupportedVersion","edesc":"Iface version is too old: conform.main:1.10"}
            {"f":"conform.main:1.0:answer","p":{}}
                {"r":42}
            {"f":"conform.main:1.2:noSuch","p":{}}
                {"e":"InvalidRequest","edesc":"Unknown interface function: noSuch"}
            {"f":"conform.main:1.2:missingImpl","p":{}}
                {"e":"NotImplemented","edesc":"Missing function implementation"}
        "#]],
    );
}

fn an_inherited_function_is_served_under_both_names(front: Front) {
    check(
        front,
        &[
            r#"{"f":"conform.derived:1.1:hello","p":{"name":"you","lang":"de"}}"#,
            r#"{"f":"conform.derived:1.0:hello","p":{"name":"you"}}"#,
            r#"{"f":"conform.derived:1.1:bye"}"#,
            r#"{"f":"conform.base:1.0:hello","p":{}}"#,
            r#"{"f":"conform.base:1.0:bye"}"#,
            r#"{"f":"conform.base:1.1:hello","p":{"name":"you"}}"#,
        ],
        expect![[r#"
            {"f":"conform.derived:1.1:hello","p":{"name":"you","lang":"de"}}
                {"r":{"greeting":"Hello, you","lang":"de"}}
            {"f":"conform.derived:1.0:hello","p":{"name":"you"}}
                {"r":{"greeting":"Hello, you","lang":"en"}}
            {"f":"conform.derived:1.1:bye"}
                {"r":"Bye"}
            {"f":"conform.base:1.0:hello","p":{}}
                {"e":"InvalidRequest","edesc":"Missing parameter: conform.base:1.0:hello(name)"}
            {"f":"conform.base:1.0:bye"}
                {"e":"InvalidRequest","edesc":"Unknown interface function: bye"}
            {"f":"conform.base:1.1:hello","p":{"name":"you"}}
                {"e":"NotSupportedVersion","edesc":"Iface version is too old: conform.base:1.1"}
        "#]],
    );
}

fn a_message_that_is_no_request_is_refused(front: Front) {
    check(
        front,
        &[
            r#"{"f":"conform.main:1.2:echo"}"#,
            r#"{"f":"conform.main:1.2:echo","p":null}"#,
            r#"{"f":"conform.main:1.2:echo","p":[]}"#,
            r#"{"f":"conform.main:1.2:answer"}"#,
            r#"{"f":"conform.main:1.2:answer","p":null}"#,
            r#"{"f":"conform.main:1.2:answer","p":{},"zzz":1}"#,
            r#"{"f":"conform.main:1.2:answer","p":{"yyy":1},"zzz":1}"#,
            r#"{"p":{}}"#,
            r#"{"f":"","p":{}}"#,
            r#"{"f":"conform.main"}"#,
            r#"{"f":"conform.main:1.2"}"#,
            r#"{"f":"conform.main:1.2:answer:more"}"#,
            r#"{"f":5}"#,
            r#"{"f":"conform.main:1:answer"}"#,
            r#"{"f":"conform.main:one.two:answer"}"#,
            r#"{"f":"conform.main:1.2:answer"#,
        ],
        expect![[r#"
            {"f":"conform.main:1.2:echo"}
                {"e":"InvalidRequest","edesc":"Invalid message: p"}
            {"f":"conform.main:1.2:echo","p":null}
                {"e":"InvalidRequest","edesc":"Invalid message: p"}
            {"f":"conform.main:1.2:echo","p":[]}
                {"e":"InvalidRequest","edesc":"Invalid message: p"}
            {"f":"conform.main:1.2:answer"}
                {"r":42}
            {"f":"conform.main:1.2:answer","p":null}
                {"e":"InvalidRequest","edesc":"Invalid message: p"}
            {"f":"conform.main:1.2:answer","p":{},"zzz":1}
                {"e":"InvalidRequest","edesc":"Unknown request field: zzz"}
            {"f":"conform.main:1.2:answer","p":{"yyy":1},"zzz":1}
                {"e":"InvalidRequest","edesc":"Unknown parameter: conform.main:1.2:answer(yyy)"}
            {"p":{}}
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":"","p":{}}
                {"e":"InvalidRequest","edesc":"Invalid req.f"}
            {"f":"conform.main"}
                {"e":"InvalidRequest","edesc":"Invalid req.f"}
            {"f":"conform.main:1.2"}
                {"e":"InvalidRequest","edesc":"Invalid req.f"}
            {"f":"conform.main:1.2:answer:more"}
                {"e":"InvalidRequest","edesc":"Invalid req.f"}
            {"f":5}
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":"conform.main:1:answer"}
                {"e":"InvalidRequest","edesc":"Invalid req.f (version)"}
            {"f":"conform.main:one.two:answer"}
                {"e":"InvalidRequest","edesc":"Invalid req.f (version)"}
            {"f":"conform.main:1.2:answer
                {"e":"InvalidRequest","edesc":"Missing req.f"}
        "#]],
    );
}

fn callers_see_the_errors_that_are_meant_for_them(front: Front) {
    check(
        front,
        &[
            r#"{"f":"conform.main:1.2:fail","p":{"code":"MyError"}}"#,
            r#"{"f":"conform.main:1.2:fail","p":{"code":"OTHER_ERROR","later":true}}"#,
            r#"{"f":"conform.main:1.2:fail","p":{"code":"NotDeclared"}}"#,
            r#"{"f":"conform.main:1.2:fail","p":{"code":"NotDeclared","later":true}}"#,
            r#"{"f":"conform.main:1.2:fail","p":{"code":"SecurityError"}}"#,
            r#"{"f":"conform.main:1.2:crash"}"#,
        ],
        expect![[r#"
            {"f":"conform.main:1.2:fail","p":{"code":"MyError"}}
                {"e":"MyError","edesc":"Details of MyError"}
            {"f":"conform.main:1.2:fail","p":{"code":"OTHER_ERROR","later":true}}
                {"e":"OTHER_ERROR","edesc":"Details of OTHER_ERROR"}
            {"f":"conform.main:1.2:fail","p":{"code":"NotDeclared"}}
                {"e":"InternalError","edesc":"Not expected error"}
            {"f":"conform.main:1.2:fail","p":{"code":"NotDeclared","later":true}}
                {"e":"InternalError","edesc":"Not expected error"}
            {"f":"conform.main:1.2:fail","p":{"code":"SecurityError"}}
                {"e":"SecurityError","edesc":"Details of SecurityError"}
            {"f":"conform.main:1.2:crash"}
                {"e":"InternalError","edesc":"Not expected error"}
        "#]],
    );
}

fn a_bad_result_is_not_sent(front: Front) {
    check(
        front,
        &[
            r#"{"f":"conform.main:1.2:badResult","p":{"kind":"missing"}}"#,
            r#"{"f":"conform.main:1.2:badResult","p":{"kind":"extra"}}"#,
            r#"{"f":"conform.main:1.2:badResult","p":{"kind":"type"}}"#,
            r#"{"f":"conform.main:1.2:big","p":{"size":1048577},"rid":"C1"}"#,
        ],
        expect![[r#"
            {"f":"conform.main:1.2:badResult","p":{"kind":"missing"}}
                {"e":"InternalError","edesc":"Missing result variable: badResult(a)"}
            {"f":"conform.main:1.2:badResult","p":{"kind":"extra"}}
                {"e":"InternalError","edesc":"Unknown result variable: badResult(b)"}
            {"f":"conform.main:1.2:badResult","p":{"kind":"type"}}
                {"e":"InternalError","edesc":"Type mismatch for result variable: badResult(a) = \"text\""}
            {"f":"conform.main:1.2:big","p":{"size":1048577},"rid":"C1"}
                {"e":"InternalError","edesc":"Response size has exceeded the limit","rid":"C1"}
        "#]],
    );
    let answer = Connection::open(host(front).address)
        .post(br#"{"f":"conform.main:1.2:big","p":{"size":1000000}}"#);
    assert_eq!(answer.json()["r"], "x".repeat(1_000_000));
}

fn calls_that_are_not_allowed_are_refused(front: Front) {
    check(
        front,
        &[
            r#"{"f":"conform.secret:1.0:whoami"}"#,
            r#"{"f":"conform.secret:1.0:priv"}"#,
            r#"{"f":"conform.secret:2.0:whoami"}"#,
            r#"{"f":"conform.main:1.2:priv"}"#,
            r#"{"f":"conform.main:1.2:answer","sec":"user:password"}"#,
            r#"{"f":"conform.secure:1.0:hello"}"#,
            r#"{"f":"conform.signed:1.0:sum","p":{"a":1,"b":2}}"#,
            r#"{"f":"conform.bidi:1.0:acks"}"#,
        ],
        expect![[r#"
            {"f":"conform.secret:1.0:whoami"}
                {"e":"SecurityError","edesc":"Anonymous not allowed"}
            {"f":"conform.secret:1.0:priv"}
                {"e":"SecurityError","edesc":"Anonymous not allowed"}
            {"f":"conform.secret:2.0:whoami"}
                {"e":"SecurityError","edesc":"Anonymous not allowed"}
            {"f":"conform.main:1.2:priv"}
                {"e":"PleaseReauth","edesc":"PrivilegedOps"}
            {"f":"conform.main:1.2:answer","sec":"user:password"}
                {"e":"SecurityError","edesc":"Basic Auth Verification Failed"}
            {"f":"conform.secure:1.0:hello"}
                {"e":"SecurityError","edesc":"Insecure channel"}
            {"f":"conform.signed:1.0:sum","p":{"a":1,"b":2}}
                {"e":"SecurityError","edesc":"Anonymous not allowed"}
            {"f":"conform.bidi:1.0:acks"}
                {"e":"InvalidRequest","edesc":"Bi-Direct Channel is required"}
        "#]],
    );
}

fn a_client_that_offers_another_protocol_is_answered_in_this_one(front: Front) {
    let host = host(front);
    let http_2 = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n";
    let socket = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    let missing = r#"{"e":"InvalidRequest","edesc":"Missing req.f"}"#;
    for (offer, message, expected) in [(http_2, ANSWER, r#"{"r":42}"#), (socket, b"", missing)] {
        let mut client = Connection::open(host.address);
        let answer = client.send(&post_with("/ftn/", offer, message)).receive();
        assert_eq!((answer.text(), answer.header("connection")), (expected, Some("close")));
        client.expect_closed();
    }
}

asyncsteps_support::on_both_fronts! {
    an_answer_is_compact_json_with_its_length_and_media_type,
    the_path_is_served_with_and_without_the_trailing_slash,
    media_types_are_answered_in_kind_or_refused,
    content_codings_are_refused,
    other_paths_belong_to_the_application,
    a_message_over_the_limit_is_refused,
    a_function_without_a_result_is_answered_with_nothing_unless_forced,
    the_request_id_is_repeated_whatever_comes_of_the_request,
    any_type_can_be_a_result,
    parameters_are_checked_and_defaults_filled_in,
    a_function_that_is_not_served_is_refused,
    an_inherited_function_is_served_under_both_names,
    a_message_that_is_no_request_is_refused,
    callers_see_the_errors_that_are_meant_for_them,
    a_bad_result_is_not_sent,
    calls_that_are_not_allowed_are_refused,
    a_client_that_offers_another_protocol_is_answered_in_this_one,
}
