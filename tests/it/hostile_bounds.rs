//! The promise: what the connections of clients that do not go on take is what the budget counts, and
//! no more than it has, in each of their states; others are served meanwhile. The states are those of
//! the table in `deploy.md`.

use std::net::Ipv4Addr;

use asyncsteps_actors::budget::{Budget, Limits};
use asyncsteps_core::Template;
use asyncsteps_executor::{Executor, RequestSteps, builtin};
use asyncsteps_support::client::{self, Connection, message, post, post_with};
use asyncsteps_support::h2::{Http2, field, flag, frame, head, kind};
use asyncsteps_support::server::{TestServer, resident_bytes};
use asyncsteps_support::stream::{Stream, server_config};
use asyncsteps_support::ws::{self, Socket, opcode};
use asyncsteps_support::{PATIENCE, conform};
use asyncsteps_transport::http::ServerLimits;
use serde_json::json;
use tokio::time::Instant;

/// Clients that do not go on share an address.
const THEIRS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// How many connections they have. Each has two file descriptors here.
const CONNECTIONS: usize = 400;

/// Bytes of the budget.
const MEMORY: usize = 4 << 20;

/// Bytes that a connection takes beside, with those of its client, which is in this process too.
const CONNECTION: usize = 40_000;

/// Bytes of a head or a body that is almost as large as it may be.
const LARGE: usize = 60_000;

/// How many of them do not take more than the system takes for them.
const UNREAD: usize = 120;

/// How many have a table with entries.
const TABLES: usize = 40;

/// How many times they call for that.
const CALLS: usize = 16;

/// How a record begins that has more bytes than follow (RFC 8446 §5.1).
const RECORD: &[u8] = &[0x17, 3, 3, 0x40, 0];

const PING: &str = "futoin.anonping:1.0:ping";
const BIG: &str = "conform.main:1.2:big";
const PATH: &str = "/ftn/conform.main/1.2/answer";

/// Answers some functions at once.
fn executor(budget: Budget) -> Executor {
    let big = Template::build(|asi| {
        asi.add(|asi, ()| {
            let size: i64 = asi.param("size")?;
            asi.reply("x".repeat(usize::try_from(size).unwrap_or(0)))
        });
    });
    let answer = Template::build(|asi| {
        asi.add(|asi, ()| asi.reply(42));
    });
    let builder = Executor::builder().budget(budget).request_timeout(PATIENCE);
    let builder = builder.interface(conform::definition("conform.main:1.2"), |functions| {
        functions.others_not_implemented();
        functions.add("big", &big);
        functions.add("answer", &answer);
    });
    let builder = builder.interface(conform::definition("futoin.anonping:1.0"), |functions| {
        functions.add("ping", &builtin::ping());
    });
    builder.build().expect("a right configuration")
}

/// Has many connections brought into a state in which they do not go on, and compares what is taken
/// with the budget.
#[track_caller]
fn check<C>(connections: usize, begin: impl Fn(Stream) -> C) {
    let budget = Budget::new(Limits { memory: MEMORY, ..Limits::default() });
    // no time limit helps
    let limits = ServerLimits {
        head_timeout: PATIENCE,
        stall_timeout: PATIENCE,
        keep_alive: PATIENCE,
        ..ServerLimits::default()
    };
    let (made, none) = (executor(budget.clone()), None);
    let host = TestServer::start_with(1, limits, none, || made, |service| service);
    client::ping(host.address);
    let before = resident_bytes();
    let mut held = Vec::new();
    for number in 0..connections {
        held.push(begin(Stream::connect_from(THEIRS, host.address)));
        if number % 50 == 0 {
            client::ping(host.address);
        }
    }
    let used = || usize::from(budget.usage().memory > MEMORY / 2);
    host.wait_for("more than half of the budget", 1, used);
    let (counted, taken) = (budget.usage().memory, resident_bytes().saturating_sub(before));
    assert!(counted <= MEMORY, "{counted} bytes are counted");
    assert!(taken < 4 * MEMORY + connections * CONNECTION, "{taken} bytes are taken");
    assert!(!host.executor.is_overloaded(), "others can be served");
    client::ping(host.address);
    drop(held);
    host.wait_for("bytes counted", 0, || budget.usage().memory);
}

