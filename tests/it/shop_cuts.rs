//! The promise: money is where it belongs. Wherever an order is cut, also inside of a call of the bank
//! whose outcome is unknown, and whatever cuts it: what the shop has got is what its orders cost,
//! nothing is held, and the books of the bank add up.

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use asyncsteps_actors::flow::start_flow;
use asyncsteps_core::{Error, Flow};
use asyncsteps_durable::{Durable, Node};
use asyncsteps_executor::Executor;
use asyncsteps_executor::iface::Loader;
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::test::TestRequest;
use asyncsteps_journal::memory::Memory;
use asyncsteps_support::client::{Connection, message, post};
use asyncsteps_support::shop::{self, Data};
use executor_demo::bank::{Audit, Bank, LinkOptions};
use executor_demo::payments::Payments;
use executor_demo::shelf::Shelf;
use executor_demo::shop::Shop;
use executor_demo::store::Store;
use executor_demo::{Config, interface};
use serde_json::{Value, json};
use tokio::time::sleep;

const RESTOCK: &str = "demo.shop:1.0:restock";
const ORDER: &str = "demo.shop:1.0:order";
const LIST: &str = "demo.shop:1.0:list";
const AUDIT: &str = "demo.bank:1.0:audit";
const RESERVED: &str = "demo.shelf:1.0:reserved";

/// The longest way to the bank or back.
const LATENCY: Duration = Duration::from_millis(10);

/// Clients that order at the same time.
const CLIENTS: usize = 60;

/// Longer than any undo takes.
const QUIET: Duration = Duration::from_secs(100);

/// What ends an order before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    ClientGone,
    Deadline,
    Timeout,
    Cancel,
}

/// A shop in memory, and its bank, in virtual time.
struct World {
    shop: Process,
    bank: Bank,
    store: Store,
}

/// A shop as in a process of its own.
pub(crate) struct Process {
    pub(crate) executor: Executor,
    _node: Node,
}

impl World {
    async fn new(link: LinkOptions) -> Self {
        let store = Store::open(Path::new(":memory:")).expect("a database");
        let bank = Bank::new(store.clone(), None, link);
        let shop = Process::start(&store, &bank, Memory::default(), QUIET).await;
        let restock = json!({ "sku": "apple", "count": 1000, "price": 30 });
        let stock: Value = shop.executor.call_as_system(RESTOCK, restock).await.expect("restocked");
        assert_eq!(stock["stock"], 1000);
        Self { shop, bank, store }
    }

    /// Another shop on the same products and accounts, with a shelf of its own.
    async fn other(&self, deadline: Duration) -> Process {
        Process::start(&self.store, &self.bank, Memory::default(), deadline).await
    }

    /// What the orders of a customer cost.
    async fn sold(&self, customer: &str) -> i64 {
        let all = json!({ "customer": customer, "limit": 100 });
        let orders: Value = self.shop.executor.call_as_system(LIST, all).await.expect("a list");
        let orders = orders["orders"].as_array().expect("a list");
        orders.iter().map(|order| order["total"].as_i64().expect("cents")).sum()
    }

    async fn audit(&self) -> Audit {
        let audit = self.bank.audit().await.expect("the books");
        assert!(audit.adds_up(), "{audit:?}");
        audit
    }

    /// Waits until all is undone, and looks whether the shop has what its orders cost, and has nothing reserved.
    async fn check(&self, sold: i64, case: &str) {
        sleep(QUIET).await;
        let audit = self.audit().await;
        assert_eq!((audit.held, audit.shop), (0, sold), "{case}");
        assert_eq!(self.shop.reserved().await, 0, "{case}");
    }
}

impl Process {
    /// A shop whose shelf is in `journal`.
    pub(crate) async fn start(
        store: &Store,
        bank: &Bank,
        journal: Memory,
        deadline: Duration,
    ) -> Self {
        let mut loader = Loader::new([interface::definitions()]);
        let [of_shop, of_shelf] = ["demo.shop:1.0", "demo.shelf:1.0"]
            .map(|id| loader.load(&id.parse().expect("a name")).expect("a definition"));
        let shop = Shop::new(store.clone(), Payments::new(store.clone(), Some(bank.clone())));
        let (shelf, durable) = (Shelf::new(store.clone()), Durable::new(journal));
        let executor = Executor::builder()
            .request_timeout(deadline)
            .service(of_shop, shop, |it| Shop::define(it, None, deadline + LATENCY))
            .service(of_shelf, shelf, |it| Shelf::define(it, &durable))
            .build()
            .expect("the types fit");
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        Self { executor, _node: node }
    }

