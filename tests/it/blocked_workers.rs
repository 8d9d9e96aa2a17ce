//! The promise: a step that blocks its thread keeps nothing else waiting for long: new connections and probes are
//! answered, and say what is wrong.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Mutex, mpsc};

use asyncsteps_actors::stuck;
use asyncsteps_core::Template;
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::{Executor, builtin};
use asyncsteps_observe::health::{self, HealthService};
use asyncsteps_support::client::{self, Connection, message, post};
use asyncsteps_support::h2::{Answer, Http2};
use asyncsteps_support::server::TestServer;
use asyncsteps_support::{PATIENCE, definition};
use asyncsteps_transport::http::Server;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

const BLOCK: &str = r#"{
    "iface": "test.block",
    "version": "1.0",
    "ftn3rev": "1.9",
    "funcs": { "block": { "result": { "done": "boolean" } } },
    "requires": [ "AllowAnonymous" ]
}"#;

/// Steps that block their thread until the test lets them go on.
struct Blocked {
    begun: mpsc::Receiver<()>,
    go_on: mpsc::Sender<()>,
}

impl Blocked {
    fn wait_for_begin(&self) {
        self.begun.recv_timeout(PATIENCE).expect("it begins");
    }
}

fn executor(begin: mpsc::Sender<()>, go_on: mpsc::Receiver<()>) -> Executor {
    let gate = Mutex::new((begin, go_on));
    let block = Template::build(|asi| {
        asi.add(move |asi, ()| {
            let gate = gate.lock().expect("no panic");
            gate.0.send(()).expect("the test waits");
            gate.1.recv_timeout(PATIENCE * 2).expect("it goes on");
            asi.success((json!({ "done": true }),))
        });
    });
    let ping = "futoin.anonping:1.0".parse().expect("a name");
    let ping = Loader::new([Source::builtin()]).load(&ping).expect("a definition");
    let builder = Executor::builder().interface(ping, |functions| {
        functions.add("ping", &builtin::ping());
    });
    let builder = builder.interface(definition("test.block:1.0", BLOCK), |functions| {
        functions.add("block", &block);
    });
    builder.build().expect("a right configuration")
}

/// A server with one worker or more; the arbiter that has started it blocks when it is told to, as that of durable
/// requests may.
fn server(workers: usize, to_block: Option<oneshot::Receiver<()>>) -> (Blocked, TestServer) {
    let (begin, begun) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let (give, given) = mpsc::channel();
    let make = move || {
        let executor = executor(begin, goes_on);
        give.send(executor.clone()).expect("the server waits");
        if let Some(to_block) = to_block {
            let called = executor.clone();
            actix_rt::spawn(async move {
                to_block.await.expect("the test tells it");
                called.call_as_system::<Value>("test.block:1.0:block", json!({})).await
            });
        }
        executor
    };
    let set_up = move |server: Server| {
        let executor = given.recv().expect("an executor");
        let workers = NonZeroUsize::new(workers).expect("one at least");
        HealthService::PATHS
            .into_iter()
            .fold(server, |server, path| server.probe(path, health::service(&executor)))
            .workers(workers)
    };
    let host = TestServer::start_server(None, make, |service| service, set_up);
    (Blocked { begun, go_on }, host)
}

/// Status and body of a probe on a connection of its own.
fn probe(address: SocketAddr, path: &str) -> (u16, String) {
    let mut client = Connection::open(address);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    let answer = client.receive();
    (answer.status(), answer.json().to_string())
}

fn block(address: SocketAddr) -> Connection {
    let mut caller = Connection::open(address);
    caller.send(&post(&message("test.block:1.0:block", &json!({}))));
    caller
}

/// There is no event to wait for.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn probes_and_new_connections_are_answered_while_steps_block_all_workers() {
    let (blocked, host) = server(1, None);
    let ping = post(&message("futoin.anonping:1.0:ping", &json!({ "echo": 7 })));
    let mut caller = block(host.address);
    blocked.wait_for_begin();
    for _ in 0..2 {
        let stuck = (503, r#"{"ready":false,"reasons":["arbiter_stuck"]}"#.to_owned());
        assert_eq!(probe(host.address, "/ready"), stuck);
        let stuck = (503, r#"{"alive":false,"reasons":["arbiter_stuck"]}"#.to_owned());
        assert_eq!(probe(host.address, "/health"), stuck);
        let mut other = Connection::open(host.address);
        let refused = other.send(&ping).receive();
        assert_eq!((refused.status(), refused.header("retry-after")), (503, Some("1")));
        assert_eq!(refused.json()["e"], "DefenseRejected");
        other.expect_end();
        let mut other = Http2::open(host.address);
        let params = json!({ "echo": 7 });
        let refused = other.request(1, "futoin.anonping:1.0:ping", &params).answer(1);
        assert_eq!(refused, Answer::Refused);
    }
    wait_until("it is seen", || stuck::figures().now > 0);
    blocked.go_on.send(()).expect("it waits");
    assert_eq!(caller.receive().json(), json!({ "r": { "done": true } }));
    // the worker takes connections again
    wait_until("a worker takes it", || {
        Connection::open(host.address).send(&ping).receive().status() == 200
    });
    assert_eq!(probe(host.address, "/ready").0, 200);
    wait_until("its end is seen", || stuck::figures().now == 0);
}

#[test]
fn a_worker_that_a_step_blocks_gets_no_connection_that_another_can_serve() {
    let (blocked, host) = server(2, None);
    let mut caller = block(host.address);
    blocked.wait_for_begin();
    for _ in 0..10 {
        client::ping(host.address);
    }
    assert_eq!(probe(host.address, "/ready").0, 503);
    blocked.go_on.send(()).expect("it waits");
    assert_eq!(caller.receive().json(), json!({ "r": { "done": true } }));
}

#[test]
fn nor_does_the_arbiter_of_the_server_keep_connections_waiting() {
    let (block, to_block) = oneshot::channel();
    let (blocked, host) = server(1, Some(to_block));
    block.send(()).expect("the server runs");
    blocked.wait_for_begin();
    for _ in 0..3 {
        client::ping(host.address);
        let stuck = (503, r#"{"ready":false,"reasons":["arbiter_stuck"]}"#.to_owned());
        assert_eq!(probe(host.address, "/ready"), stuck);
    }
    blocked.go_on.send(()).expect("it waits");
    wait_until("it works again", || probe(host.address, "/ready").0 == 200);
}
