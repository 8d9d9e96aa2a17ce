//! The promise: a page of another site cannot call an executor through the browser of a user who
//! may, unless CORS allows that page; refused before anything runs, over HTTP and WebSocket.

use std::fmt::Write as _;

use asyncsteps_support::client::{Answer, Connection, ping};
use asyncsteps_support::conform;
use asyncsteps_support::server::TestServer;
use asyncsteps_support::shop::{Data, Shop};
use asyncsteps_transport::http::{self, Cors};
use expect_test::{Expect, expect};
use serde_json::json;

const MESSAGE: &str = r#"{"f":"conform.main:1.2:notify","p":{"v":1},"forcersp":true}"#;

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn host(set_up: impl FnOnce(http::Service) -> http::Service + Send + 'static) -> TestServer {
    TestServer::start_as(1, conform::executor, set_up)
}

fn send(host: &TestServer, request: &str) -> Answer {
    Connection::open(host.address).send(request.as_bytes()).receive()
}

fn post(headers: &str) -> String {
    let length = MESSAGE.len();
    format!("POST /ftn/ HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n{MESSAGE}")
}

fn get(headers: &str) -> String {
    format!("GET /ftn/conform.main/1.2/answer HTTP/1.1\r\n{headers}\r\n")
}

fn upgrade(headers: &str) -> String {
    format!("GET /ftn/ HTTP/1.1\r\n{headers}{UPGRADE}\r\n")
}

/// The statuses of a message, a function by its URL, and an upgrade, each with the same headers.
fn statuses(host: &TestServer, headers: &str) -> [u16; 3] {
    [post(headers), get(headers), upgrade(headers)].map(|request| send(host, &request).status())
}

/// Compares the statuses for each set of headers, written with `|` between them.
#[track_caller]
fn check(host: &TestServer, cases: &[&str], expected: Expect) {
    let mut out = String::new();
    for case in cases {
        let headers: String = case.split('|').map(|header| format!("{header}\r\n")).collect();
        writeln!(out, "{case}: {:?}", statuses(host, &headers)).expect("a string takes all");
    }
    ping(host.address);
    expected.assert_eq(&out);
}