    /// How many apples are reserved.
    pub(crate) async fn reserved(&self) -> i64 {
        let asked = self.executor.call_as_system(RESERVED, json!({ "sku": "apple" }));
        let reserved: Value = asked.await.expect("a number");
        reserved["reserved"].as_i64().expect("a number")
    }
}

/// Orders two apples, for 60 cents.
fn order(
    executor: &Executor,
    customer: &str,
) -> impl Future<Output = Result<Value, Error>> + 'static {
    let (order, executor) = (two_apples(customer), executor.clone());
    async move { order.call(&executor).await }
}

fn two_apples(customer: &str) -> TestRequest {
    let items = json!([{ "sku": "apple", "qty": 2 }]);
    let order = json!({ "customer": customer, "items": items, "key": "k1" });
    TestRequest::new(ORDER).params(order).user("shop", SecurityLevel::System)
}

/// Orders, and cuts the order after some time. Returns the shop, if it is another one.
async fn cut(world: &World, how: Cut, after: Duration, request: TestRequest) -> Option<Process> {
    let order_of = |executor: &Executor| {
        let executor = executor.clone();
        async move { request.call::<Value>(&executor).await }
    };
    let executor = &world.shop.executor;
    match how {
        Cut::Deadline => {
            let other = world.other(after).await;
            drop(order_of(&other.executor).await);
            return Some(other);
        }
        Cut::ClientGone => drop(tokio::time::timeout(after, order_of(executor)).await),
        Cut::Timeout => {
            let order = order_of(executor);
            let mut flow = Flow::new();
            flow.await_(async { order.await.map(drop) }).timeout(after);
            drop(start_flow::<()>(flow).await);
        }
        Cut::Cancel => {
            let order = order_of(executor);
            let mut flow = Flow::new();
            flow.await_(async { order.await.map(drop) });
            drop(tokio::time::timeout(after, start_flow::<()>(flow)).await);
        }
    }
    None
}

/// Cuts orders after each millisecond; `stages` tells where the money of one was when it was cut.
async fn cut_everywhere(
    (how, undoes_twice): (Cut, bool),
    link: LinkOptions,
    stages: &mut BTreeSet<Stage>,
) {
    let world = World::new(link).await;
    let mut total = 0;
    // each millisecond of an order, or every third of the plain run, where virtual seconds have looks at the journal
    let step = if std::env::var_os("LONG_TESTS").is_some() { 1 } else { 3 };
    for milliseconds in (0..45).step_by(step) {
        let after = Duration::from_millis(milliseconds);
        let customer = format!("customer {milliseconds}");
        let case = format!("{how:?} after {after:?}, undone twice {undoes_twice}, {link:?}");
        let request = two_apples(&customer);
        let request = if undoes_twice { request.undo_twice() } else { request };
        let other = cut(&world, how, after, request).await;
        let (then, sold) = (world.audit().await, world.sold(&customer).await);
        stages.insert(Stage::of(Audit { shop: then.shop - total, ..then }, sold));
        world.check(total + sold, &case).await;
        if let Some(other) = other.filter(|_| !after.is_zero()) {
            assert_eq!(other.reserved().await, 0, "{case}");
        }
        assert_eq!(world.sold(&customer).await, sold, "{case}: nothing is written afterwards");
        // it can be repeated, and is sold once
        let repeated = order(&world.shop.executor, &customer).await;
        total += world.sold(&customer).await;
        world.check(total, &case).await;
        assert!(repeated.is_ok() || link.failures > 0, "{case}: {repeated:?}");
        assert_eq!(world.sold(&customer).await, if repeated.is_ok() { 60 } else { 0 }, "{case}");
    }
}

/// Where the money of an order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Nowhere,
    Held,
    Captured,
    Sold,
}

impl Stage {
    /// By the books, and by what the order has cost if it was placed.
    fn of(books: Audit, sold: i64) -> Self {
        match (books.held, books.shop) {
            (0, 0) => Self::Nowhere,
            (60, 0) => Self::Held,
            (0, 60) if sold == 0 => Self::Captured,
            (0, 60) => Self::Sold,
            other => panic!("{other:?}"),
        }
    }
}

