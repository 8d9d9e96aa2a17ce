//! The promise: the memory of requests that wait is what the budget counts, whatever they look like.

use std::time::Duration;

use asyncsteps_actors::budget::{Budget, Limits};
use asyncsteps_executor::Executor;
use asyncsteps_support::client::{Connection, message, post, post_with};
use asyncsteps_support::jobs::Jobs;
use asyncsteps_support::server::{TestServer, resident_bytes};
use serde_json::json;

/// How many requests wait.
const REQUESTS: usize = 200;

/// Bytes of each, or about: most that its function takes.
const SIZE: usize = 60_000;

/// What a connection takes beside, in bytes: less than what its messages would, if they were kept.
const CONNECTION: usize = 80_000;

fn executor(memory: usize) -> (Jobs, Executor, Budget) {
    let budget = Budget::new(Limits { memory, ..Limits::default() });
    let builder = Executor::builder().request_timeout(Duration::from_secs(600));
    let (jobs, builder) = Jobs::add(builder.budget(budget.clone()));
    (jobs, builder.build().expect("a right configuration"), budget)
}

/// Sends the same request on many connections, and compares what is taken with what is counted.
#[track_caller]
fn check(request: &[u8]) {
    let (mut jobs, executor, budget) = executor(1 << 30);
    let host = TestServer::start(1, || executor);
    let mut clients = Vec::new();
    let mut running = Vec::new();
    let before = resident_bytes();
    for _ in 0..REQUESTS {
        let mut client = Connection::open(host.address);
        client.send(request);
        running.push(jobs.wait_for_start());
        clients.push(client);
    }
    let taken = resident_bytes().saturating_sub(before) / REQUESTS;
    let counted = budget.usage().memory / REQUESTS;
    assert!(taken < counted + CONNECTION, "{taken} bytes are taken, {counted} counted");
}

#[test]
fn the_bytes_of_a_message_are_not_kept() {
    let mut message = message("test.jobs:1.0:wait", &json!({}));
    message.resize(SIZE, b' ');
    check(&post(&message));
}

#[test]
fn a_long_id_counts() {
    let message = json!({ "f": "test.jobs:1.0:wait", "p": {}, "rid": "x".repeat(SIZE) });
    check(&post(message.to_string().as_bytes()));
}

#[test]
fn headers_count() {
    let header = format!("X-Filler: {}\r\n", "x".repeat(SIZE));
    check(&post_with("/ftn/", &header, &message("test.jobs:1.0:wait", &json!({}))));
}

#[test]
fn requests_beyond_the_limits_are_refused() {
    let (mut jobs, executor, _budget) = executor(2 * SIZE);
    let host = TestServer::start(1, || executor);
    let message =
        json!({ "f": "test.jobs:1.0:wait", "p": {}, "rid": "x".repeat(SIZE) }).to_string();
    let mut first = Connection::open(host.address);
    first.send(&post(message.as_bytes()));
    let job = jobs.wait_for_start();
    let refused = Connection::open(host.address).post(message.as_bytes()).json();
    assert_eq!(
        (&refused["e"], &refused["edesc"]),
        (&json!("DefenseRejected"), &json!("Too much memory"))
    );
    job.finish();
    assert_eq!(first.receive().json()["r"], json!({ "n": 0 }));
}

#[test]
fn a_body_that_is_on_its_way_counts() {
    let (_jobs, executor, budget) = executor(4 * SIZE);
    let host = TestServer::start(1, || executor);
    let request = post(&vec![b' '; SIZE]);
    let begin = || {
        let mut client = Connection::open(host.address);
        client.send(&request[..SIZE / 2]);
        client
    };
    let counted = || budget.usage().memory;
    let mut first = begin();
    host.wait_for("more bytes than the first has", 1, || usize::from(counted() > SIZE));
    let others = [begin(), begin()];
    // there is no room for three: the one that has waited longest has to go
    assert_eq!(first.receive().status(), 503);
    host.wait_for("more bytes than the second has", 1, || usize::from(counted() > 2 * SIZE));
    assert!(counted() <= 4 * SIZE);
    drop(others);
    host.wait_for("bytes counted", 0, counted);
}
