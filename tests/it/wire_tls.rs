//! The promise: a connection with TLS is a secure channel, over HTTP and WebSocket, and one without
//! is none (FTN3 §2.4 `SecureChannel`).

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use asyncsteps_support::client::{Connection, message, post};
use asyncsteps_support::server::TestServer;
use asyncsteps_support::stream::{CERTIFICATE, KEY, Stream, server_config};
use asyncsteps_support::ws::Socket;
use asyncsteps_support::{PATIENCE, conform};
use asyncsteps_transport::http::{ServerLimits, tls_from_pem};
use serde_json::{Value, json};

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const HELLO: &str = "conform.secure:1.0:hello";

fn secure() -> TestServer {
    let tls = tls_from_pem(Path::new(CERTIFICATE), Path::new(KEY)).expect("they fit");
    TestServer::start_with(1, ServerLimits::default(), Some(tls), conform::executor, |service| {
        service
    })
}

/// The answer to a call over each of the transports.
fn answers(address: SocketAddr, connect: fn(SocketAddr) -> Stream) -> [Value; 2] {
    let mut http = Connection::over(connect(address));
    // twice, because a connection is kept
    let first = http.call(HELLO, &json!({}));
    assert_eq!(http.call(HELLO, &json!({})), first);
    let mut socket = Socket::over(connect(address), "/ftn/", "");
    [first, socket.call(HELLO, &json!({}))]
}

#[test]
fn functions_that_need_a_secure_channel_are_called_over_tls_only() {
    let plain = TestServer::start(1, conform::executor);
    let secure = secure();
    let hello = json!({ "r": "secure" });
    let refused = json!({ "e": "SecurityError", "edesc": "Insecure channel" });
    assert_eq!(answers(secure.address, Stream::secure), [hello.clone(), hello]);
    assert_eq!(answers(plain.address, Stream::connect), [refused.clone(), refused]);
}

#[test]
fn a_channel_knows_that_it_is_secure() {
    let host = secure();
    let mut client = Connection::over(Stream::secure(host.address));
    let info = client.call("conform.main:1.2:channelInfo", &json!({}));
    assert_eq!((&info["r"]["secure"], &info["r"]["type"]), (&json!(true), &json!("HTTP")));
    client.send(b"GET /ftn/conform.main/1.2/httpInfo HTTP/1.1\r\nHost: a\r\n\r\n");
    let cookie = client.receive();
    assert_eq!(cookie.header("set-cookie"), Some("conform=c1; Secure; HttpOnly"));
    // a large message is many records
    let data = "x".repeat(300_000);
    let large = client.post(&message("conform.main:1.2:bigIn", &json!({ "data": data })));
    assert_eq!(large.json(), json!({ "r": { "len": 300_000 } }));
}

#[test]
fn a_client_without_tls_gets_no_answer() {
    let host = secure();
    let mut client = Connection::open(host.address);
    client.send(&post(&message(HELLO, &json!({}))));
    client.expect_end();
    // and other connections go on
    assert_eq!(answers(host.address, Stream::secure)[0], json!({ "r": "secure" }));
}

#[test]
fn connections_without_a_handshake_delay_no_others() {
    // no time limit helps
    let handshake_timeout = PATIENCE * 10;
    let limits = ServerLimits { handshakes: 4, handshake_timeout, ..ServerLimits::default() };
    let tls = Some(server_config());
    let host = TestServer::start_with(1, limits, tls, conform::executor, |service| service);
    let connect = |bytes: &[u8]| {
        let mut client = Connection::over(Stream::connect_from(ATTACKER, host.address));
        client.send(bytes);
        client
    };
    // nothing, and the beginning of a hello
    let silent: Vec<_> = (0..20).map(|_| connect(b"")).collect();
    let slow: Vec<_> = (0..20).map(|_| connect(b"\x16\x03\x01")).collect();
    let mut other = Connection::over(Stream::secure(host.address));
    assert_eq!(other.call(HELLO, &json!({})), json!({ "r": "secure" }));
    drop((silent, slow));
}
