//! The promise: connections of HTTP/1.1 are used as its clients expect it (RFC 9110, RFC 9112).

use asyncsteps_executor::Executor;
use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{Connection, head, post, post_with};
use asyncsteps_support::conform;
use asyncsteps_support::front::Front;
use asyncsteps_support::jobs::Jobs;
use asyncsteps_support::server::TestServer;
use serde_json::json;

/// A message whose answer needs no explanation.
const ANSWER: &[u8] = br#"{"f":"conform.main:1.2:answer"}"#;

fn host(front: Front) -> TestServer {
    front.start(1, conform::executor)
}

fn a_connection_is_kept_for_the_next_request(front: Front) {
    let host = host(front);
    let mut client = Connection::open(host.address);
    for n in 0..100 {
        let message = format!(r#"{{"f":"conform.main:1.2:answer","rid":"C{n}"}}"#);
        let answer = client.post(message.as_bytes());
        assert_eq!(answer.text(), format!(r#"{{"r":42,"rid":"C{n}"}}"#));
    }
    drop(client);
    host.connections.wait_for_the_end_of(1);
}

fn requests_in_one_packet_are_answered_in_order(front: Front) {
    let (mut jobs, builder) = Jobs::add(Executor::builder().request_timeout(PATIENCE));
    let executor = builder.build().expect("a right configuration");
    let host = front.start(1, || executor);
    let wait = |n| post(format!(r#"{{"f":"test.jobs:1.0:wait","p":{{"n":{n}}}}}"#).as_bytes());
    let refused = post(br#"{"f":"test.jobs:1.0:none","rid":"C2"}"#);
    let mut client = Connection::open(host.address);
    client.send(&[wait(1), refused, wait(3)].concat());
    // the second one could be answered at once
    jobs.wait_for_start().finish();
    jobs.wait_for_start().finish();
    let answers = [(); 3].map(|()| client.receive().json());
    assert_eq!(answers[0], json!({ "r": { "n": 1 } }));
    assert_eq!(answers[1]["rid"], "C2");
    assert_eq!(answers[2], json!({ "r": { "n": 3 } }));
}

fn a_chunked_request_is_a_request(front: Front) {
    let head = head("Transfer-Encoding: chunked");
    let body = "9\r\n{\"f\":\"con\r\n16;x=y\r\nform.main:1.2:answer\"}\r\n0\r\n\r\n";
    let host = host(front);
    let answer = Connection::open(host.address).send(&head).send(body.as_bytes()).receive();
    assert_eq!((answer.status(), answer.text()), (200, r#"{"r":42}"#));
    assert_eq!(answer.header("content-type"), Some("application/futoin+json"));
}

fn a_client_that_expects_100_continue_gets_it(front: Front) {
    let host = host(front);
    let mut client = Connection::open(host.address);
    let head = head(&format!("Expect: 100-continue\r\nContent-Length: {}", ANSWER.len()));
    assert_eq!(client.send(&head).receive().status_line, "HTTP/1.1 100 Continue");
    assert_eq!(client.send(ANSWER).receive().text(), r#"{"r":42}"#);
}

fn old_clients_and_those_that_want_it_get_their_connection_closed(front: Front) {
    let host = host(front);
    let closing = post_with("/ftn/", "Connection: close\r\n", ANSWER);
    let old = String::from_utf8(post(ANSWER)).expect("text").replace("HTTP/1.1", "HTTP/1.0");
    for request in [closing, old.into_bytes()] {
        let mut client = Connection::open(host.address);
        let answer = client.send(&request).receive();
        assert_eq!((answer.status(), answer.text()), (200, r#"{"r":42}"#));
        client.expect_closed();
    }
}

fn another_method_is_refused_with_an_empty_body(front: Front) {
    let methods = ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"];
    let request = |method| format!("{method} /ftn/ HTTP/1.1\r\nHost: test\r\n\r\n").into_bytes();
    let host = host(front);
    for method in methods {
        let answer = Connection::open(host.address).send(&request(method)).receive();
        assert_eq!((answer.status(), answer.text()), (405, ""), "{method}");
    }
    let head = Connection::open(host.address).send(&request("HEAD")).receive();
    assert_eq!(head.status(), 405);
}

fn an_upgrade_of_an_old_client_is_ignored(front: Front) {
    let host = host(front);
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (version, status) in [("HTTP/1.0", 405), ("HTTP/1.1", 101)] {
        let request = format!("GET /ftn/ {version}\r\nHost: a\r\n{upgrade}\r\n");
        let answer = Connection::open(host.address).send(request.as_bytes()).receive();
        assert_eq!(answer.status(), status, "{version}");
    }
}

#[test]
fn what_a_client_expects_beyond_100_continue_is_refused() {
    let host = host(Front::Own);
    for (expected, status) in [
        ("100-Continue", 200),
        ("100-continue, 100-continue", 200),
        ("nonsense", 417),
        ("100-continue, nonsense", 417),
    ] {
        let request = post_with("/ftn/", &format!("Expect: {expected}\r\n"), ANSWER);
        let mut client = Connection::open(host.address);
        let mut answer = client.send(&request).receive();
        while answer.status() == 100 {
            answer = client.receive();
        }
        assert_eq!(answer.status(), status, "{expected}");
    }
}

#[test]
fn a_client_that_sends_no_more_gets_its_answers() {
    let (mut jobs, builder) = Jobs::add(Executor::builder().request_timeout(PATIENCE));
    let executor = builder.build().expect("a right configuration");
    let host = TestServer::start(1, || executor);
    let wait = |n| post(format!(r#"{{"f":"test.jobs:1.0:wait","p":{{"n":{n}}}}}"#).as_bytes());
    let refused = post(br#"{"f":"test.jobs:1.0:none","rid":"C2"}"#);
    let mut client = Connection::open(host.address);
    client.send(&[wait(1), refused, wait(3)].concat()).finish_sending();
    jobs.wait_for_start().finish();
    assert_eq!(client.receive().json(), json!({ "r": { "n": 1 } }));
    assert_eq!(client.receive().json()["rid"], "C2");
    jobs.wait_for_start().finish();
    assert_eq!(client.receive().json(), json!({ "r": { "n": 3 } }));
    client.expect_closed();
    // whether it has left is not known, so it is not waited for
    let mut silent = Connection::open(host.address);
    silent.send(&wait(4)).finish_sending();
    let job = jobs.wait_for_start();
    assert_eq!(jobs.wait_for_cancel(), 4);
    assert!(!job.is_waiting());
    silent.expect_closed();
}

asyncsteps_support::on_both_fronts! {
    an_upgrade_of_an_old_client_is_ignored,
    a_connection_is_kept_for_the_next_request,
    requests_in_one_packet_are_answered_in_order,
    a_chunked_request_is_a_request,
    a_client_that_expects_100_continue_gets_it,
    old_clients_and_those_that_want_it_get_their_connection_closed,
    another_method_is_refused_with_an_empty_body,
}

#[test]
fn an_answer_says_how_long_its_connection_is_kept_if_it_is_asked() {
    let host = host(Front::Own);
    let mut client = Connection::open(host.address);
    let mut time = |more: &str| {
        let answer = client.send(&post_with("/ftn/", more, ANSWER)).receive();
        answer.headers.into_iter().find_map(|(name, value)| (name == "keep-alive").then_some(value))
    };
    assert_eq!(time(""), None);
    assert_eq!(time("Connection: Keep-Alive\r\n").as_deref(), Some("timeout=75"));
}
