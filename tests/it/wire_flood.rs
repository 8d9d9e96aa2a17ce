//! The promise: a client that floods the server is refused, and no other client notices (FTN6 §1.5).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use asyncsteps_core::sync::limiter::Options;
use asyncsteps_executor::{ClientLimits, Executor, builtin};
use asyncsteps_support::client::{Connection, message, post};
use asyncsteps_support::conform;
use asyncsteps_support::server::{TestServer, resident_bytes};
use asyncsteps_support::stream::Stream;
use asyncsteps_support::ws::Socket;
use serde_json::{Value, json};

const PING: &str = "futoin.anonping:1.0:ping";

/// How many requests each address may make while the test runs.
const RATE: usize = 200;

/// How many requests of the flood go out before their answers are read.
const BATCH: usize = 100;

const FLOOD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

fn executor() -> Executor {
    let limit = Options {
        concurrent: 100,
        rate: u32::try_from(RATE).expect("a small number"),
        period: Duration::from_secs(3600),
        ..Options::default()
    };
    let limits = ClientLimits::new().define("each", limit).others("each");
    let builder = Executor::builder().client_limits(limits);
    let ping = |functions: &mut asyncsteps_executor::Functions| {
        functions.add("ping", &builtin::ping());
    };
    builder.interface(conform::definition("futoin.anonping:1.0"), ping).build().expect("limits")
}

/// The answers that a flood got.
#[derive(Default)]
struct Flood {
    served: usize,
    refused: usize,
}

impl Flood {
    /// Counts an answer, which has to be one of two.
    fn count(&mut self, answer: &Value) {
        if answer["r"] == json!({ "echo": 5 }) {
            self.served += 1;
        } else {
            assert_eq!(answer["e"], "DefenseRejected", "{answer}");
            self.refused += 1;
        }
    }

    /// Until it is told to stop, though never before it was refused.
    fn goes_on(&self, stop: &AtomicBool) -> bool {
        self.refused == 0 || !stop.load(Ordering::Relaxed)
    }

    /// Sends batches of requests in one go each.
    fn http(address: SocketAddr, stop: &AtomicBool) -> Self {
        let mut client = Connection::over(Stream::connect_from(FLOOD, address));
        let batch = post(&message(PING, &json!({ "echo": 5 }))).repeat(BATCH);
        let mut flood = Self::default();
        while flood.goes_on(stop) {
            client.send(&batch);
            (0..BATCH).for_each(|_| flood.count(&client.receive().json()));
        }
        flood
    }

    /// The same over a WebSocket.
    fn web_socket(address: SocketAddr, stop: &AtomicBool) -> Self {
        let mut socket = Socket::over(Stream::connect_from(FLOOD, address), "/ftn/", "");
        let mut flood = Self::default();
        while flood.goes_on(stop) {
            for _ in 0..BATCH {
                socket.request(PING, &json!({ "echo": 5 }), "C1");
            }
            (0..BATCH).for_each(|_| flood.count(&socket.receive()));
        }
        flood
    }
}

#[test]
fn a_flood_from_one_address_is_refused_and_another_address_is_served() {
    let host = TestServer::start(2, executor);
    let address = host.address;
    let stop = &AtomicBool::new(false);
    let mut floods = Vec::new();
    thread::scope(|scope| {
        let threads = [Flood::http, Flood::http, Flood::web_socket, Flood::web_socket]
            .map(|flood| scope.spawn(move || flood(address, stop)));
        let mut other = Connection::over(Stream::connect_from(OTHER, address));
        let mut socket = Socket::over(Stream::connect_from(OTHER, address), "/ftn/", "");
        let mut before = 0;
        for n in 0..RATE / 2 {
            let answer = json!({ "r": { "echo": n } });
            assert_eq!(other.call(PING, &json!({ "echo": n })), answer);
            assert_eq!(socket.call(PING, &json!({ "echo": n })), answer);
            if n == RATE / 10 {
                // all is warm
                before = resident_bytes();
            }
        }
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < 16 << 20, "{grown} bytes");
        stop.store(true, Ordering::Relaxed);
        floods.extend(threads.map(|flood| flood.join().expect("no panic")));
    });
    let served: usize = floods.iter().map(|flood| flood.served).sum();
    // over all connections
    assert_eq!(served, RATE);
    assert!(floods.iter().all(|flood| flood.refused > 0));
}
