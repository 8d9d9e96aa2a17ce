//! Outages under load, in virtual time: every order ends by itself, callers are answered in time, and the books are
//! right.

use std::collections::BTreeSet;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asyncsteps::durable::{Durable, Options};
use asyncsteps::executor::{Invocation, Invoker, Invoking};
use asyncsteps::iface::Loader;
use asyncsteps::journal::memory::{Fault, Memory, Operation};
use asyncsteps::journal::record::Ending;
use asyncsteps::journal::request::FlowState;
use asyncsteps::journal::{TokioClock, Uid};
use asyncsteps::{Error, Executor, codes};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::bank::{self, Bank, BankLink, LinkOptions, RemoteBank};
use crate::interface;
use crate::payments::Payments;
use crate::shelf::Shelf;
use crate::shop::Shop;
use crate::store::Store;

const SECOND: Duration = Duration::from_secs(1);

/// How many orders are in flight, of two apples for 60 each.
const ORDERS: usize = 40;
const ORDER: &str = "demo.shop:1.0:order";

/// How long callers wait, and how long requests take to go on at the most when all is back.
const WITHIN: Duration = Duration::from_secs(4);
const LATEST: Duration = Duration::from_secs(140);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    /// The node of the bank: calls are refused, or never answered.
    Bank { is_silent: bool },
    /// The disk of the shop's database is full.
    Disk,
    /// The journal is not reached.
    Journal,
}

/// The way to the node of the bank.
struct WayToBank {
    bank: Executor,
    away: Away,
    is_away: Arc<AtomicBool>,
}

impl Invoker for WayToBank {
    fn invoke(&self, call: Invocation) -> Invoking {
        let (bank, away, is_away) = (self.bank.clone(), self.away, Arc::clone(&self.is_away));
        Box::pin(async move {
            sleep(SECOND / 20).await;
            if let Away::Bank { is_silent } = away
                && is_away.load(Ordering::Relaxed)
            {
                match is_silent {
                    true => pending().await,
                    false => return Err(Error::new(codes::CONNECT_ERROR)),
                }
            }
            let function = call.function.to_string();
            bank.call_as_system::<Value>(&function, Value::Object(call.params)).await.map(Some)
        })
    }
}

/// A shop with a journal, and its bank on another node.
struct World {
    away: Away,
    is_away: Arc<AtomicBool>,
    store: Store,
    bank: Bank,
    durable: Durable,
    executor: Executor,
    _node: asyncsteps::durable::Node,
}

fn store() -> Store {
    Store::open(Path::new(":memory:")).expect("a database")
}

impl World {
    async fn new(away: Away) -> Self {
        let is_away = Arc::new(AtomicBool::new(false));
        let mut loader = Loader::new([interface::definitions(), bank::definitions()]);
        let [of_bank, of_shop, of_shelf] = ["demo.bank:1.0", "demo.shop:1.0", "demo.shelf:1.0"]
            .map(|id| loader.load(&id.parse().expect("a name")).expect("a definition"));
        let bank = Bank::new(store(), None, LinkOptions::default());
        let at_bank = Executor::builder()
            .service(of_bank, bank.clone(), |it| Bank::define(it, None))
            .build()
            .expect("the types fit");
        let way = WayToBank { bank: at_bank, away, is_away: Arc::clone(&is_away) };
        let remote = RemoteBank::new(way).expect("a right configuration");
        let store = store().for_durable_requests();
        let journal_is_away = Arc::clone(&is_away);
        let journal = Memory::new(TokioClock::start()).faults(move |_: Operation| {
            let is_away = away == Away::Journal && journal_is_away.load(Ordering::Relaxed);
            if is_away { Fault::NotDone } else { Fault::None }
        });
        let durable = Durable::new(journal);
        let payments = Payments::new(store.clone(), Some(BankLink::Node(remote)));
        let shop = Shop::new(store.clone(), payments);
        let executor = Executor::builder()
            .request_timeout(WITHIN + SECOND)
            .service(of_shop, shop, |it| Shop::define(it, Some(&durable), WITHIN))
            .service(of_shelf, Shelf::new(store.clone()), |it| Shelf::define(it, &durable))
            .build()
            .expect("the types fit");
        let node = durable.start(&executor).await.expect("a lease");
        store.restock("apple", 1000, Some(30)).await.expect("there is room");
        Self { away, is_away, store, bank, durable, executor, _node: node }
    }

