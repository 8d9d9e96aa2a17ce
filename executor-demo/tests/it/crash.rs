//! The promise: what was answered survives the death of the process, and what was not answered
//! leaves nothing half done; repeated with its key, it is done once.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{self, Connection, message, post};
use asyncsteps_support::shop::{self, Bank, Data, Program};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_executor-demo");

/// How often the process is killed; clients that order at the same time; orders that are answered
/// before it is killed, so that it is in the middle of more.
const ROUNDS: usize = 5;
const CLIENTS: usize = 8;
const ANSWERED: usize = 100;

const ORDER: &str = "demo.shop:1.0:order";
const SKUS: [&str; 3] = ["apple", "cherry", "pear"];

/// An order that the client was told of.
struct Acknowledged {
    order: Value,
    items: Vec<(&'static str, i64)>,
}

/// Places orders until the server is gone; reports each one that is answered.
fn buy(mut client: Connection, number: usize, answered: &mpsc::Sender<Acknowledged>) {
    for round in number.. {
        let (first, second) = (SKUS[round % 3], SKUS[(round + 1) % 3]);
        let items = vec![(first, 1), (second, 2)];
        if !client.try_send(&post(&message(ORDER, &shop::order(&items)))) {
            return;
        }
        let Some(answer) = client.try_receive() else { return };
        let order = answer.json()["r"]["order"].clone();
        assert!(order.is_number(), "{answer}");
        answered.send(Acknowledged { order, items }).expect("the test listens until the end");
    }
}

fn restock(address: SocketAddr) {
    for sku in SKUS {
        let params = json!({ "sku": sku, "count": 100_000 });
        let restocked = client::call(address, "demo.shop:1.0:restock", &params);
        assert!(restocked["r"]["stock"].is_number(), "{restocked}");
    }
}

/// One life of the server: it is killed while all clients are ordering.
fn live(data: &Data, known: &mut Vec<Acknowledged>) {
    let program = Program::start(PROGRAM, data);
    let address = program.address;
    restock(address);
    let (answers, answered) = mpsc::channel();
    // connected before the first order, because the server may be gone soon after it
    let clients = [(); CLIENTS].map(|()| Connection::open(address));
    thread::scope(|scope| {
        for (number, client) in clients.into_iter().enumerate() {
            let answers = answers.clone();
            scope.spawn(move || buy(client, number, &answers));
        }
        drop(answers);
        for _ in 0..ANSWERED {
            known.push(answered.recv_timeout(PATIENCE).expect("orders are answered"));
        }
        program.kill();
        known.extend(answered);
    });
}

#[test]
fn every_answered_order_survives_a_kill() {
    let data = Data::new();
    let mut known = Vec::new();
    for round in 1..=ROUNDS {
        live(&data, &mut known);
        let restocked = i64::try_from(round).unwrap() * 100_000;
        for (sku, account) in data.books() {
            assert_eq!(account.restocked, restocked, "{sku} was restocked in each round");
        }
    }
    assert!(known.len() >= ROUNDS * ANSWERED);
    let numbers: HashSet<String> = known.iter().map(|known| known.order.to_string()).collect();
    assert_eq!(numbers.len(), known.len(), "no number was given twice");

    let program = Program::start(PROGRAM, &data);
    let mut client = Connection::open(program.address);
    for Acknowledged { order, mut items } in known {
        let found = client.call("demo.shop:1.0:get", &json!({ "order": order }));
        items.sort_unstable();
        let items: Vec<Value> = items
            .into_iter()
            .map(|(sku, qty)| json!({ "sku": sku, "qty": qty, "price": 100 }))
            .collect();
        let expected = json!({
            "order": order, "customer": "test", "items": items, "total": 300,
        });
        assert_eq!(found["r"], expected);
    }
    // nothing that the killed processes had reserved is missing
    for (sku, account) in data.books() {
        let all = shop::order(&[(&sku, account.stock)]);
        let sold = client.call(ORDER, &all);
        assert!(sold["r"]["order"].is_number(), "{sku}: {sold}");
    }
    assert!(data.books().values().all(|account| account.stock == 0));
}

/// Places orders with keys until the server is gone, from the first one that was not answered; `done`
/// counts those that were.
fn repeat(mut client: Connection, number: usize, done: &mut usize, answered: &mpsc::Sender<()>) {
    loop {
        if !client.try_send(&post(&message(ORDER, &keyed(number, *done)))) {
            return;
        }
        let Some(answer) = client.try_receive() else { return };
        let answer = answer.json();
        assert!(answer["r"]["order"].is_number(), "{answer}");
        *done += 1;
        answered.send(()).expect("the test listens until the end");
    }
}

fn keyed(client: usize, number: usize) -> Value {
    let mut order = shop::order(&[(SKUS[number % 3], 1)]);
    order["key"] = format!("{client}-{number}").into();
    order
}

#[test]
fn orders_that_are_repeated_after_a_kill_are_sold_once() {
    let data = Data::new();
    let mut done = [0_usize; CLIENTS];
    for _ in 0..ROUNDS {
        let program = Program::start(PROGRAM, &data);
        restock(program.address);
        let (answers, answered) = mpsc::channel();
        let clients = [(); CLIENTS].map(|()| Connection::open(program.address));
        thread::scope(|scope| {
            for (number, (client, done)) in clients.into_iter().zip(&mut done).enumerate() {
                let answers = answers.clone();
                scope.spawn(move || repeat(client, number, done, &answers));
            }
            drop(answers);
            for _ in 0..ANSWERED {
                answered.recv_timeout(PATIENCE).expect("orders are answered");
            }
            program.kill();
            // until all clients have seen that it is gone
            answered.iter().for_each(drop);
        });
    }
    let program = Program::start(PROGRAM, &data);
    for (number, done) in done.iter_mut().enumerate() {
        // the one that was not answered, and once more
        let order = keyed(number, *done);
        let first = client::call(program.address, ORDER, &order);
        assert!(first["r"]["order"].is_number(), "{first}");
        assert_eq!(client::call(program.address, ORDER, &order), first);
        *done += 1;
    }
    let expected = i64::try_from(done.iter().sum::<usize>()).unwrap();
    assert_eq!(data.orders(), expected, "one order for each key");
    let sold: i64 = data.books().values().map(|account| account.sold).sum();
    assert_eq!(sold, expected);
    // each was paid once, although calls of the bank were cut with their process
    assert!(program.terminate().success());
    assert_eq!(data.bank(), Bank { shop: sold * 100, held: 0 });
}
