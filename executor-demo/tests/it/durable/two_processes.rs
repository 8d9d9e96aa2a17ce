//! Two processes beside each other, with the journal in PostgreSQL.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::{env, thread};

use asyncsteps_postgres_server::Server;
use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::Connection;
use asyncsteps_support::shop::Program;
use serde_json::Value;
use tokio::time::Instant;

use crate::durable::shops::{Shops, buy, ended, jobs, submission};

/// Clients of each process; orders that are accepted before something happens.
const CLIENTS: usize = 4;
const ACCEPTED: usize = 20;

/// A tenth of what the long run has.
fn tenth(count: usize) -> usize {
    if env::var_os("LONG_TESTS").is_some() { count } else { count / 10 }
}

/// Orders at both processes until so many are accepted; then does what the test wants while the clients go
/// on. Gives how many are accepted in all.
fn order(addresses: [SocketAddr; 2], wanted: usize, then: impl FnOnce()) -> usize {
    let (accepts, accepted) = mpsc::channel();
    let goes_on = AtomicBool::new(true);
    let connect = |address| (0..CLIENTS).map(move |_| Connection::open(address));
    let clients: Vec<_> = addresses.into_iter().flat_map(connect).collect();
    thread::scope(|scope| {
        for (number, client) in clients.into_iter().enumerate() {
            let accepts = accepts.clone();
            let accepted = move || accepts.send(()).expect("the test listens until the end");
            let goes_on = || goes_on.load(Ordering::Relaxed);
            scope.spawn(move || buy(client, number, accepted, goes_on));
        }
        drop(accepts);
        for _ in 0..wanted {
            accepted.recv_timeout(PATIENCE).expect("orders are accepted");
        }
        then();
        goes_on.store(false, Ordering::Relaxed);
        wanted + accepted.iter().count()
    })
}

#[test]
fn every_accepted_order_ends_once_whichever_process_is_killed() {
    let Some(server) = Server::start() else { return };
    let shops = Shops::new(Some(server.url()));
    let (mut victim, mut other) = (shops.start(), shops.start());
    let mut accepted = 0;
    // after each kill the shelf of the dead one waits for the end of its lease
    for round in 0..tenth(80) {
        let addresses = [victim.address, other.address];
        // at another point each time
        accepted += order(addresses, 1 + round * 7 % ACCEPTED, || victim.kill());
        // both are killed in turn
        victim = std::mem::replace(&mut other, shops.start());
    }
    drop(victim);
    let ended = shops.settle(other);
    assert!(ended >= accepted, "{ended} of {accepted} are there");
}

#[test]
fn a_process_that_was_stopped_past_its_lease_does_nothing_twice() {
    let Some(server) = Server::start() else { return };
    let shops = Shops::new(Some(server.url()));
    let (stopped, other) = (shops.start(), shops.start());
    let accepted = order([stopped.address; 2], ACCEPTED, || {
        let held = shops.hold();
        stopped.stop();
        drop(held);
        // the other one takes them over, and ends them
        let left: Vec<Value> = jobs(other.address, "list");
        assert!(left.len() >= ACCEPTED / 2, "{left:?}");
        left.iter().for_each(|uid| drop(ended(other.address, uid)));
        stopped.go_on();
    });
    // it is a worker as before
    let accepted = accepted + order([stopped.address; 2], ACCEPTED, || {});
    drop(other);
    let ended = shops.settle(stopped);
    assert!(ended >= accepted, "{ended} of {accepted} are there");
}

/// Submits so many jobs, each with a key of its own, until each is accepted; does something when half of
/// them are.
fn submit(addresses: [SocketAddr; 2], count: usize, at_half: impl FnOnce()) {
    let (accepts, accepted) = mpsc::channel();
    let next = &AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..2 * CLIENTS {
            let accepts = accepts.clone();
            scope.spawn(move || {
                let mut client = Connection::open(addresses[number % 2]);
                loop {
                    let key = next.fetch_add(1, Ordering::Relaxed);
                    if key >= count {
                        return;
                    }
                    let request = submission(Some(&key.to_string()));
                    let begun = Instant::now();
                    while !is_accepted(&mut client, &request, addresses[1]) {
                        assert!(begun.elapsed() < PATIENCE, "{key} is not accepted");
                    }
                    accepts.send(()).expect("the test listens until the end");
                }
            });
        }
        drop(accepts);
        let mut accepted = accepted.iter();
        assert_eq!(accepted.by_ref().take(count / 2).count(), count / 2);
        at_half();
        assert_eq!(accepted.count(), count - count / 2);
    });
}

/// Whether the server takes it. If the server is gone, the client goes to the one that stays.
fn is_accepted(client: &mut Connection, request: &[u8], stays: SocketAddr) -> bool {
    let answer = client.try_send(request).then(|| client.try_receive()).flatten();
    let Some(answer) = answer else {
        *client = Connection::open(stays);
        return false;
    };
    let answer = answer.json();
    let is_accepted = answer["r"]["uid"].is_string();
    // without its journal the server says that it cannot, and of a thousand that wait that no more may
    let is_later = ["InternalError", "DefenseRejected"].iter().any(|code| answer["e"] == *code);
    assert!(is_accepted || is_later, "{answer}");
    is_accepted
}

#[test]
fn no_job_is_missing_after_one_of_two_workers_was_killed() {
    let Some(server) = Server::start() else { return };
    let shops = Shops::new(Some(server.url()));
    let (victim, other) = (shops.start(), shops.start());
    let count = tenth(20_000);
    submit([victim.address, other.address], count, || Program::kill(victim));
    assert_eq!(shops.settle(other), count);
}

#[test]
fn no_job_is_missing_after_the_database_was_killed() {
    let Some(mut server) = Server::start() else { return };
    let shops = Shops::new(Some(server.url()));
    let (one, other) = (shops.start(), shops.start());
    let count = tenth(5_000);
    submit([one.address, other.address], count, || {
        server.end("KILL");
        server.run();
    });
    drop(one);
    assert_eq!(shops.settle(other), count);
}