#[test]
fn heads_that_have_begun() {
    let request = post_with("/ftn/", &format!("X-Filler: {}\r\n", "x".repeat(LARGE)), b"");
    check(CONNECTIONS, |stream| {
        let mut client = Connection::over(stream);
        client.try_send(&request[..LARGE]);
        client
    });
}

#[test]
fn bodies_that_have_begun() {
    let filler = format!("X-Filler: {}\r\n", "x".repeat(LARGE / 2));
    let request = post_with("/ftn/", &filler, &vec![b' '; LARGE]);
    check(CONNECTIONS, |stream| {
        let mut client = Connection::over(stream);
        client.try_send(&request[..request.len() - 1]);
        client
    });
}

#[test]
fn bodies_in_chunks_that_have_begun() {
    let head = "POST /ftn/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = format!("3e8\r\n{}\r\n", " ".repeat(1000)).repeat(LARGE / 1000);
    let begun = format!("{head}{chunks}");
    check(CONNECTIONS, |stream| {
        let mut client = Connection::over(stream);
        client.try_send(begun.as_bytes());
        client
    });
}

#[test]
fn answers_that_are_not_taken() {
    let call = post(&message(BIG, &json!({ "size": 400_000 })));
    check(UNREAD, |stream| {
        let mut client = Connection::over(stream);
        for _ in 0..CALLS {
            if !client.try_send(&call) {
                break;
            }
        }
        client
    });
}

/// An entry of the table of the connection (RFC 7541 §6.2.1), and this number of fields that are that entry.
fn indexed(count: usize) -> Vec<u8> {
    let entry = [&[0x40], &field("a", "")[1..]].concat();
    [head("POST", PATH, &[]), entry, vec![0x80 | 62; count]].concat()
}

#[test]
fn heads_of_http2_that_have_begun() {
    let begun = frame(kind::HEADERS, 0, 1, &indexed(1_900));
    check(CONNECTIONS, |stream| {
        let mut client = Http2::over(stream);
        client.try_send(&begun);
        client
    });
}

/// The name `:path` from the table that all have, and a value, which are a new entry (RFC 7541 §6.2.1).
const SLASH: &[u8] = &[0x44, 1, b'/'];

#[test]
fn buffers_that_entries_of_a_table_are_in() {
    let most = [("x-filler", &*"x".repeat(16_000))];
    let filler: Vec<u8> = most.iter().flat_map(|(name, value)| field(name, value)).collect();
    let pseudo = [(":method", "GET"), (":scheme", "http"), (":authority", "localhost")];
    let pseudo: Vec<u8> = pseudo.iter().flat_map(|(name, value)| field(name, value)).collect();
    let head = [&pseudo, SLASH, &filler].concat();
    check(TABLES, |stream| {
        let mut client = Http2::over(stream);
        for id in (1..).step_by(2).take(100) {
            let end = flag::END_HEADERS | flag::END_STREAM;
            client.try_send(&frame(kind::HEADERS, end, id, &head));
            client.answer(id);
        }
        client
    });
}

#[test]
fn bodies_of_http2_that_are_waited_for() {
    check(CONNECTIONS, |stream| {
        let mut client = Http2::over(stream);
        for id in (1..).step_by(2).take(100) {
            let head = frame(kind::HEADERS, flag::END_HEADERS, id, &head("POST", "/ftn/", &[]));
            client.try_send(&[head, frame(kind::DATA, 0, id, b"{")].concat());
        }
        client
    });
}

#[test]
fn answers_of_http2_without_a_window() {
    check(CONNECTIONS, |stream| {
        let mut client = Http2::with_window(stream, 0);
        for id in (1..).step_by(2).take(100) {
            let end = flag::END_HEADERS | flag::END_STREAM;
            client.try_send(&frame(kind::HEADERS, end, id, &head("GET", PATH, &[])));
        }
        client
    });
}