    /// It is away from now on, or is back.
    async fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
        if self.away == Away::Disk {
            let pages = if is_away { 1 } else { 1_000_000 };
            let quota = self.store.write(move |db| {
                Ok(db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?)
            });
            quota.await.expect("a quota");
        }
    }

    /// An order of a customer whose name fills the pages of the database.
    fn order(number: usize) -> Value {
        let customer = format!("{number:0>100}");
        json!({ "customer": customer, "items": [{ "sku": "apple", "qty": 2 }] })
    }

    async fn submit(&self) -> Vec<Uid> {
        let mut submitted = Vec::new();
        for number in 0..ORDERS {
            let stored = self.durable.submit(ORDER, Self::order(number), Options::default());
            submitted.push(stored.await.expect("it is stored"));
            sleep(SECOND / 100).await;
        }
        submitted
    }

    /// Waits until all have ended; returns how many are sold, and why they waited.
    async fn ended(&self, orders: &[Uid]) -> (usize, BTreeSet<String>) {
        let (mut sold, mut reasons) = (0, BTreeSet::new());
        for uid in orders {
            loop {
                let status = self.durable.status(*uid).await;
                let Ok(status) = status else {
                    sleep(SECOND).await;
                    continue;
                };
                let case = format!("{:?}: {:?}", self.away, status.flow);
                assert!(
                    !matches!(status.flow.state, FlowState::Paused | FlowState::Dead),
                    "{case}"
                );
                reasons.extend(status.flow.reason);
                match status.ending {
                    None => sleep(SECOND / 2).await,
                    Some(ending) => {
                        sold += usize::from(matches!(ending, Ending::Completed(_)));
                        break;
                    }
                }
            }
        }
        (sold, reasons)
    }

    /// What is sold is paid, and nothing else is, or reserved.
    async fn check(&self, sold: usize) {
        let (case, sold) = (self.away, i64::try_from(sold).expect("a few"));
        let audit = self.bank.audit().await.expect("the books");
        assert!(audit.adds_up(), "{case:?}: {audit:?}");
        assert_eq!((audit.held, audit.shop), (0, 60 * sold), "{case:?}");
        let stock = self.store.stock("apple").await.expect("it is there");
        assert_eq!(stock, Some(1000 - 2 * sold), "{case:?}");
        let of_apple = json!({ "sku": "apple" });
        let reserved = self.executor.call_as_system::<Value>("demo.shelf:1.0:reserved", of_apple);
        assert_eq!(reserved.await.expect("it is known"), json!({ "reserved": 0 }), "{case:?}");
    }
}

/// Orders are in flight when it goes away for so long. Returns how many are sold, and why orders waited.
async fn outage(away: Away, long: Duration) -> (usize, BTreeSet<String>) {
    let world = World::new(away).await;
    let begun = Instant::now();
    let orders = world.submit();
    let goes = async {
        // what is not stored is not accepted, and a full disk has room for some more orders in its last page
        sleep(match away {
            Away::Journal => SECOND * 9 / 20,
            Away::Bank { .. } => SECOND / 5,
            Away::Disk => SECOND / 20,
        })
        .await;
        world.set_away(true).await;
        sleep(long).await;
        world.set_away(false).await;
    };
    let watched = async {
        let orders = orders.await;
        world.ended(&orders).await
    };
    let ((), (sold, reasons)) = tokio::join!(goes, watched);
    assert!(begun.elapsed() < long + LATEST, "{away:?}: {:?}", begun.elapsed());
    world.check(sold).await;
    (sold, reasons)
}

#[actix_rt::test]
async fn every_order_ends_by_itself_after_an_outage() {
    tokio::time::pause();
    for long in [30 * SECOND, 600 * SECOND] {
        for is_silent in [false, true] {
            let (sold, reasons) = outage(Away::Bank { is_silent }, long).await;
            assert!(sold > 0 && sold < ORDERS, "{sold} are sold");
            // the attempts of an undo take half a minute, with those of the client, and more where no answer comes
            let is_short = is_silent || long < 60 * SECOND;
            let waits =
                |reason: &String| reason.contains("open payment") && reason.contains("CommError");
            assert!(is_short || reasons.iter().any(waits), "{reasons:?}");
        }
        let (sold, reasons) = outage(Away::Disk, long).await;
        assert_eq!(sold, ORDERS, "what was accepted is sold");
        let step = "needs a store that is away";
        assert!(reasons.iter().any(|reason| reason.contains(step)), "{reasons:?}");
        let (sold, _) = outage(Away::Journal, long).await;
        assert_eq!(sold, ORDERS, "what was accepted is sold");
    }
}

#[actix_rt::test]
async fn a_caller_is_told_in_time_that_the_bank_is_away() {
    tokio::time::pause();
    for is_silent in [false, true] {
        let world = World::new(Away::Bank { is_silent }).await;
        world.set_away(true).await;
        let begun = Instant::now();
        let answer = world.executor.call_as_system::<Value>(ORDER, World::order(1)).await;
        assert_eq!(answer.expect_err("it is not paid").code(), "BankUnavailable");
        assert!(begun.elapsed() <= WITHIN + SECOND / 4, "{:?}", begun.elapsed());
        sleep(60 * SECOND).await;
        world.set_away(false).await;
        sleep(LATEST).await;
        world.check(0).await;
    }
}