#[test]
fn only_pages_of_the_own_site_may_call() {
    check(
        &host(|service| service),
        &[
            "Host: a.example",
            "Host: a.example|Origin: https://a.example",
            "Host: a.example|Origin: http://A.EXAMPLE:80",
            "Host: a.example:443|Origin: https://a.example",
            "Host: a.example:8080|Origin: https://a.example:8080",
            "Host: [::1]:8080|Origin: http://[::1]:8080",
            "Host: a.example|Origin: https://b.example",
            "Host: a.example|Origin: https://a.example.b.example",
            "Host: a.example|Origin: https://a.example:8443",
            "Host: a.example:8080|Origin: https://a.example",
            "Host: a.example|Origin: https://x@a.example",
            "Host: a.example|Origin: null",
            "Host: a.example|Origin: a.example",
            "Host: a.example|Origin: ",
            "Host: a.example|Origin: https://a.example|Origin: https://b.example",
            "Host: a.example|Host: b.example|Origin: https://b.example",
            "X-Forwarded-Host: b.example|Host: a.example|Origin: https://b.example",
        ],
        expect![[r#"
            Host: a.example: [200, 200, 101]
            Host: a.example|Origin: https://a.example: [200, 200, 101]
            Host: a.example|Origin: http://A.EXAMPLE:80: [200, 200, 101]
            Host: a.example:443|Origin: https://a.example: [200, 200, 101]
            Host: a.example:8080|Origin: https://a.example:8080: [200, 200, 101]
            Host: [::1]:8080|Origin: http://[::1]:8080: [200, 200, 101]
            Host: a.example|Origin: https://b.example: [403, 403, 403]
            Host: a.example|Origin: https://a.example.b.example: [403, 403, 403]
            Host: a.example|Origin: https://a.example:8443: [403, 403, 403]
            Host: a.example:8080|Origin: https://a.example: [403, 403, 403]
            Host: a.example|Origin: https://x@a.example: [403, 403, 403]
            Host: a.example|Origin: null: [403, 403, 403]
            Host: a.example|Origin: a.example: [403, 403, 403]
            Host: a.example|Origin: : [403, 403, 403]
            Host: a.example|Origin: https://a.example|Origin: https://b.example: [403, 403, 403]
            Host: a.example|Host: b.example|Origin: https://b.example: [400, 400, 400]
            X-Forwarded-Host: b.example|Host: a.example|Origin: https://b.example: [403, 403, 403]
        "#]],
    );
}

#[test]
fn a_browser_that_hides_the_page_tells_whether_it_is_another_site() {
    check(
        &host(|service| service.cors(Cors::any())),
        &[
            "Host: a.example|Sec-Fetch-Site: same-origin",
            "Host: a.example|Sec-Fetch-Site: none",
            "Host: a.example|Sec-Fetch-Site: same-site",
            "Host: a.example|Sec-Fetch-Site: cross-site",
            "Host: a.example|Sec-Fetch-Site: cross-site|Origin: https://b.example",
        ],
        expect![[r#"
            Host: a.example|Sec-Fetch-Site: same-origin: [200, 200, 101]
            Host: a.example|Sec-Fetch-Site: none: [200, 200, 101]
            Host: a.example|Sec-Fetch-Site: same-site: [403, 403, 403]
            Host: a.example|Sec-Fetch-Site: cross-site: [403, 403, 403]
            Host: a.example|Sec-Fetch-Site: cross-site|Origin: https://b.example: [200, 200, 101]
        "#]],
    );
}

#[test]
fn cors_allows_pages_over_every_transport() {
    check(
        &host(|service| service.cors(Cors::origins(["https://friend.example", "null"]))),
        &[
            "Host: a.example|Origin: https://friend.example",
            "Host: a.example|Origin: https://a.example",
            "Host: a.example|Origin: https://stranger.example",
            "Host: a.example|Origin: null",
        ],
        expect![[r#"
            Host: a.example|Origin: https://friend.example: [200, 200, 101]
            Host: a.example|Origin: https://a.example: [200, 200, 101]
            Host: a.example|Origin: https://stranger.example: [403, 403, 403]
            Host: a.example|Origin: null: [403, 403, 403]
        "#]],
    );
    check(
        &host(|service| service.cors(Cors::any())),
        &["Host: a.example|Origin: https://stranger.example", "Host: a.example|Origin: null"],
        expect![[r#"
            Host: a.example|Origin: https://stranger.example: [200, 200, 101]
            Host: a.example|Origin: null: [200, 200, 101]
        "#]],
    );
}

#[test]
fn only_requests_to_hosts_that_are_allowed_are_served() {
    let allowed = |service: http::Service| service.allowed_hosts(["a.example", "[::1]"]);
    let host = host(allowed);
    let statuses = |headers: &str| statuses(&host, headers);
    assert_eq!(statuses("Host: A.example:8080\r\n"), [200, 200, 101]);
    assert_eq!(statuses("Host: [::1]\r\n"), [200, 200, 101]);
    // the page and the name that it had resolved to this machine agree
    let rebound = "Host: evil.example\r\nOrigin: http://evil.example\r\n";
    assert_eq!(statuses(rebound), [403, 403, 403]);
    assert_eq!(send(&host, "OPTIONS /ftn/ HTTP/1.1\r\nHost: evil.example\r\n\r\n").status(), 403);
    assert_eq!(send(&host, "GET /ftn/conform.main/1.2/answer HTTP/1.0\r\n\r\n").status(), 403);
    // the host of an absolute target counts, not the header (RFC 9112 section 3.2.2)
    let absolute = "GET http://evil.example/ftn/conform.main/1.2/answer HTTP/1.1\r\n";
    assert_eq!(send(&host, &format!("{absolute}Host: a.example\r\n\r\n")).status(), 403);
}

#[test]
fn a_refusal_says_why_in_json_and_runs_nothing() {
    let host = host(|service| service);
    let refused = send(&host, &post("Host: a.example\r\nOrigin: https://b.example\r\n"));
    assert_eq!(refused.header("content-type"), Some("application/futoin+json"));
    assert_eq!(refused.json(), json!({ "e": "SecurityError", "edesc": "Origin is not allowed" }));
}

#[test]
fn a_form_is_no_message() {
    let host = host(|service| service);
    for media in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"] {
        let answer = send(&host, &post(&format!("Host: a.example\r\nContent-Type: {media}\r\n")));
        assert_eq!(answer.status(), 415, "{media}");
        let text = "Unsupported media type: a message is application/json";
        let expected = json!({ "e": "InvalidRequest", "edesc": text });
        assert_eq!(answer.json(), expected, "{media}");
    }
}

#[test]
fn functions_that_change_something_can_be_kept_from_get() {
    let host = host(|service| service.get_calls(|function| function.func() == "answer"));
    let by = |method: &str, function: &str| {
        let line = format!("{method} /ftn/conform.main/1.2/{function} HTTP/1.1\r\n");
        send(&host, &format!("{line}Host: a.example\r\n\r\n"))
    };
    assert_eq!(by("GET", "answer").status(), 200);
    for method in ["GET", "HEAD", "PUT"] {
        let refused = by(method, "zero");
        assert_eq!((refused.status(), refused.header("allow")), (405, Some("POST")), "{method}");
    }
    assert_eq!(by("PUT", "answer").header("allow"), Some("GET, HEAD, POST"));
    // it is not there by any method
    assert_eq!(by("GET", "noSuch").json()["e"], "InvalidRequest");
    let post = "POST /ftn/conform.main/1.2/zero HTTP/1.1\r\nHost: a.example\r\n\r\n";
    assert_eq!(send(&host, post).status(), 200);
}

#[test]
fn the_demo_is_reached_by_its_own_names_only() {
    let data = Data::new();
    let shop = Shop::start(&data);
    let order = |name: &str| {
        let message = r#"{"f":"demo.shop:1.0:restock","p":{"sku":"a","count":1},"forcersp":true}"#;
        let length = message.len();
        format!("POST /ftn/ HTTP/1.1\r\nHost: {name}\r\nContent-Length: {length}\r\n\r\n{message}")
    };
    let status =
        |request: &str| Connection::open(shop.address).send(request.as_bytes()).receive().status();
    for (name, expected) in
        [("127.0.0.1:8080", 200), ("localhost", 200), ("[::1]:1", 200), ("evil.example:8080", 403)]
    {
        assert_eq!(status(&order(name)), expected, "{name}");
    }
    let get = |call: &str| {
        status(&format!("GET /ftn/demo.shop/1.0/{call} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    };
    assert_eq!([get("stock?sku=a"), get("restock?sku=a&count=1")], [200, 405]);
}