#[actix::test]
async fn an_order_that_is_cut_anywhere_is_paid_back_or_sold() {
    tokio::time::pause();
    for how in [Cut::ClientGone, Cut::Deadline, Cut::Timeout, Cut::Cancel] {
        let mut stages = BTreeSet::new();
        for (failures, seed) in [(0, 0), (0, 1), (0, 2), (30, 3), (30, 4)] {
            let link = LinkOptions { latency: LATENCY, failures, seed };
            cut_everywhere((how, seed % 2 == 0), link, &mut stages).await;
        }
        assert_eq!(stages.len(), 4, "{how:?}: {stages:?}");
    }
}

#[actix::test]
async fn an_order_that_fails_is_paid_back() {
    tokio::time::pause();
    let mut answers = Vec::new();
    for seed in 0..60 {
        // calls that are lost, or answered after the limit of a call
        let link = LinkOptions { latency: Duration::from_secs(1), failures: 60, seed };
        let world = World::new(link).await;
        let answer = order(&world.shop.executor, "ann").await;
        let code = answer.map_or_else(|error| error.code().to_owned(), |_| "sold".to_owned());
        let sold = if code == "sold" { 60 } else { 0 };
        assert_eq!(world.sold("ann").await, sold);
        world.check(sold, &format!("{code}, {link:?}")).await;
        answers.push(code);
    }
    for code in ["sold", "BankUnavailable", "Timeout"] {
        assert!(answers.iter().any(|answer| answer == code), "{code}: {answers:?}");
    }
}

#[actix::test]
async fn an_order_that_another_process_was_faster_than_is_paid_back() {
    tokio::time::pause();
    let link = LinkOptions { latency: LATENCY, ..LinkOptions::default() };
    let world = World::new(link).await;
    let other = world.other(QUIET).await;
    let all = json!({ "customer": "ann", "items": [{ "sku": "apple", "qty": 1000 }] });
    let [one, two] = [&world.shop, &other].map(|shop| {
        let order = shop.executor.call_as_system::<Value>(ORDER, all.clone());
        async move { order.await.map_err(|error| error.code().to_owned()) }
    });
    let answers = futures_util::future::join(one, two).await;
    let refused = Err("OutOfStock".to_owned());
    assert!(answers.0.is_ok() != answers.1.is_ok(), "{answers:?}");
    assert!(answers.0 == refused || answers.1 == refused, "{answers:?}");
    world.check(30_000, "two processes").await;
}

#[actix::test]
async fn an_order_that_waits_to_be_paid_back_keeps_no_units() {
    tokio::time::pause();
    // the bank is away
    let link = LinkOptions { latency: LATENCY, failures: 100, seed: 0 };
    let world = World::new(link).await;
    let all = json!({ "customer": "ann", "items": [{ "sku": "apple", "qty": 1000 }] });
    let order = || world.shop.executor.call_as_system::<Value>(ORDER, all.clone());
    let left = tokio::time::timeout(Duration::from_millis(100), order()).await;
    assert!(left.is_err(), "{left:?}");
    sleep(LATENCY).await;
    // the units are there for another one, which the bank does not answer either
    let other = order().await.expect_err("the bank is away");
    assert_eq!(other.code(), "BankUnavailable", "{other}");
}

/// When the customer repeats an order whose process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeated {
    AtOnce,
    Later,
}

/// Kills a process in the middle of an order, or after the customer left, while it is undone; then starts another one
/// on its database. Returns where the money of the order was.
fn kill(after: Duration, leaves: Duration, link: LinkOptions, repeated: Repeated) -> Stage {
    // what is never dropped and never polled again does nothing any more, as a process that was killed; its timers are
    // those of its thread
    let killed = thread::spawn(move || {
        ManuallyDrop::new(actix::System::new()).block_on(async {
            tokio::time::pause();
            let world = ManuallyDrop::new(World::new(link).await);
            let payments = Payments::new(world.store.clone(), Some(world.bank.clone()));
            actix::spawn(payments.look_after_payments());
            actix::spawn(tokio::time::timeout(leaves, order(&world.shop.executor, "ann")));
            sleep(after).await;
            let (audit, sold) = (world.audit().await, world.sold("ann").await);
            (world.store.clone(), Stage::of(audit, sold))
        })
    });
    let (store, stage) = killed.join().expect("no panic");
    let case =
        format!("killed after {after:?}, left after {leaves:?}, {link:?}, repeated {repeated:?}");
    actix::System::new().block_on(async {
        tokio::time::pause();
        let bank = Bank::new(store.clone(), None, link);
        let shop = Process::start(&store, &bank, Memory::default(), QUIET).await;
        let next = World { shop, bank, store };
        let payments = Payments::new(next.store.clone(), Some(next.bank.clone()));
        actix::spawn(payments.look_after_payments());
        if repeated == Repeated::Later {
            let sold = if stage == Stage::Sold { 60 } else { 0 };
            next.check(sold, &case).await;
            assert_eq!(next.sold("ann").await, sold, "{case}");
        }
        drop(order(&next.shop.executor, "ann").await);
        next.check(next.sold("ann").await, &case).await;
        assert!(next.sold("ann").await == 60 || link.failures > 0, "{case}");
    });
    stage
}

