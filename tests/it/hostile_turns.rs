//! The promise: a connection with many requests has its worker no longer at a time than one with few, so
//! that others need not wait for all of them.

use std::sync::{Arc, Mutex, mpsc};

use asyncsteps_core::Template;
use asyncsteps_executor::{Executor, RequestSteps};
use asyncsteps_support::PATIENCE;
use asyncsteps_support::h2::{Http2, flag, frame, head, kind};
use asyncsteps_support::jobs::definition;
use asyncsteps_support::server::TestServer;
use asyncsteps_support::ws::{self, Socket, opcode};
use serde_json::json;

const WAIT: &str = "test.jobs:1.0:wait";

/// Requests of a connection, which it sends at once.
const REQUESTS: usize = 100;

/// How many of them may be carried out before others have their turn.
const OF_A_TURN: usize = 8;

/// The number of the request that blocks its worker; those of a connection have its number.
const BLOCKS: i64 = 0;

/// A server with one worker that can be blocked, and which connections its requests were of, in their
/// order.
struct Server {
    host: TestServer,
    served: Arc<Mutex<Vec<i64>>>,
    blocked: mpsc::Receiver<()>,
    go_on: mpsc::Sender<()>,
}

impl Server {
    fn start() -> Self {
        let served = Arc::new(Mutex::new(Vec::new()));
        let (block, blocked) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let (numbers, goes_on) = (Arc::clone(&served), Mutex::new(goes_on));
        let wait = Template::build(move |asi| {
            asi.add(move |asi, ()| {
                let n: i64 = asi.param("n")?;
                if n == BLOCKS {
                    block.send(()).expect("the test waits");
                    // this blocks its thread: meanwhile the requests of all others arrive
                    let goes_on = goes_on.lock().expect("no panic");
                    goes_on.recv_timeout(PATIENCE).expect("the test goes on");
                } else {
                    numbers.lock().expect("no panic").push(n);
                }
                asi.reply(json!({ "n": n }))
            });
        });
        let host = TestServer::start(1, move || {
            let builder = Executor::builder().interface(definition(), |functions| {
                functions.others_not_implemented();
                functions.add("wait", &wait);
            });
            builder.build().expect("a right configuration")
        });
        Self { host, served, blocked, go_on }
    }

    /// Has clients send their requests while the worker does something else, and take their answers; how
    /// many of one client were carried out at most while another one had some.
    fn longest_turn<C>(
        self,
        mut clients: [C; 2],
        send: impl Fn(&mut C, i64),
        take: impl Fn(&mut C),
    ) -> usize {
        let mut blocker = Http2::open(self.host.address);
        blocker.request(1, WAIT, &json!({ "n": BLOCKS }));
        self.blocked.recv_timeout(PATIENCE).expect("it begins");
        for (client, n) in clients.iter_mut().zip(1..) {
            send(client, n);
        }
        self.go_on.send(()).expect("it waits");
        clients.iter_mut().for_each(take);
        let served = self.served.lock().expect("no panic");
        assert_eq!(served.len(), 2 * REQUESTS);
        let last_of = |n| served.iter().rposition(|of| *of == n).expect("some");
        let both = &served[..last_of(1).min(last_of(2))];
        both.chunk_by(|one, next| one == next).map(<[i64]>::len).max().expect("both were served")
    }
}

fn streams() -> impl Iterator<Item = u32> {
    (1..).step_by(2).take(REQUESTS)
}

fn take_all(client: &mut Http2) {
    let mut left = REQUESTS;
    while left > 0 {
        let frame = client.frame().expect("an answer");
        if matches!(frame.kind, kind::HEADERS | kind::DATA) && frame.flags & flag::END_STREAM != 0 {
            left -= 1;
        }
    }
}

#[test]
fn requests_of_http2_in_one_packet_take_turns() {
    let server = Server::start();
    let clients = [(); 2].map(|()| Http2::open(server.host.address));
    let longest = server.longest_turn(
        clients,
        |client, n| {
            let path = format!("/ftn/test.jobs/1.0/wait?n={n}");
            let end = flag::END_HEADERS | flag::END_STREAM;
            let head = head("GET", &path, &[]);
            let all: Vec<_> =
                streams().flat_map(|id| frame(kind::HEADERS, end, id, &head)).collect();
            client.send_bytes(&all);
        },
        take_all,
    );
    assert!(longest <= OF_A_TURN, "{longest} in a row");
}

#[test]
fn bodies_of_http2_that_end_in_one_packet_take_turns() {
    let server = Server::start();
    let clients = [(); 2].map(|()| {
        let mut client = Http2::open(server.host.address);
        let head = head("POST", "/ftn/", &[]);
        let heads = streams().flat_map(|id| frame(kind::HEADERS, flag::END_HEADERS, id, &head));
        client.send_bytes(&heads.collect::<Vec<_>>());
        client
    });
    // what a stream takes at least, see deploy.md
    let begun = || usize::from(server.host.executor.usage().memory >= 2 * REQUESTS * 4096);
    server.host.wait_for("heads of all requests", 1, begun);
    let longest = server.longest_turn(
        clients,
        |client, n| {
            let call = json!({ "f": WAIT, "p": { "n": n } }).to_string();
            let ends =
                streams().flat_map(|id| frame(kind::DATA, flag::END_STREAM, id, call.as_bytes()));
            client.send_bytes(&ends.collect::<Vec<_>>());
        },
        take_all,
    );
    assert!(longest <= OF_A_TURN, "{longest} in a row");
}

#[test]
fn messages_of_web_sockets_in_one_packet_take_turns() {
    let server = Server::start();
    let clients = [(); 2].map(|()| Socket::open(server.host.address));
    let longest = server.longest_turn(
        clients,
        |client, n| {
            let call = json!({ "f": WAIT, "p": { "n": n }, "rid": "C1" }).to_string();
            client.send_bytes(&ws::frame(opcode::BINARY, call.as_bytes()).repeat(REQUESTS));
        },
        |client| (0..REQUESTS).for_each(|_| drop(client.receive())),
    );
    assert!(longest <= OF_A_TURN, "{longest} in a row");
}
