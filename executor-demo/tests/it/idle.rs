//! The promise: connections that do nothing cost little, delay no other connection, and end.

use std::fs;
use std::net::SocketAddr;
use std::process::{self, Command};
use std::sync::{Mutex, PoisonError};

use asyncsteps_support::client::{self, Connection, message, post};
use asyncsteps_support::shop::{Data, Program};
use asyncsteps_support::ws::Socket;
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_executor-demo");

/// How many connections do nothing, where the system lets a process have so many.
const IDLE: usize = 10_000;

/// Fewer would show nothing.
const IDLE_AT_LEAST: usize = 1_000;

/// File descriptors for all but the connections; tests beside in the same process take some too.
const OTHER_FILES: usize = 1_000;

/// The most memory that a connection may take in the server, in bytes: three times what it takes.
const MEMORY: usize = 64 << 10;

/// Held by the test that opens so many: two of them in one process could be more than the system allows.
static ONE: Mutex<()> = Mutex::new(());

/// How many connections this process and those that it starts may have, after asking for enough.
fn allowed() -> usize {
    let id = process::id().to_string();
    let wanted = format!("--nofile={}:", IDLE + OTHER_FILES);
    let is_allowed = || {
        let limits = fs::read_to_string("/proc/self/limits").expect("Linux");
        let line = limits.lines().find(|line| line.starts_with("Max open files"));
        let soft = line.and_then(|line| line.split_whitespace().nth(3));
        // a number, or no limit
        let soft = soft.and_then(|soft| soft.parse().ok()).unwrap_or(usize::MAX);
        IDLE.min(soft.saturating_sub(OTHER_FILES))
    };
    if is_allowed() < IDLE {
        // it may not be allowed, or not be there
        let _ = Command::new("prlimit").args(["--pid", &id, &wanted]).status();
    }
    is_allowed()
}

/// Opens as many connections as are allowed; meanwhile others are served, and in the end each of them
/// is. Gives what to tell.
fn check<C>(open: fn(SocketAddr) -> C, ping: fn(&mut C)) -> String {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let allowed = allowed();
    assert!(allowed >= IDLE_AT_LEAST, "only {allowed} connections are allowed here");
    let data = Data::new();
    let program = Program::start_with(PROGRAM, &data, &["--head-timeout", "600"]);
    let mut other = Connection::open(program.address);
    client::ping(program.address);
    let before = program.memory();
    let mut idle = Vec::new();
    for number in 0..allowed {
        idle.push(open(program.address));
        if number % 100 == 0 {
            expect_pong(&mut other);
        }
    }
    let each = program.memory().saturating_sub(before) / allowed;
    assert!(each < MEMORY, "{each} bytes for each of {allowed}");
    client::ping(program.address);
    idle.iter_mut().for_each(ping);
    client::ping(program.address);
    format!("{allowed} idle connections take {each} bytes each")
}

fn expect_pong(client: &mut Connection) {
    let answer = client.call("futoin.anonping:1.0:ping", &json!({ "echo": 5 }));
    assert_eq!(answer, json!({ "r": { "echo": 5 } }));
}

#[test]
fn connections_that_say_nothing_hold_up_nobody() {
    println!("{}", check(Connection::open, expect_pong));
}

#[test]
fn idle_web_sockets_hold_up_nobody() {
    let told = check(Socket::open, |socket| {
        let answer = socket.call("futoin.anonping:1.0:ping", &json!({ "echo": 5 }));
        assert_eq!(answer, json!({ "r": { "echo": 5 } }));
    });
    println!("{told}");
}

#[test]
fn connections_that_do_nothing_for_too_long_are_closed() {
    let data = Data::new();
    // long enough to open all of them, and to send a part
    let limits = ["--head-timeout", "3", "--keep-alive", "3"];
    let program = Program::start_with(PROGRAM, &data, &limits);
    let mut silent = Connection::open(program.address);
    let mut half = Connection::open(program.address);
    let mut served = Connection::open(program.address);
    let ping = post(&message("futoin.anonping:1.0:ping", &json!({ "echo": 5 })));
    half.send(&ping[..20]);
    expect_pong(&mut served);
    served.expect_closed();
    assert_eq!(half.receive().status(), 408);
    half.expect_closed();
    // an answer to nothing could be taken for that of a request which is just on its way
    silent.expect_closed();
    client::ping(program.address);
}
