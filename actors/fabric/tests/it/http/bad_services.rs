//! Services that misbehave over HTTP: each costs a clear error, and no more memory than is allowed.

use std::net::SocketAddr;
use std::time::Duration;

use asyncsteps_fabric::http::Config;
use asyncsteps_fabric::{Call, Fabric};
use expect_test::expect;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use crate::http::call;
use crate::http::raw_server::{answers, fabric, listen, request};

fn url(address: SocketAddr) -> String {
    format!("http://{address}/ftn/")
}

/// The error of a call of this service.
async fn error_of(config: Config, address: SocketAddr) -> String {
    let fabric = fabric(config, url(address));
    let error = call(&fabric, "test.node:1.0:name", json!({})).await.expect_err("it misbehaves");
    format!("{error} ({:?})", error.outcome())
}

fn message(body: &str) -> String {
    answer("200 OK", "application/futoin+json", body)
}

fn answer(status: &str, media: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n{body}")
}

#[actix::test]
async fn answers_that_are_none_are_told_apart() {
    let json = "application/json";
    let nested = format!("{{\"r\":{}{}}}", "[".repeat(500), "]".repeat(500));
    let mut out = String::new();
    for bytes in [
        String::new(),
        "junk\r\n\r\n".to_owned(),
        message("junk"),
        message("5"),
        message("{}"),
        message(r#"{"f":"a.b:1.0:c"}"#),
        message(r#"{"r":1,"rid":"C7"}"#),
        message(&nested),
        answer("200 OK", "text/html", "<html>"),
        answer("200 OK", "application/octet-stream", r#"{"r":1}"#),
        answer("302 Found", json, ""),
        answer("404 Not Found", json, ""),
        answer("502 Bad Gateway", "text/html", "<html>"),
        answer("503 Service Unavailable", json, r#"{"e":"DefenseRejected"}"#),
        message(r#"{"r":"cut"}"#).replace("Content-Length: 11", "Content-Length: 12"),
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".to_owned(),
    ] {
        out += &error_of(Config::new(), answers(bytes).await).await;
        out.push('\n');
    }
    expect![[r#"
        CommError: client error (SendRequest): connection closed before message completed (Unknown)
        CommError: client error (SendRequest): invalid HTTP version parsed (Unknown)
        InvokerError: the answer is no message of FutoIn (Unknown)
        InvokerError: the answer is no message of FutoIn (Unknown)
        InvokerError: the answer is no message of FutoIn (Unknown)
        InvokerError: the answer is no message of FutoIn (Unknown)
        InvokerError: the answer is to another call (Unknown)
        InvokerError: the answer is no message of FutoIn (Unknown)
        InvokerError: the answer is no message, its type is "text/html" (Unknown)
        InvokerError: the answer is no message, its type is "application/octet-stream" (Unknown)
        InvokerError: the service answers 302 Found without a message (Unknown)
        InvokerError: the service answers 404 Not Found without a message (Unknown)
        CommError: the service answers 502 Bad Gateway without a message (Unknown)
        DefenseRejected (Answered)
        CommError: error reading a body from connection: end of file before message length reached (Unknown)
        CommError: client error (SendRequest): invalid content-length parsed (Unknown)
    "#]].assert_eq(&out);
}

#[actix::test]
async fn a_body_without_end_is_not_read_further_than_is_allowed() {
    let address = listen(|mut connection| async move {
        request(&mut connection).await;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/futoin+json\r\n\
            Transfer-Encoding: chunked\r\n\r\n";
        let mut sent = connection.write_all(head.as_bytes()).await;
        let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
        // until the client has enough
        while sent.is_ok() {
            sent = connection.write_all(chunk.as_bytes()).await;
        }
    })
    .await;
    let error = error_of(Config::new().max_message(100_000), address).await;
    assert_eq!(error, "InvokerError: the answer has more than 100000 bytes (Unknown)");
}

#[actix::test]
async fn a_head_without_end_is_not_read_further_than_is_allowed() {
    let address = listen(|mut connection| async move {
        request(&mut connection).await;
        let mut sent = connection.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while sent.is_ok() {
            sent =
                connection.write_all(b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n").await;
        }
    })
    .await;
    let error = error_of(Config::new(), address).await;
    assert!(error.starts_with("CommError: ") && error.ends_with("(Unknown)"), "{error}");
}

#[actix::test]
async fn silent_services_have_until_the_time_limit() {
    // neither a byte of the answer, nor all of it
    for part in ["", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"] {
        let address = listen(move |mut connection| async move {
            request(&mut connection).await;
            connection.write_all(part.as_bytes()).await.expect("the client waits");
            std::future::pending::<()>().await;
        })
        .await;
        let config = Config::new().call_timeout(Duration::from_secs(1));
        let error = error_of(config, address).await;
        assert_eq!(error, "CommError: no answer in time (Unknown)");
    }
}

#[actix::test]
async fn a_call_that_was_not_sent_was_not_carried_out() {
    // nothing else gets the port, and nothing listens there
    let closed = TcpSocket::new_v4().expect("a socket");
    closed.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let error = error_of(Config::new(), closed.local_addr().expect("an address")).await;
    assert!(error.starts_with("ConnectError: "), "{error}");
    assert!(error.ends_with("(NotCarriedOut)"), "{error}");

    // nor one that waits for a connection
    let silent = listen(|mut connection| async move {
        request(&mut connection).await;
        std::future::pending::<()>().await;
    })
    .await;
    let fabric = fabric(Config::new().max_connections(1).max_calls(2), url(silent));
    let name = || Call::new("test.node:1.0:name", ()).expect("it is a call");
    let limit = Duration::from_secs(1);
    let (first, second, third) = tokio::join!(
        fabric.call(name().within(limit * 2)),
        fabric.call(name().within(limit)),
        fabric.call(name()),
    );
    let texts = [first, second, third].map(|result| {
        let error = result.expect_err("it is silent");
        format!("{error} ({:?})", error.outcome())
    });
    assert_eq!(
        texts,
        [
            "CommError: no answer in time (Unknown)",
            "ConnectError: no answer in time (NotCarriedOut)",
            "DefenseRejected: too many calls are under way (NotCarriedOut)",
        ]
    );
}

#[actix::test]
async fn connections_are_kept() {
    let opened = std::rc::Rc::new(std::cell::Cell::new(0));
    let counted = std::rc::Rc::clone(&opened);
    let address = listen(move |mut connection| {
        counted.set(counted.get() + 1);
        async move {
            while request(&mut connection).await.ends_with("\"p\":{}}") {
                let answer = message(r#"{"r":"here"}"#);
                connection.write_all(answer.as_bytes()).await.expect("the client waits");
            }
        }
    })
    .await;
    let fabric = fabric(Config::new(), url(address));
    for _ in 0..10 {
        let name = call(&fabric, "test.node:1.0:name", json!({})).await;
        assert_eq!(name, Ok(json!("here")));
    }
    assert_eq!(opened.get(), 1);
}
