//! The promise: functions can be called by their URLs, and raw data goes both ways (`wire.md`, FTN5).

use std::fmt::Write as _;

use asyncsteps_core::Template;
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::net::TrustedProxies;
use asyncsteps_executor::{Executor, RequestSteps};
use asyncsteps_support::client::{Connection, ping, post_with};
use asyncsteps_support::conform;
use asyncsteps_support::front::Front;
use asyncsteps_support::server::TestServer;
use asyncsteps_support::shop::{self, Data, Shop};
use asyncsteps_transport::http::Cors;
use executor_demo::Config;
use expect_test::{Expect, expect};
use serde_json::json;

fn host(front: Front) -> TestServer {
    front.start(1, conform::executor)
}

fn request(method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// Gets each path on a connection of its own and compares the answers.
#[track_caller]
fn check(front: Front, paths: &[&str], expected: Expect) {
    let host = host(front);
    let mut out = String::new();
    for path in paths {
        let answer = Connection::open(host.address).send(&request("GET", path, "", b"")).receive();
        let text = answer.text();
        writeln!(out, "{path}\n    {} {text}", answer.status()).expect("a string takes all");
    }
    ping(host.address);
    expected.assert_eq(&out);
}

fn parameters_come_in_the_query(front: Front) {
    check(
        front,
        &[
            "/ftn/conform.main/1.2/answer",
            "/ftn/conform.main/1.2/answer/",
            "/ftn/conform.main/1.2/echo?msg=a+b%2Bc&n=5",
            "/ftn/conform.main/1.2/echo/?msg=5",
            "/ftn/conform.main/1.2/variant?v=5",
            "/ftn/conform.main/1.2/shortcut?a=7&b=7",
            "/ftn/conform.main/1.2/types?l=[1,2]&p=%7B%22x%22%3A1%2C%22y%22%3A2%7D&b=true",
            "/ftn/conform.main/1.2/notify?v=5",
            "/ftn/conform.main/1.2/echo",
            "/ftn/conform.main/1.2/echo?msg=hi&n=text",
            "/ftn/conform.main/1.2/echo?msg=hi&zzz=1",
            "/ftn/conform.main/1.2/echo?msg=1&msg=2",
            "/ftn/conform.main/1.2/echo?msg=%ff",
            "/ftn/conform.main/1.2/echo?msg=%",
            "/ftn/no.such/1.0/f",
            "/ftn/conform.main/1.2/noSuch",
            "/ftn/conform.main/1/answer",
            "/ftn/conform.main",
            "/ftn/conform.main/?msg=hi",
            "/ftn/conform.main/1.2",
            "/ftn/conform.main/1.2/",
            "/ftn/no.such",
        ],
        expect![[r#"
            /ftn/conform.main/1.2/answer
                200 {"r":42}
            /ftn/conform.main/1.2/answer/
                200 {"r":42}
            /ftn/conform.main/1.2/echo?msg=a+b%2Bc&n=5
                200 {"r":{"msg":"a b+c","n":5,"opt":null}}
            /ftn/conform.main/1.2/echo/?msg=5
                200 {"r":{"msg":"5","n":1,"opt":null}}
            /ftn/conform.main/1.2/variant?v=5
                200 {"r":{"v":"5"}}
            /ftn/conform.main/1.2/shortcut?a=7&b=7
                200 {"r":{"a":7,"b":"7"}}
            /ftn/conform.main/1.2/types?l=[1,2]&p=%7B%22x%22%3A1%2C%22y%22%3A2%7D&b=true
                200 {"r":{"got":{"a":null,"b":true,"c":null,"cm":null,"e":null,"f":null,"i":null,"id":null,"l":[1,2],"m":null,"p":{"label":null,"x":1,"y":2},"r":null,"s":null,"si":null,"uid":null,"w":null,"ws":null,"x":null}}}
            /ftn/conform.main/1.2/notify?v=5
                200 
            /ftn/conform.main/1.2/echo
                200 {"e":"InvalidRequest","edesc":"Missing parameter: conform.main:1.2:echo(msg)"}
            /ftn/conform.main/1.2/echo?msg=hi&n=text
                200 {"e":"InvalidRequest","edesc":"Type mismatch for parameter: conform.main:1.2:echo(n) = \"text\""}
            /ftn/conform.main/1.2/echo?msg=hi&zzz=1
                200 {"e":"InvalidRequest","edesc":"Unknown parameter: conform.main:1.2:echo(zzz)"}
            /ftn/conform.main/1.2/echo?msg=1&msg=2
                200 {"e":"InvalidRequest","edesc":"Duplicate parameter: msg"}
            /ftn/conform.main/1.2/echo?msg=%ff
                200 {"e":"InvalidRequest","edesc":"Invalid URL: not UTF-8"}
            /ftn/conform.main/1.2/echo?msg=%
                200 {"e":"InvalidRequest","edesc":"Invalid URL: percent-encoding"}
            /ftn/no.such/1.0/f
                200 {"e":"UnknownInterface","edesc":"Unknown interface: no.such"}
            /ftn/conform.main/1.2/noSuch
                200 {"e":"InvalidRequest","edesc":"Unknown interface function: noSuch"}
            /ftn/conform.main/1/answer
                200 {"e":"InvalidRequest","edesc":"Invalid req.f (version)"}
            /ftn/conform.main
                200 {"e":"InvalidRequest","edesc":"Invalid req.f"}
            /ftn/conform.main/?msg=hi
                200 {"e":"InvalidRequest","edesc":"Invalid req.f"}
            /ftn/conform.main/1.2
                200 {"e":"InvalidRequest","edesc":"Invalid req.f"}
            /ftn/conform.main/1.2/
                200 {"e":"InvalidRequest","edesc":"Invalid req.f"}
            /ftn/no.such
                200 {"e":"InvalidRequest","edesc":"Invalid req.f"}
        "#]],
    );
}

fn parameters_come_as_an_object_too(front: Front) {
    let host = host(front);
    let (json, deep) = ("application/json", format!(r#"{{"msg":{}1"#, "[".repeat(80)));
    let long = format!(r#"{{"msg":"{}"}}"#, "x".repeat(70_000));
    let long_for_all = format!(r#"{{"msg":"{}"}}"#, "x".repeat(3 << 20));
    let mut out = String::new();
    for (path, media, body) in [
        ("echo", json, r#"{"msg":"5","n":6}"#),
        ("echo/", "Application/JSON; charset=utf-8", r#" {"msg":"a"} "#),
        ("echo?n=7", json, r#"{"msg":"a"}"#),
        ("echo?n=7", json, r#"{"msg":"a","n":7}"#),
        ("echo", json, r#"{"msg":"a","zzz":1}"#),
        ("echo", json, r#"{"msg":5}"#),
        ("echo", json, r#"{"msg":"a","msg":"b"}"#),
        ("echo", json, "[]"),
        ("echo", json, r#"{"msg""#),
        ("echo", json, &deep),
        ("echo", json, &long),
        ("echo", json, &long_for_all),
        ("echo", "text/json", r#"{"msg":"a"}"#),
        ("answer", json, ""),
        ("notify", json, r#"{"v":5}"#),
        ("upload?name=raw", json, "{}"),
    ] {
        let headers = format!("Content-Type: {media}\r\n");
        let call = post_with(&format!("/ftn/conform.main/1.2/{path}"), &headers, body.as_bytes());
        let mut client = Connection::open(host.address);
        let _ = client.try_send(&call);
        let (answer, body) = (client.receive(), body.get(..20).unwrap_or(body));
        writeln!(out, "{path} {body}\n    {} {}", answer.status(), answer.text())
            .expect("a string takes all");
    }
    ping(host.address);
    expect![[r#"
        echo {"msg":"5","n":6}
            200 {"r":{"msg":"5","n":6,"opt":null}}
        echo/  {"msg":"a"} 
            200 {"r":{"msg":"a","n":1,"opt":null}}
        echo?n=7 {"msg":"a"}
            200 {"r":{"msg":"a","n":7,"opt":null}}
        echo?n=7 {"msg":"a","n":7}
            200 {"e":"InvalidRequest","edesc":"Duplicate parameter: n"}
        echo {"msg":"a","zzz":1}
            200 {"e":"InvalidRequest","edesc":"Unknown parameter: conform.main:1.2:echo(zzz)"}
        echo {"msg":5}
            200 {"e":"InvalidRequest","edesc":"Type mismatch for parameter: conform.main:1.2:echo(msg) = \"5\""}
        echo {"msg":"a","msg":"b"
            200 {"e":"InvalidRequest","edesc":"Invalid message: duplicate key msg"}
        echo []
            200 {"e":"InvalidRequest","edesc":"Invalid message: p"}
        echo {"msg"
            200 {"e":"InvalidRequest","edesc":"Invalid body: not JSON: EOF while parsing an object at line 1 column 6"}
        echo {"msg":[[[[[[[[[[[[[
            200 {"e":"InvalidRequest","edesc":"Invalid message: nested too deep"}
        echo {"msg":"xxxxxxxxxxxx
            413 {"e":"InvalidRequest","edesc":"Request size has exceeded the limit"}
        echo {"msg":"xxxxxxxxxxxx
            413 
        echo {"msg":"a"}
            200 {"e":"InvalidRequest","edesc":"Raw upload is not allowed: parameters are in the query of the URL, or an object in a body of the type application/json"}
        answer 
            200 {"r":42}
        notify {"v":5}
            200 
        upload?name=raw {}
            200 {"r":{"n":0,"name":"raw","size":2,"sum":248}}
    "#]].assert_eq(&out);
    // in chunks, and to the interface of a user
    let path = "/ftn/conform.main/1.2/echo";
    let headers = format!("Content-Type: {json}\r\nTransfer-Encoding: chunked\r\n");
    let chunked = request("POST", path, &headers, b"5\r\n{\"msg\r\n6\r\n\":\"a\"}\r\n0\r\n\r\n");
    let answer = Connection::open(host.address).send(&chunked).receive();
    assert_eq!(answer.json()["r"]["msg"], "a");
    let signed = post_with(
        "/ftn/conform.signed/1.0/sum",
        "Content-Type: application/json\r\n",
        b"{\"a\":1}",
    );
    let answer = Connection::open(host.address).send(&signed).receive();
    assert_eq!(answer.json()["edesc"], "Anonymous not allowed");
}

fn other_paths_belong_to_the_application(front: Front) {
    let host = host(front);
    for path in [
        "/ftn/health",
        "/ftn/health/1.2",
        "/ftn/Conform.main/",
        "/ftn/conform./1.2",
        "/ftn/conform.main/1.2/answer/sec/more",
        "/ftn//1.2/answer",
        "/ftn/../1.2/answer",
        "/ftn/conform.main/../answer",
        "/ftn/conform.main/1.2/..",
        "/conform.main/1.2/answer",
    ] {
        let answer = Connection::open(host.address).send(&request("GET", path, "", b"")).receive();
        assert_eq!(answer.status(), 404, "{path}");
    }
    // an encoded slash is part of a name, and no interface has it
    for path in ["/ftn/conform.main%2F1.2/1.0/answer", "/ftn/%2e%2e/1.0/f", "/ftn/a%00b/1.0/f"] {
        let answer = Connection::open(host.address).send(&request("GET", path, "", b"")).receive();
        assert!(answer.text().starts_with(r#"{"e":""#), "{path}: {answer}");
    }
}

fn credentials_come_in_the_path_or_in_a_header(front: Front) {
    let host = host(front);
    let whoami = json!({ "r": { "lid": "user", "gid": "user", "seclvl": "SafeOps" } });
    let refused = json!({ "e": "SecurityError", "edesc": "Basic Auth Verification Failed" });
    let path = "/ftn/conform.secret/1.0/whoami";
    for (path, headers, expected) in [
        (format!("{path}/user%3Apass"), "", &whoami),
        (format!("{path}/user:pass/"), "", &whoami),
        (path.to_owned(), "Authorization: Basic dXNlcjpwYXNz\r\n", &whoami),
        (path.to_owned(), "authorization: basic dXNlcjpwYXNz\r\n", &whoami),
        (format!("{path}/user%3Awrong"), "", &refused),
        (path.to_owned(), "Authorization: Basic dXNlcjp3cm9uZw==\r\n", &refused),
        (path.to_owned(), "Authorization: Basic ?\r\n", &refused),
    ] {
        let request = request("GET", &path, headers, b"");
        let answer = Connection::open(host.address).send(&request).receive();
        assert_eq!(&answer.json(), expected, "{path} {headers}");
    }
    let message = br#"{"f":"conform.secret:1.0:whoami","p":{}}"#;
    let basic = post_with("/ftn/", "Authorization: Basic dXNlcjpwYXNz\r\n", message);
    assert_eq!(Connection::open(host.address).send(&basic).receive().json(), whoami);
}

fn the_registered_media_type_can_be_asked_for(front: Front) {
    let host = host(front);
    let accept = "Accept: application/vnd.futoin+json\r\n";
    let message = post_with("/ftn/", accept, br#"{"f":"conform.main:1.2:answer"}"#);
    let function = request("GET", "/ftn/conform.main/1.2/answer", accept, b"");
    for request in [message, function] {
        let answer = Connection::open(host.address).send(&request).receive();
        assert_eq!(answer.header("content-type"), Some("application/vnd.futoin+json"));
    }
}

fn another_method_is_refused(front: Front) {
    let host = host(front);
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let request = request(method, "/ftn/conform.main/1.2/answer", "", b"");
        let answer = Connection::open(host.address).send(&request).receive();
        assert_eq!((answer.status(), answer.text()), (405, ""), "{method}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD, POST"));
    }
    let unknown = request("PUT", "/ftn/conform.main/1.2/noSuch", "", b"");
    let answer = Connection::open(host.address).send(&unknown).receive();
    assert_eq!(answer.json()["edesc"], "Unknown interface function: noSuch");
}

fn head_is_get_without_the_body(front: Front) {
    let host = host(front);
    let mut client = Connection::open(host.address);
    for path in ["answer", "notify?v=5", "echo", "noSuch"] {
        let path = format!("/ftn/conform.main/1.2/{path}");
        let head = client.send(&request("HEAD", &path, "", b"")).receive_head();
        // on the same connection, so nothing followed the head
        let mut get = client.send(&request("GET", &path, "", b"")).receive();
        get.body.clear();
        assert_eq!(head, get, "{path}");
    }
    let download = request("HEAD", "/ftn/conform.main/1.2/download?n=1000000000", "", b"");
    assert_eq!(client.send(&download).receive_head().status(), 200);
    ping(host.address);
}

fn uploads_come_by_length_or_in_chunks(front: Front) {
    let host = host(front);
    let path = "/ftn/conform.main/1.2/upload?name=a+b&n=3";
    let raw = "Content-Type: application/octet-stream\r\n";
    let expected = json!({ "r": { "size": 10, "sum": 45, "name": "a b", "n": 3 } });
    let data: Vec<u8> = (0..10).collect();
    let by_length = post_with(path, raw, &data);
    let chunked = [b"3\r\n\0\x01\x02\r\n7\r\n".as_slice(), &data[3..], b"\r\n0\r\n\r\n"].concat();
    let chunked = request("POST", path, &format!("{raw}Transfer-Encoding: chunked\r\n"), &chunked);
    let other_type = post_with(path, "Content-Type: image/png\r\n", &data);
    let mut client = Connection::open(host.address);
    for upload in [by_length, chunked, other_type] {
        assert_eq!(client.send(&upload).receive().json(), expected);
    }
    let empty = client.send(&post_with(path, raw, b"")).receive();
    assert_eq!(empty.json()["r"]["size"], 0);
}

fn an_upload_that_is_not_declared_is_refused(front: Front) {
    let host = host(front);
    let raw = "Content-Type: application/octet-stream\r\n";
    let text = "Raw upload is not allowed: parameters are in the query of the URL, or an object in a body of the \
        type application/json";
    let refused = json!({ "e": "InvalidRequest", "edesc": text });
    let small = post_with("/ftn/conform.main/1.2/answer", raw, b"x");
    assert_eq!(Connection::open(host.address).send(&small).receive().json(), refused);
    // the answer comes although most of the data was not read
    let large = post_with("/ftn/conform.main/1.2/answer", raw, &vec![0; 4 << 20]);
    let mut client = Connection::open(host.address);
    let _ = client.try_send(&large);
    assert_eq!(client.receive().json(), refused);
    ping(host.address);
}

fn an_upload_that_breaks_off_is_cancelled(front: Front) {
    let host = host(front);
    let path = "/ftn/conform.main/1.2/upload?name=x";
    let raw = "Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n";
    let mut client = Connection::open(host.address);
    client.send(&request("POST", path, raw, &[0; 10]));
    host.wait_for_in_flight(1);
    drop(client);
    host.wait_for_in_flight(0);
}

fn downloads_have_their_own_status_and_type(front: Front) {
    let host = host(front);
    let mut client = Connection::open(host.address);
    let path = "/ftn/conform.main/1.2/download?n=300000&status=206";
    let answer = client.send(&request("GET", path, "", b"")).receive();
    assert_eq!(answer.status(), 206);
    assert_eq!(answer.header("content-type"), Some("application/x-conform"));
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    assert_eq!(answer.body.len(), 300_000);
    assert!(answer.body.iter().enumerate().all(|(at, byte)| at % 251 == usize::from(*byte)));
    // the same by a message, on the same connection
    let answer = client.post(br#"{"f":"conform.main:1.2:download","p":{"n":5}}"#);
    assert_eq!((answer.status(), answer.body), (200, vec![0, 1, 2, 3, 4]));
    let failed = client.post(br#"{"f":"conform.main:1.2:download","p":{"n":-1}}"#);
    assert_eq!(failed.header("content-type"), Some("application/futoin+json"));
    assert_eq!(failed.json(), json!({ "e": "MyError", "edesc": "Negative size" }));
}

fn a_status_without_a_body_has_none(front: Front) {
    let host = host(front);
    let mut client = Connection::open(host.address);
    for status in [204, 304] {
        let path = format!("/ftn/conform.main/1.2/download?n=5&status={status}");
        let answer = client.send(&request("GET", &path, "", b"")).receive();
        let refused =
            json!({ "e": "InternalError", "edesc": "an answer with this status has no body" });
        assert_eq!((answer.status(), answer.json()), (200, refused));
    }
    let executor = || {
        let template = Template::build(|asi| {
            asi.add(|asi, ()| {
                asi.head_mut()?.set_status(204)?;
                asi.reply(json!({ "echo": 1 }))
            });
        });
        let mut loader = Loader::new([Source::builtin()]);
        let id = "futoin.anonping:1.0".parse().expect("a name");
        let definition = loader.load(&id).expect("it is built in");
        let builder = Executor::builder().interface(definition, |functions| {
            functions.others_not_implemented();
            functions.add("ping", &template);
        });
        builder.build().expect("it can be built")
    };
    let host = front.start(1, executor);
    let mut client = Connection::open(host.address);
    for _ in 0..2 {
        let answer = client.send(&request("GET", "/ftn/futoin.anonping/1.0/ping?echo=1", "", b""));
        let answer = answer.receive();
        assert_eq!((answer.status(), answer.body), (204, Vec::new()));
    }
}

fn a_client_of_http_1_0_gets_raw_data_without_chunks(front: Front) {
    let host = host(front);
    let request =
        "GET /ftn/conform.main/1.2/download?n=300000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let answer = Connection::open(host.address).send(request.as_bytes()).receive();
    assert_eq!((answer.status(), answer.header("transfer-encoding")), (200, None));
    // the end of the connection is the end of the data
    assert_eq!((answer.header("connection"), answer.body.len()), (None, 300_000));
}

fn raw_data_goes_through_in_both_ways_at_once(front: Front) {
    let host = host(front);
    let path = "/ftn/conform.main/1.2/pipe?add=1";
    let raw = "Content-Type: application/octet-stream\r\n";
    let data: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mut client = Connection::open(host.address);
    let answer = client.send(&post_with(path, raw, &data)).receive();
    assert!(data.iter().zip(&answer.body).all(|(sent, got)| sent.wrapping_add(1) == *got));
    assert_eq!(answer.body.len(), data.len());
}

fn a_client_that_leaves_a_download_ends_it(front: Front) {
    let host = host(front);
    let path = "/ftn/conform.main/1.2/download?n=1000000000";
    let mut client = Connection::open(host.address);
    client.send(&request("GET", path, "", b""));
    host.wait_for_in_flight(1);
    drop(client);
    host.wait_for_in_flight(0);
}

fn handlers_see_and_set_headers_and_cookies(front: Front) {
    let host = host(front);
    let headers = "X-Conform: seen\r\nCookie: other=1; conform=c0\r\n";
    let request = request("GET", "/ftn/conform.main/1.2/httpInfo", headers, b"");
    let answer = Connection::open(host.address).send(&request).receive();
    assert_eq!(answer.json(), json!({ "r": { "header": "seen", "cookie": "c0" } }));
    assert_eq!(answer.header("x-conform-reply"), Some("yes"));
    assert_eq!(answer.header("set-cookie"), Some("conform=c1; HttpOnly"), "not Secure without TLS");
}

fn a_header_can_have_several_values(front: Front) {
    let executor = || {
        let template = Template::build(|asi| {
            asi.add(|asi, ()| {
                let head = asi.head_mut()?;
                head.set_header("link", "<a>")?.add_header("Link", "<b>")?;
                head.set_header("x-one", "old")?.set_header("X-One", "new")?;
                asi.reply(json!({ "echo": 1 }))
            });
        });
        let id = "futoin.anonping:1.0".parse().expect("a name");
        let definition = Loader::new([Source::builtin()]).load(&id).expect("it is built in");
        let builder = Executor::builder().interface(definition, |functions| {
            functions.add("ping", &template);
        });
        builder.build().expect("it can be built")
    };
    let host = front.start(1, executor);
    let request = request("GET", "/ftn/futoin.anonping/1.0/ping?echo=1", "", b"");
    let answer = Connection::open(host.address).send(&request).receive();
    let values = |name: &str| -> Vec<String> {
        let headers = answer.headers.iter().filter(|(other, _)| other == name);
        headers.map(|(_, value)| value.clone()).collect()
    };
    assert_eq!(
        (values("link"), values("x-one")),
        (vec!["<a>".into(), "<b>".into()], vec!["new".into()])
    );
}

fn only_trusted_proxies_are_believed(front: Front) {
    let info = |trusted: &[&str], headers: &str| {
        let ranges: Vec<_> = trusted.iter().map(|range| range.parse().expect("a range")).collect();
        let set_up = |service: asyncsteps_transport::http::Service| {
            service.trusted_proxies(TrustedProxies::new(ranges))
        };
        let host = front.start_as(1, conform::executor, set_up);
        let path = "/ftn/conform.main/1.2/channelInfo";
        let request = request("GET", path, headers, b"");
        let info = Connection::open(host.address).send(&request).receive().json();
        (info["r"]["host"].as_str().expect("a text").to_owned(), info["r"]["secure"] == true)
    };
    let headers = "X-Forwarded-For: 9.9.9.9, 203.0.113.7\r\nX-Forwarded-Proto: https\r\n";
    assert_eq!(info(&[], headers), ("127.0.0.1".to_owned(), false));
    assert_eq!(info(&["127.0.0.0/8"], headers), ("203.0.113.7".to_owned(), true));
    let plain = "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https, http\r\n";
    assert_eq!(info(&["127.0.0.0/8"], plain), ("203.0.113.7".to_owned(), false));
    assert_eq!(info(&["127.0.0.0/8"], ""), ("127.0.0.1".to_owned(), false));
}

fn a_channel_can_be_declared_secure(front: Front) {
    let host = front.start_as(1, conform::executor, |service| service.behind_tls_proxy());
    let request = request("GET", "/ftn/conform.secure/1.0/hello", "", b"");
    let answer = Connection::open(host.address).send(&request).receive();
    assert_eq!(answer.json(), json!({ "r": "secure" }));
}

fn pages_of_other_sites_may_call_if_they_are_let(front: Front) {
    let set_up = |service: asyncsteps_transport::http::Service| {
        service.cors(Cors::origins(["https://friend.example"]))
    };
    let host = front.start_as(1, conform::executor, set_up);
    let send = |method: &str, origin: &str| {
        let headers =
            format!("Origin: {origin}\r\nAccess-Control-Request-Headers: content-type\r\n");
        let request = request(method, "/ftn/conform.main/1.2/answer", &headers, b"");
        Connection::open(host.address).send(&request).receive()
    };
    let preflight = send("OPTIONS", "https://friend.example");
    assert_eq!(preflight.status(), 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://friend.example"));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("GET, HEAD, POST"));
    assert_eq!(preflight.header("access-control-allow-headers"), Some("content-type"));
    let answer = send("GET", "https://friend.example");
    assert_eq!(answer.text(), r#"{"r":42}"#);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://friend.example"));
    assert_eq!(answer.header("vary"), Some("Origin"));
    for method in ["OPTIONS", "GET"] {
        let stranger = send(method, "https://stranger.example");
        assert_eq!(stranger.header("access-control-allow-origin"), None);
        assert_eq!(stranger.header("access-control-allow-headers"), None);
    }
}

#[test]
fn the_demo_has_an_option_for_pages_of_other_sites() {
    let data = Data::new();
    let friend = "https://friend.example";
    let headers = format!("Origin: {friend}\r\n");
    for (cors, status, origin) in [
        (vec![], 403, None),
        (vec![friend], 405, Some(friend)),
        (vec!["*"], 405, Some(friend)),
        (vec!["https://other.example"], 403, None),
    ] {
        let cors = cors.into_iter().map(str::to_owned).collect();
        let config = Config { cors, ..shop::config(&data) };
        let shop = Shop::serve(config);
        let mut client = Connection::open(shop.address);
        let answer = client.send(&request("GET", "/ftn/", &headers, b"")).receive();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.header("access-control-allow-origin"), origin);
    }
}

fn an_anonymous_caller_learns_no_parameters_of_a_private_function(front: Front) {
    let host = front.start(1, conform::executor);
    let deep = "%5b".repeat(80) + &"%5d".repeat(80);
    for call in ["sum?a=", "sum?zzz=", "nope?a="] {
        let request =
            format!("GET /ftn/conform.signed/1.0/{call}{deep} HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = Connection::open(host.address).send(request.as_bytes()).receive();
        assert_eq!(answer.text(), r#"{"e":"SecurityError","edesc":"Anonymous not allowed"}"#);
    }
}

asyncsteps_support::on_both_fronts! {
    parameters_come_in_the_query,
    parameters_come_as_an_object_too,
    other_paths_belong_to_the_application,
    credentials_come_in_the_path_or_in_a_header,
    the_registered_media_type_can_be_asked_for,
    another_method_is_refused,
    head_is_get_without_the_body,
    uploads_come_by_length_or_in_chunks,
    an_upload_that_is_not_declared_is_refused,
    an_upload_that_breaks_off_is_cancelled,
    downloads_have_their_own_status_and_type,
    a_status_without_a_body_has_none,
    a_client_of_http_1_0_gets_raw_data_without_chunks,
    raw_data_goes_through_in_both_ways_at_once,
    a_client_that_leaves_a_download_ends_it,
    handlers_see_and_set_headers_and_cookies,
    a_header_can_have_several_values,
    only_trusted_proxies_are_believed,
    a_channel_can_be_declared_secure,
    pages_of_other_sites_may_call_if_they_are_let,
    an_anonymous_caller_learns_no_parameters_of_a_private_function,
}
