//! One process after the other, with the journal in a file.

use std::env;
use std::sync::mpsc;
use std::thread;

use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::Connection;

use crate::durable::shops::{Shops, buy};

/// Clients that order at the same time; orders that are answered before the process is killed, so that
/// it is in the middle of more.
const CLIENTS: usize = 8;
const ANSWERED: usize = 20;

/// One life of the server: it is killed while all clients are ordering. Gives how many orders were
/// answered or submitted.
fn live(shops: &Shops, wanted: usize) -> usize {
    let program = shops.start();
    let (answers, answered) = mpsc::channel();
    // connected before the first order, because the server may be gone soon after it
    let clients = [(); CLIENTS].map(|()| Connection::open(program.address));
    thread::scope(|scope| {
        for (number, client) in clients.into_iter().enumerate() {
            let answers = answers.clone();
            let accepted = move || answers.send(()).expect("the test listens until the end");
            scope.spawn(move || buy(client, number, accepted, || true));
        }
        drop(answers);
        for _ in 0..wanted {
            answered.recv_timeout(PATIENCE).expect("orders are answered");
        }
        program.kill();
        wanted + answered.iter().count()
    })
}

#[test]
fn every_accepted_order_ends_once_whenever_the_process_is_killed() {
    let kills = if env::var_os("LONG_TESTS").is_some() { 200 } else { 20 };
    let shops = Shops::new(None);
    // at another point each time
    let accepted: usize = (0..kills).map(|round| live(&shops, 1 + round * 7 % ANSWERED)).sum();
    let ended = shops.settle(shops.start());
    assert!(ended >= accepted, "{ended} of {accepted} are there");
}
