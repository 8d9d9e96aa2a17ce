//! The promise: a connection with TLS is a secure channel, over HTTP and WebSocket, and one without
//! is none (FTN3 §2.4 `SecureChannel`).

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs, process, thread};

use asyncsteps_support::client::{Connection, message, post};
use asyncsteps_support::server::TestServer;
use asyncsteps_support::stream::{
    CERTIFICATE, KEY, RENEWED_CERTIFICATE, RENEWED_KEY, Stream, server_config,
};
use asyncsteps_support::ws::Socket;
use asyncsteps_support::{PATIENCE, conform};
use asyncsteps_transport::http::{ServerLimits, tls_from_pem};
use serde_json::{Value, json};
use tokio::time::Instant;

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const HELLO: &str = "conform.secure:1.0:hello";

fn secure() -> TestServer {
    secure_by(Path::new(CERTIFICATE), Path::new(KEY))
}

fn secure_by(certificate: &Path, key: &Path) -> TestServer {
    let tls = tls_from_pem(certificate, key).expect("they fit");
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

#[test]
fn a_certificate_is_renewed_under_load_without_a_restart() {
    let folder = env::temp_dir().join(format!("asyncsteps-renewed-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let write = |from: [&str; 2]| {
        for (from, to) in from.into_iter().zip([&certificate, &key]) {
            fs::copy(from, to).expect("it is written");
        }
    };
    write([CERTIFICATE, KEY]);
    let host = secure_by(&certificate, &key);
    // a call over a new connection, and the certificate that the server shows there
    let shown = || {
        let mut client = Connection::over(Stream::secure(host.address));
        assert_eq!(client.call(HELLO, &json!({})), json!({ "r": "secure" }));
        client.stream().certificate().expect("a certificate").to_vec()
    };
    let mut kept = Connection::over(Stream::secure(host.address));
    let before = shown();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    shown();
                }
            });
        }
        write([RENEWED_CERTIFICATE, RENEWED_KEY]);
        let begun = Instant::now();
        while shown() == before {
            assert!(begun.elapsed() < PATIENCE, "it is not read again");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(kept.call(HELLO, &json!({})), json!({ "r": "secure" }), "it was made before");
    fs::remove_dir_all(folder).expect("it is there");
}