#[test]
fn an_order_whose_process_is_killed_anywhere_is_paid_back_or_sold() {
    let mut stages = BTreeSet::new();
    for (failures, seed) in [(0, 0), (30, 2)] {
        let link = LinkOptions { latency: LATENCY, failures, seed };
        for milliseconds in 0..45 {
            for repeated in [Repeated::AtOnce, Repeated::Later] {
                stages.insert(kill(Duration::from_millis(milliseconds), QUIET, link, repeated));
            }
        }
    }
    assert_eq!(stages.len(), 4, "{stages:?}");
}

#[test]
fn an_order_whose_process_is_killed_while_it_is_undone_is_paid_back_or_sold() {
    let link = LinkOptions { latency: LATENCY, ..LinkOptions::default() };
    let mut stages = BTreeSet::new();
    for leaves in (0..45).step_by(4).map(Duration::from_millis) {
        for later in (0..25).step_by(3).map(Duration::from_millis) {
            stages.insert(kill(leaves + later, leaves, link, Repeated::Later));
        }
    }
    assert_eq!(stages.len(), 4, "{stages:?}");
}

/// A shop with a slow bank, and clients that each order two units.
struct Served {
    data: Data,
    shop: shop::Shop,
}

impl Served {
    fn new(set_up: impl FnOnce(&mut Config)) -> Self {
        let data = Data::new();
        let mut config = shop::config(&data);
        set_up(&mut config);
        let shop = shop::Shop::serve(config);
        let mut client = Connection::open(shop.address);
        for sku in ["apple", "pear"] {
            client.call(RESTOCK, &json!({ "sku": sku, "count": 1000 }));
        }
        Self { data, shop }
    }

    /// See [`place`].
    fn order(&self, leaves: bool) {
        place(self.shop.address, leaves);
    }

    fn audit(&self) -> Value {
        Connection::open(self.shop.address).call(AUDIT, &json!({}))["r"].clone()
    }

    /// Closes the shop and looks at the books; gives what it has sold, in cents.
    fn check(self) -> i64 {
        let _ = self.shop.stop();
        let sold = self.data.books().values().map(|account| account.sold * 100).sum();
        let bank = self.data.bank();
        assert_eq!((bank.shop, bank.held), (sold, 0));
        sold
    }
}

/// Orders two units; the client leaves at once, or waits for the answer or the end of its connection.
fn place(address: SocketAddr, leaves: bool) {
    let order = shop::order(&[("apple", 1), ("pear", 1)]);
    let mut client = Connection::open(address);
    if client.try_send(&post(&message(ORDER, &order))) && !leaves {
        drop(client.try_receive());
    }
}

#[test]
fn clients_that_leave_lose_no_money() {
    let served = Served::new(|config| config.bank_latency = 50);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let served = &served;
            scope.spawn(move || served.order(number % 3 != 0));
        }
    });
    assert!(served.check() >= 200 * 20);
}

#[test]
fn orders_that_pass_their_deadline_lose_no_money() {
    let served = Served::new(|config| {
        config.bank_latency = 600;
        config.timeout = 1;
    });
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| served.order(false));
        }
    });
    assert!(served.check() < 200 * CLIENTS as i64, "some passed it");
}

#[test]
fn orders_that_a_close_cuts_lose_no_money() {
    let served = Served::new(|config| {
        config.bank_latency = 300;
        config.bank_failures = 10;
        config.grace = 0;
    });
    let address = served.shop.address;
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(move || place(address, false));
        }
        // each look is a round trip; calls of the bank are under way then
        while served.audit()["held"] == 0 {}
        assert!(served.check() < 200 * CLIENTS as i64, "some were cut");
    });
}

#[test]
fn the_books_are_seen_through_the_interface() {
    let served = Served::new(|_| {});
    (0..3).for_each(|_| served.order(false));
    assert_eq!(served.audit(), json!({ "accounts": 0, "held": 0, "shop": 600 }));
    assert_eq!(served.check(), 600);
}
