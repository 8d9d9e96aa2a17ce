//! The promise: a connection with TLS is a secure channel, over HTTP and WebSocket, and one without
//! is none (FTN3 §2.4 `SecureChannel`).

use std::net::{Ipv4Addr, SocketAddr};

use asyncsteps_executor::transport::http::ServerLimits;
use asyncsteps_support::client::{Connection, message, post};
use asyncsteps_support::host::Host;
use asyncsteps_support::shop::{self, Data, Shop};
use asyncsteps_support::stream::{CERTIFICATE, KEY, Stream, server_config};
use asyncsteps_support::ws::Socket;
use asyncsteps_support::{PATIENCE, conform};
use executor_demo::Config;
use serde_json::{Value, json};

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const HELLO: &str = "conform.secure:1.0:hello";

fn secure(data: &Data) -> Config {
    let (tls_cert, tls_key) = (Some(CERTIFICATE.into()), Some(KEY.into()));
    Config { conform: true, tls_cert, tls_key, ..shop::config(data) }
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
    let data = Data::new();
    let plain = Shop::serve(Config { conform: true, ..shop::config(&data) });
    let secure = Shop::serve(secure(&data));
    let hello = json!({ "r": "secure" });
    let refused = json!({ "e": "SecurityError", "edesc": "Insecure channel" });
    assert_eq!(answers(secure.address, Stream::secure), [hello.clone(), hello]);
    assert_eq!(answers(plain.address, Stream::connect), [refused.clone(), refused]);
}

#[test]
fn a_channel_knows_that_it_is_secure() {
    let data = Data::new();
    let shop = Shop::serve(secure(&data));
    let mut client = Connection::over(Stream::secure(shop.address));
    let info = client.call("conform.main:1.2:channelInfo", &json!({}));
    assert_eq!((&info["r"]["secure"], &info["r"]["type"]), (&json!(true), &json!("HTTP")));
    // a large message is many records
    let data = "x".repeat(300_000);
    let large = client.post(&message("conform.main:1.2:bigIn", &json!({ "data": data })));
    assert_eq!(large.json(), json!({ "r": { "len": 300_000 } }));
}

#[test]
fn a_client_without_tls_gets_no_answer() {
    let data = Data::new();
    let shop = Shop::serve(secure(&data));
    let mut client = Connection::open(shop.address);
    client.send(&post(&message(HELLO, &json!({}))));
    client.expect_end();
    // and other connections go on
    assert_eq!(answers(shop.address, Stream::secure)[0], json!({ "r": "secure" }));
}

#[test]
fn connections_without_a_handshake_delay_no_others() {
    // no time limit helps
    let handshake_timeout = PATIENCE * 10;
    let limits = ServerLimits { handshakes: 4, handshake_timeout, ..ServerLimits::default() };
    let tls = Some(server_config());
    let host = Host::start_with(1, limits, tls, conform::executor, |service| service);
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
