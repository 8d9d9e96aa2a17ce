//! The promise: what a client was told is what is in the books. An order that was answered with an
//! error was not stored, and one that is repeated with its key gets the first answer.

use std::net::SocketAddr;
use std::thread;

use asyncsteps_support::client::{self, Connection, message, post};
use asyncsteps_support::shop::{self, Bank, Data, Shop};
use serde_json::{Value, json};

const RESTOCK: &str = "demo.shop:1.0:restock";
const ORDER: &str = "demo.shop:1.0:order";

/// Clients that order at the same time.
const CLIENTS: usize = 50;

fn restock(address: SocketAddr, sku: &str, count: i64) {
    let answer = client::call(address, RESTOCK, &json!({ "sku": sku, "count": count }));
    assert!(answer["r"]["stock"].is_number(), "{answer}");
}

fn keyed(customer: &str, key: &str, items: &[(&str, i64)]) -> Value {
    let mut order = shop::order(items);
    order["customer"] = customer.into();
    order["key"] = key.into();
    order
}

fn buy(address: SocketAddr, order: &Value) -> Value {
    client::call(address, ORDER, order)
}

/// Calls from all clients at once.
fn at_once(call: impl Fn(usize) -> Value + Sync) -> Vec<Value> {
    let call = &call;
    thread::scope(|scope| {
        let calls: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || call(number))).collect();
        calls.into_iter().map(|call| call.join().expect("no panic")).collect()
    })
}

#[test]
fn orders_that_time_out_are_not_stored() {
    let data = Data::new();
    let mut config = shop::config(&data);
    config.timeout = 1;
    let shop = Shop::serve(config);
    restock(shop.address, "apple", 1000);
    let held = data.hold();
    let answers = at_once(|_| buy(shop.address, &shop::order(&[("apple", 1)])));
    drop(held);
    assert!(answers.iter().all(|answer| answer["e"] == "BankUnavailable"), "{answers:?}");
    // it is written after all that was there before
    let sold = buy(shop.address, &shop::order(&[("apple", 1000)]));
    assert!(sold["r"]["order"].is_number(), "{sold}");
    let _ = shop.stop();
    assert_eq!(data.orders(), 1);
    assert_eq!(data.books()["apple"].sold, 1000);
}

#[test]
fn reading_does_not_wait_for_writing() {
    let data = Data::new();
    let shop = Shop::start(&data);
    restock(shop.address, "apple", 5);
    let first = buy(shop.address, &shop::order(&[("apple", 1)]));
    let held = data.hold();
    let mut writer = Connection::open(shop.address);
    writer.send(&post(&message(ORDER, &shop::order(&[("apple", 1)]))));
    let call = |function: &str, params: Value| {
        client::call(shop.address, &format!("demo.shop:1.0:{function}"), &params)
    };
    assert_eq!(call("stock", json!({ "sku": "apple" }))["r"]["stock"], 4);
    assert_eq!(call("get", json!({ "order": first["r"]["order"] }))["r"]["total"], 100);
    assert_eq!(call("list", json!({ "customer": "test" }))["r"]["orders"], json!([first["r"]]));
    drop(held);
    assert!(writer.receive().json()["r"]["order"].is_number());
}

#[test]
fn a_database_in_memory_works_as_one_in_a_file() {
    let data = Data::new();
    let mut config = shop::config(&data);
    config.data = ":memory:".into();
    let shop = Shop::serve(config);
    restock(shop.address, "apple", 1);
    let order = keyed("ann", "k1", &[("apple", 1)]);
    let first = buy(shop.address, &order);
    assert_eq!(first, json!({ "r": { "order": 1, "total": 100 } }));
    assert_eq!(buy(shop.address, &order), first);
    assert_eq!(buy(shop.address, &shop::order(&[("apple", 1)]))["e"], "OutOfStock");
}

#[test]
fn a_repeated_key_gets_the_first_answer_whatever_changed() {
    let data = Data::new();
    let shop = Shop::start(&data);
    restock(shop.address, "apple", 3);
    let order = keyed("ann", "k1", &[("apple", 2), ("apple", 1)]);
    let first = buy(shop.address, &order);
    assert_eq!(first, json!({ "r": { "order": 1, "total": 300 } }));
    // sold out, and then dearer
    assert_eq!(buy(shop.address, &order), first);
    let dearer = json!({ "sku": "apple", "count": 3, "price": 500 });
    assert_eq!(client::call(shop.address, RESTOCK, &dearer)["r"]["stock"], 3);
    assert_eq!(buy(shop.address, &keyed("ann", "k1", &[("apple", 3)])), first);
    let _ = shop.stop();
    let shop = Shop::start(&data);
    assert_eq!(buy(shop.address, &order), first);
    let _ = shop.stop();
    assert_eq!(data.orders(), 1);
    assert_eq!(data.books()["apple"].sold, 3);
}

