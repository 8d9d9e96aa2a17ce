//! The promise: processes on one journal share the shelf. Of two orders for the last unit one is refused before it is
//! paid, and what an order has reserved comes back, although the order is lost.

use std::time::Duration;

use asyncsteps_core::Error;
use asyncsteps_journal::TokioClock;
use asyncsteps_journal::memory::Memory;
use asyncsteps_support::client;
use asyncsteps_support::shop::{Data, Shop};
use executor_demo::bank::{Bank, LinkOptions};
use executor_demo::store::Store;
use futures_util::future::{Either, select};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::shop_cuts::Process;

const RESERVE: &str = "demo.shelf:1.0:reserve";
const RELEASE: &str = "demo.shelf:1.0:release";

/// How long a reservation lasts.
const LASTS: Duration = Duration::from_secs(30 * 60);

/// How long requests may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two shops on one journal, with so many apples.
async fn two_processes(store: &Store, journal: Memory, apples: i64) -> [Process; 2] {
    store.restock("apple", apples, None).await.expect("restocked");
    let bank = Bank::new(store.clone(), None, LinkOptions::default());
    let one = Process::start(store, &bank, journal.clone(), PATIENCE).await;
    [one, Process::start(store, &bank, journal, PATIENCE).await]
}

async fn call(process: &Process, function: &str, params: Value) -> Result<Value, Error> {
    process.executor.call_as_system(function, params).await
}

async fn order(process: &Process, customer: &str) -> Result<Value, Error> {
    let params = json!({ "customer": customer, "items": [{ "sku": "apple", "qty": 1 }] });
    call(process, "demo.shop:1.0:order", params).await
}

#[actix::test]
async fn of_two_orders_for_the_last_unit_one_is_refused_before_it_is_paid() {
    let data = Data::new();
    let store = Store::open(&data.file()).expect("a database");
    let [one, other] = two_processes(&store, Memory::default(), 1).await;
    // neither is paid meanwhile, because the database takes nothing
    let held = data.hold();
    let orders = [(&one, "ann"), (&other, "bob")].map(|(shop, name)| Box::pin(order(shop, name)));
    let [first, second] = orders;
    let (refused, last) = match select(first, second).await {
        Either::Left(ended) | Either::Right(ended) => ended,
    };
    assert_eq!(refused.expect_err("the other one has the unit").to_string(), "OutOfStock: apple");
    drop(held);
    assert_eq!(last.await.expect("it is sold")["order"], 1);
    assert_eq!(data.payments(), 1, "the refused order has opened none");
    assert_eq!([one.reserved().await, other.reserved().await], [0, 0]);
}

#[actix::test]
async fn an_order_reserves_once_and_releases_once() {
    let store = Store::open(":memory:".as_ref()).expect("a database");
    let [one, other] = two_processes(&store, Memory::default(), 10).await;
    for process in [&one, &other] {
        let reserve = json!({ "sku": "apple", "order": "o1", "qty": 6 });
        let reserved = call(process, RESERVE, reserve).await.expect("reserved");
        assert_eq!(reserved, json!({ "reserved": 6 }));
    }
    let more = json!({ "sku": "apple", "order": "o2", "qty": 5 });
    let refused = call(&one, RESERVE, more).await.expect_err("four are left");
    assert_eq!(refused.to_string(), "OutOfStock: apple");
    let durian = json!({ "sku": "durian", "order": "o2", "qty": 1 });
    let refused = call(&one, RESERVE, durian).await.expect_err("there is none");
    assert_eq!(refused.to_string(), "UnknownSku: durian");
    for process in [&other, &one] {
        let release = json!({ "sku": "apple", "order": "o1" });
        let released = call(process, RELEASE, release).await.expect("released");
        assert_eq!(released, json!({ "reserved": 0 }));
    }
}

#[test]
fn callers_over_the_wire_do_not_reach_the_shelf() {
    let data = Data::new();
    let shop = Shop::start(&data);
    let reserve = json!({ "sku": "apple", "order": "o1", "qty": 1 });
    let of_apple = json!({ "sku": "apple" });
    for (function, params) in [(RESERVE, &reserve), ("demo.shelf:1.0:reserved", &of_apple)] {
        let refused = client::call(shop.address, function, params);
        assert_eq!(refused["e"], "SecurityError", "{refused}");
    }
}

#[actix::test]
async fn what_an_order_that_is_lost_has_reserved_comes_back() {
    tokio::time::pause();
    let store = Store::open(":memory:".as_ref()).expect("a database");
    let journal = Memory::new(TokioClock::start());
    let [one, _other] = two_processes(&store, journal, 10).await;
    let reserve = async |order| {
        let reserve = json!({ "sku": "apple", "order": order, "qty": 3 });
        call(&one, RESERVE, reserve).await.expect("reserved")
    };
    assert_eq!(reserve("lost").await, json!({ "reserved": 3 }));
    sleep(LASTS * 2 / 3).await;
    assert_eq!(reserve("later").await, json!({ "reserved": 6 }));
    sleep(LASTS * 2 / 3).await;
    assert_eq!(one.reserved().await, 3, "each ends after its time");
    assert_eq!(reserve("last").await, json!({ "reserved": 6 }));
    sleep(LASTS).await;
    assert_eq!(one.reserved().await, 0);
}
