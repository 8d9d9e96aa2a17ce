//! The promise: the shop sells each unit once. However orders are mixed, cut off or refused, no
//! unit is sold twice and none is lost, and the database says the same as the answers.

use std::net::SocketAddr;
use std::thread;

use asyncsteps_support::client::{self, Connection, message, post};
use asyncsteps_support::server::TestServer;
use asyncsteps_support::shop::{self, Account, Data, Held, Shop};
use serde_json::{Value, json};

const RESTOCK: &str = "demo.shop:1.0:restock";
const STOCK: &str = "demo.shop:1.0:stock";
const ORDER: &str = "demo.shop:1.0:order";

/// Clients that order one unit each, and the units there are for them.
const CLIENTS: usize = 200;
const UNITS: i64 = 100;

fn restock(address: SocketAddr, sku: &str, count: i64) {
    let answer = client::call(address, RESTOCK, &json!({ "sku": sku, "count": count }));
    assert!(answer["r"]["stock"].is_number(), "{answer}");
}

fn stock(address: SocketAddr, sku: &str) -> i64 {
    let answer = client::call(address, STOCK, &json!({ "sku": sku }));
    answer["r"]["stock"].as_i64().expect("a number of units")
}

fn order(address: SocketAddr, items: &[(&str, i64)]) -> Outcome {
    Outcome::of(&client::call(address, ORDER, &shop::order(items)))
}

/// What a client can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Sold,
    OutOfStock,
}

impl Outcome {
    fn of(answer: &Value) -> Self {
        if answer["e"] == "OutOfStock" {
            return Self::OutOfStock;
        }
        assert!(answer["r"]["order"].is_number(), "{answer}");
        Self::Sold
    }
}

fn count(outcomes: &[Outcome], which: Outcome) -> usize {
    outcomes.iter().filter(|outcome| **outcome == which).count()
}

/// Runs `client` for each number in a thread of its own, all at once.
fn at_once<T: Send>(clients: usize, client: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let client = &client;
    thread::scope(|scope| {
        let running: Vec<_> =
            (0..clients).map(|number| scope.spawn(move || client(number))).collect();
        running.into_iter().map(|client| client.join().expect("no panic")).collect()
    })
}

#[test]
fn of_two_hundred_clients_a_hundred_get_the_hundred_units() {
    let data = Data::new();
    let shop = Shop::start(&data);
    restock(shop.address, "apple", UNITS);
    let outcomes = at_once(CLIENTS, |_| order(shop.address, &[("apple", 1)]));
    assert_eq!(count(&outcomes, Outcome::Sold), 100);
    assert_eq!(count(&outcomes, Outcome::OutOfStock), 100);
    assert_eq!(stock(shop.address, "apple"), 0);
    let _ = shop.stop();
    assert_eq!(data.books()["apple"], Account { stock: 0, restocked: UNITS, sold: UNITS });
    assert_eq!(data.orders(), 100);
}

#[test]
fn clients_that_leave_half_way_lose_no_unit() {
    let data = Data::new();
    let config = shop::config(&data);
    let host = TestServer::start(2, move || executor_demo::executor(&config).expect("a shop"));
    let address = host.address;
    // several SKUs, so that orders are cut off while they hold one and wait for another
    let skus = ["apple", "cherry", "pear"];
    let basket = skus.map(|sku| (sku, 1));
    for sku in skus {
        restock(address, sku, UNITS);
    }
    let request = post(&message(ORDER, &shop::order(&basket)));
    let told = at_once(CLIENTS, |number| {
        let mut client = Connection::open(address);
        match number % 20 {
            // with the request on its way, abruptly
            0 => drop(client.send(&request)),
            // with the request on its way, saying so
            1 => client.send(&request).finish_sending().expect_end(),
            // in the middle of the request
            2 => drop(client.send(&request[..request.len() - 10])),
            _ => return Some(Outcome::of(&client.send(&request).receive().json())),
        }
        None
    });
    let told: Vec<Outcome> = told.into_iter().flatten().collect();
    assert_eq!(told.len(), CLIENTS * 17 / 20);

    // the restocking was a connection each
    host.connections.wait_for_the_end_of(CLIENTS + skus.len());
    host.wait_for_in_flight(0);

    // what was reserved for a client that left is here for another one
    let rest = (0..=UNITS).take_while(|_| order(address, &basket) == Outcome::Sold);
    let rest = i64::try_from(rest.count()).unwrap();
    for sku in skus {
        assert_eq!(stock(address, sku), 0, "{sku}");
    }
    drop(host);
    let sold_out = Account { stock: 0, restocked: UNITS, sold: UNITS };
    assert!(data.books().values().all(|account| *account == sold_out));
    assert_eq!(data.orders(), UNITS, "each order has one unit of each");
    let sold = i64::try_from(count(&told, Outcome::Sold)).unwrap();
    assert!(sold + rest <= UNITS, "{sold} + {rest}: at most all units were promised");
}

/// A shop with one worker where an order waits to be written, and the client of that order.
fn waiting_order(data: &Data, items: &[(&str, i64)]) -> (TestServer, Held, Connection) {
    let config = shop::config(data);
    let host = TestServer::start(1, move || executor_demo::executor(&config).expect("a shop"));
    restock(host.address, "apple", 5);
    restock(host.address, "cherry", 5);
    let held = data.hold();
    let mut client = Connection::open(host.address);
    client.send(&post(&message(ORDER, &shop::order(items))));
    host.wait_for_in_flight(1);
    // its turn at the apples came first, so it has them
    assert_eq!(order(host.address, &[("apple", 5)]), Outcome::OutOfStock);
    (host, held, client)
}