#[test]
fn a_key_belongs_to_one_order_of_one_customer() {
    let data = Data::new();
    let shop = Shop::start(&data);
    restock(shop.address, "apple", 10);
    let order = keyed("ann", "k1", &[("apple", 1)]);
    let first = buy(shop.address, &order);
    for items in [&[("apple", 2)][..], &[("pear", 1)], &[("apple", 1), ("pear", 1)]] {
        let other = buy(shop.address, &keyed("ann", "k1", items));
        assert_eq!(other, json!({ "e": "KeyReused" }));
    }
    let others = [("bob", "k1"), ("ann", "k2"), ("an", "nk1")];
    for (number, (customer, key)) in (2..).zip(others) {
        let other = buy(shop.address, &keyed(customer, key, &[("apple", 1)]));
        assert_eq!(other["r"]["order"], number, "{other}");
    }
    for key in ["", "two words", &"k".repeat(65)] {
        let refused = buy(shop.address, &keyed("ann", key, &[("apple", 1)]));
        assert_eq!(refused["e"], "InvalidRequest", "{refused}");
    }
    assert_eq!(buy(shop.address, &order), first);
    let _ = shop.stop();
    assert_eq!(data.orders(), 4);
}

#[test]
fn an_order_that_failed_leaves_its_key_free() {
    let data = Data::new();
    let shop = Shop::start(&data);
    restock(shop.address, "apple", 1);
    let order = keyed("ann", "k1", &[("apple", 2)]);
    assert_eq!(buy(shop.address, &order)["e"], "OutOfStock");
    restock(shop.address, "apple", 1);
    assert_eq!(buy(shop.address, &order)["r"]["order"], 1);
}

#[test]
fn equal_keys_at_the_same_time_make_one_order() {
    let data = Data::new();
    let shop = Shop::start(&data);
    // one order takes all there is, so that a second one could not be told from a repeated one
    restock(shop.address, "apple", 1);
    restock(shop.address, "pear", 1);
    let order = keyed("ann", "k1", &[("apple", 1), ("pear", 1)]);
    let answers = at_once(|_| buy(shop.address, &order));
    let _ = shop.stop();
    let first = json!({ "r": { "order": 1, "total": 200 } });
    assert!(answers.iter().all(|answer| *answer == first), "{answers:?}");
    assert_eq!(data.orders(), 1);
}

#[test]
fn a_client_that_asks_again_after_it_left_gets_one_order() {
    let data = Data::new();
    let shop = Shop::start(&data);
    restock(shop.address, "apple", 1);
    let order = post(&message(ORDER, &keyed("ann", "k1", &[("apple", 1)])));
    for _ in 0..CLIENTS {
        // wherever the order is then: not begun, being written, written
        Connection::open(shop.address).send(&order);
        let again = Connection::open(shop.address).send(&order).receive().json();
        assert_eq!(again, json!({ "r": { "order": 1, "total": 100 } }));
    }
    let _ = shop.stop();
    assert_eq!(data.orders(), 1);
}

#[test]
fn two_processes_on_one_file_sell_each_unit_once() {
    let data = Data::new();
    let shops = [Shop::start(&data), Shop::start(&data)];
    let [one, other] = [shops[0].address, shops[1].address];
    restock(one, "apple", 3);
    for address in [other, one, other] {
        let sold = buy(address, &shop::order(&[("apple", 1)]));
        assert!(sold["r"]["order"].is_number(), "{sold}");
    }
    assert_eq!(buy(one, &shop::order(&[("apple", 1)]))["e"], "OutOfStock");
    restock(other, "apple", 1);
    restock(one, "apple", 24);
    let answers = at_once(|number| buy(shops[number % 2].address, &shop::order(&[("apple", 1)])));
    let sold = answers.iter().filter(|answer| answer["r"]["order"].is_number()).count();
    let refused = answers.iter().filter(|answer| answer["e"] == "OutOfStock").count();
    assert_eq!((sold, refused), (25, CLIENTS - 25), "{answers:?}");
    // a key is known to both
    restock(one, "pear", 2);
    let order = keyed("ann", "k1", &[("pear", 1)]);
    assert_eq!(buy(one, &order), buy(other, &order));
    for shop in shops {
        let _ = shop.stop();
    }
    assert_eq!(data.books()["apple"].stock, 0);
    assert_eq!(data.books()["pear"].stock, 1);
}

#[test]
fn without_the_bank_orders_are_not_paid() {
    let data = Data::new();
    let mut config = shop::config(&data);
    config.without_bank = true;
    let shop = Shop::serve(config);
    restock(shop.address, "apple", 1);
    let order = keyed("ann", "k1", &[("apple", 1)]);
    assert_eq!(buy(shop.address, &order), json!({ "r": { "order": 1, "total": 100 } }));
    let audit = client::call(shop.address, "demo.bank:1.0:audit", &json!({}));
    assert_eq!(audit["e"], "UnknownInterface");
    let _ = shop.stop();
    assert_eq!(data.bank(), Bank { shop: 0, held: 0 });
}

#[test]
fn an_order_beyond_the_credit_is_declined_and_stored_nowhere() {
    let data = Data::new();
    let mut config = shop::config(&data);
    config.bank_credit = Some(250);
    let shop = Shop::serve(config);
    restock(shop.address, "apple", 9);
    let two = shop::order(&[("apple", 2)]);
    assert_eq!(buy(shop.address, &two)["r"]["total"], 200);
    assert_eq!(buy(shop.address, &two), json!({ "e": "Declined" }));
    let _ = shop.stop();
    assert_eq!((data.orders(), data.bank()), (1, Bank { shop: 200, held: 0 }));
}