#[test]
fn answers_of_http2_with_a_window_of_a_byte() {
    let call = message(BIG, &json!({ "size": 14_000 }));
    check(CONNECTIONS, |stream| {
        let mut client = Http2::with_window(stream, 1);
        for id in (1..).step_by(2).take(20) {
            let head = frame(kind::HEADERS, flag::END_HEADERS, id, &head("POST", "/ftn/", &[]));
            client.try_send(&[head, frame(kind::DATA, flag::END_STREAM, id, &call)].concat());
        }
        client
    });
}

#[test]
fn connections_of_http2_without_requests() {
    check(CONNECTIONS, |stream| {
        let mut client = Http2::over(stream);
        client.ping(1);
        client
    });
}

#[test]
fn messages_of_web_sockets_that_have_begun() {
    let begun = ws::frame(opcode::BINARY, &vec![b' '; LARGE]);
    check(CONNECTIONS, |stream| {
        let mut socket = Socket::over(stream, "/ftn/", "");
        socket.try_send(&begun[..LARGE]);
        socket
    });
}

#[test]
fn messages_of_web_sockets_in_fragments() {
    let begun = ws::frame(opcode::FIRST_BINARY, &vec![b' '; LARGE]);
    check(CONNECTIONS, |stream| {
        let mut socket = Socket::over(stream, "/ftn/", "");
        socket.try_send(&begun);
        socket
    });
}

#[test]
fn answers_of_web_sockets_that_are_not_taken() {
    let mut call = json!({ "f": BIG, "p": { "size": 60_000 }, "rid": "C1" });
    let calls: Vec<u8> = (0..128)
        .flat_map(|number| {
            call["rid"] = json!(format!("C{number}"));
            ws::frame(opcode::BINARY, call.to_string().as_bytes())
        })
        .collect();
    check(UNREAD, |stream| {
        let mut socket = Socket::over(stream, "/ftn/", "");
        socket.try_send(&calls);
        socket
    });
}

#[test]
fn records_of_tls_that_have_begun() {
    let budget = Budget::new(Limits { memory: MEMORY, ..Limits::default() });
    let limits = ServerLimits { keep_alive: PATIENCE, ..ServerLimits::default() };
    let (made, tls) = (executor(budget.clone()), Some(server_config()));
    let host = TestServer::start_with(1, limits, tls, || made, |service| service);
    let open = || {
        let mut client = Connection::over(Stream::secure(host.address));
        assert_eq!(client.call(PING, &json!({ "echo": 7 })), json!({ "r": { "echo": 7 } }));
        client
    };
    let record = [RECORD, &[0; 16_000]].concat();
    let begun = (0..CONNECTIONS)
        .map(|_| {
            let mut client = open();
            client.try_send_raw(&record);
            (client, budget.usage().memory)
        })
        .collect::<Vec<_>>();
    let counted = begun.iter().map(|(_, counted)| *counted).max();
    assert!(counted.is_some_and(|counted| (MEMORY / 2..=MEMORY).contains(&counted)), "{counted:?}");
    open();
    drop(begun);
    let begun = Instant::now();
    while budget.usage().memory > 0 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", budget.usage());
        open();
    }
}

/// The status 431 (RFC 6585 §5), as the Huffman code has it (RFC 7541 §5.2).
const TOO_LARGE: &[u8] = &[0x48, 0x83, 0x69, 0x90, 0xff];

#[test]
fn a_head_of_many_fields_is_refused_however_few_bytes_it_takes() {
    let host = TestServer::start(1, conform::executor);
    let before = resident_bytes();
    let end = flag::END_HEADERS;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = Http2::open(host.address);
        let heads = (1..).step_by(2).take(100);
        let heads: Vec<u8> =
            heads.flat_map(|id| frame(kind::HEADERS, end, id, &indexed(1_900))).collect();
        client.send_bytes(&heads);
        let status =
            std::iter::from_fn(|| client.frame()).find(|frame| frame.kind == kind::HEADERS);
        let status = status.expect("an answer").payload;
        assert!(status.starts_with(TOO_LARGE), "{status:?}");
        clients.push(client);
    }
    let taken = resident_bytes().saturating_sub(before);
    assert!(taken < 100 << 20, "{taken} bytes are taken");
    client::ping(host.address);
}