#[test]
fn an_order_whose_client_leaves_before_it_is_written_is_not_stored() {
    let data = Data::new();
    let (host, held, client) = waiting_order(&data, &[("apple", 4), ("cherry", 1)]);
    drop(client);
    host.wait_for_in_flight(0);
    // it holds nothing although its turn at the database has not come
    let mut other = Connection::open(host.address);
    other.send(&post(&message(ORDER, &shop::order(&[("apple", 5), ("cherry", 5)]))));
    host.wait_for_in_flight(1);
    drop(held);
    assert_eq!(Outcome::of(&other.receive().json()), Outcome::Sold);
    drop(host);
    assert!(data.books().values().all(|account| account.stock == 0));
    assert_eq!(data.orders(), 1);
}

#[test]
fn an_order_that_is_short_of_one_sku_takes_nothing() {
    let data = Data::new();
    let shop = Shop::start(&data);
    let address = shop.address;
    for (sku, count) in [("apple", 5), ("cherry", 1), ("pear", 5)] {
        restock(address, sku, count);
    }
    for _ in 0..20 {
        let short = order(address, &[("apple", 5), ("cherry", 2), ("pear", 5)]);
        assert_eq!(short, Outcome::OutOfStock);
        let unknown = [("apple", 5), ("durian", 1), ("pear", 5)];
        let refused = client::call(address, ORDER, &shop::order(&unknown));
        assert_eq!(refused, json!({ "e": "UnknownSku", "edesc": "durian" }));
    }
    for (sku, count) in [("apple", 5), ("cherry", 1), ("pear", 5)] {
        assert_eq!(stock(address, sku), count, "{sku}");
    }
    assert_eq!(order(address, &[("apple", 5), ("cherry", 1), ("pear", 5)]), Outcome::Sold);
    let _ = shop.stop();
    assert!(data.books().values().all(|account| account.stock == 0));
    assert_eq!(data.orders(), 1);
}

#[test]
fn a_sku_that_is_named_twice_is_counted_once_and_in_full() {
    let data = Data::new();
    let shop = Shop::start(&data);
    restock(shop.address, "apple", 5);
    assert_eq!(order(shop.address, &[("apple", 3), ("apple", 3)]), Outcome::OutOfStock);
    assert_eq!(order(shop.address, &[("apple", 3), ("apple", 2)]), Outcome::Sold);
    let placed = client::call(shop.address, "demo.shop:1.0:get", &json!({ "order": 1 }));
    assert_eq!(placed["r"]["items"], json!([{ "sku": "apple", "qty": 5, "price": 100 }]));
    let _ = shop.stop();
    assert_eq!(data.books()["apple"], Account { stock: 0, restocked: 5, sold: 5 });
}

#[test]
fn orders_that_take_the_same_skus_in_opposite_order_all_end() {
    let data = Data::new();
    let shop = Shop::start(&data);
    restock(shop.address, "apple", 150);
    restock(shop.address, "pear", 120);
    let outcomes = at_once(CLIENTS, |number| {
        let (apple, pear) = (("apple", 1), ("pear", 1));
        let items = if number % 2 == 0 { [apple, pear] } else { [pear, apple] };
        order(shop.address, &items)
    });
    assert_eq!(count(&outcomes, Outcome::Sold), 120);
    let _ = shop.stop();
    let books = data.books();
    assert_eq!(books["apple"], Account { stock: 30, restocked: 150, sold: 120 });
    assert_eq!(books["pear"], Account { stock: 0, restocked: 120, sold: 120 });
}

#[test]
fn restocking_and_ordering_at_the_same_time_adds_up() {
    let data = Data::new();
    let shop = Shop::start(&data);
    restock(shop.address, "apple", 1);
    let outcomes = at_once(100, |number| {
        if number % 2 == 0 {
            restock(shop.address, "apple", 1);
            return None;
        }
        Some(order(shop.address, &[("apple", 1)]))
    });
    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    let sold = i64::try_from(count(&outcomes, Outcome::Sold)).unwrap();
    assert_eq!(stock(shop.address, "apple"), 51 - sold);
    // what is in stock is also on the shelf
    assert_eq!(order(shop.address, &[("apple", 51 - sold)]), Outcome::Sold);
    let _ = shop.stop();
    assert_eq!(data.books()["apple"], Account { stock: 0, restocked: 51, sold: 51 });
}

#[test]
fn the_shop_remembers_what_it_sold() {
    let data = Data::new();
    let shop = Shop::start(&data);
    restock(shop.address, "apple", 10);
    assert_eq!(order(shop.address, &[("apple", 4)]), Outcome::Sold);
    let closed = shop.stop();
    assert_eq!((closed.finished, closed.cancelled), (0, 0));

    let shop = Shop::start(&data);
    assert_eq!(stock(shop.address, "apple"), 6);
    assert_eq!(order(shop.address, &[("apple", 7)]), Outcome::OutOfStock);
    assert_eq!(order(shop.address, &[("apple", 6)]), Outcome::Sold);
    let orders = client::call(shop.address, "demo.shop:1.0:list", &json!({ "customer": "test" }));
    let expected = json!([{ "order": 2, "total": 600 }, { "order": 1, "total": 400 }]);
    assert_eq!(orders["r"]["orders"], expected);
}
