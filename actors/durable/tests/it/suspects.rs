//! Requests that may be what kills processes: they are found, and the others are recovered soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::{BodyResult, Error, codes, sync};
use asyncsteps_durable::{Durable, Node, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Either, Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::request::{FlowInfo, FlowState, Query};
use asyncsteps_journal::{Clock, Journal as _, LEASE, Timestamp, TokioClock, Uid};
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;

use crate::bank::hold;
use crate::lab::Nothing;
use crate::node::run;

/// How long an order takes.
const ORDER: Duration = Duration::from_millis(250);

/// The clock of the journal, which goes on while the process is held up.
#[derive(Clone, Debug)]
struct ServerClock {
    clock: TokioClock,
    ahead: Arc<AtomicU64>,
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        self.clock.now().after(Duration::from_millis(self.ahead.load(Ordering::Relaxed)))
    }
}

#[derive(Clone)]
struct Shop {
    clock: ServerClock,
    journal: Memory,
    /// Those of this process.
    rooms: [Mutex; 3],
    /// A body kills the process.
    killed: Arc<Notify>,
}

impl Service for Shop {
    type Errors = ();
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// Milliseconds that it takes.
    takes: i32,
}

fn order(steps: &Steps<Shop, Order>) -> Returns<()> {
    steps
        .run("pay", async |cx, ()| {
            tokio::time::sleep(Duration::from_millis(cx.params.takes.try_into()?)).await;
            Ok(())
        })
        .recorded()
        .undo(async |_, _| Ok(()))
        .returns()
}

#[derive(Deserialize, JsonSchema)]
struct Booking {
    room: u8,
    /// The body kills the process.
    kills: bool,
}

/// A room is booked under its lock.
fn booking(steps: &Steps<Shop, Booking>) -> Returns<()> {
    steps
        .run("book", async |cx, ()| {
            if cx.params.kills {
                tokio::time::sleep(ORDER * 3).await;
                cx.killed.notify_one();
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(ORDER).await;
            Ok(())
        })
        .recorded()
        .undo(async |_, _| Ok(()))
        .locked(|cx| cx.rooms.get(usize::from(cx.params.room)).cloned())
        .returns()
}

/// Its body kills the process, and cannot be undone.
fn crash(steps: &Steps<Shop, Nothing>) -> Returns<()> {
    steps
        .run("crash", async |cx, ()| {
            cx.killed.notify_one();
            std::future::pending::<()>().await;
            Ok(())
        })
        .recorded()
        .returns()
}

#[derive(Deserialize, JsonSchema)]
struct Trip {
    /// What fails is not recorded, and runs again.
    repeats: bool,
}

/// It fails, and the undo of what it has done before kills the process.
fn trip(steps: &Steps<Shop, Trip>) -> Returns<()> {
    steps
        .run("pay", async |cx, ()| {
            Ok(if cx.params.repeats { Either::A(()) } else { Either::B(()) })
        })
        .recorded()
        .undo(async |cx, _| {
            cx.killed.notify_one();
            std::future::pending().await
        })
        .either(
            "fly",
            |repeats| repeats.run("fly", fly).repeatable().returns(),
            |records| records.run("fly", fly).recorded().returns(),
        )
        .returns()
}

async fn fly(_: &Cx<Shop, Trip>, (): ()) -> BodyResult<()> {
    Err(Error::new(codes::COMM_ERROR).into())
}

fn rooms() -> [Mutex; 3] {
    std::array::from_fn(|_| Mutex::new(sync::mutex::Options { max: 1, max_queue: None }))
}

impl Shop {
    fn new() -> Self {
        let clock = ServerClock { clock: TokioClock::start(), ahead: Arc::default() };
        let journal = Memory::new(clock.clone());
        Self { journal, clock, rooms: rooms(), killed: Arc::default() }
    }

    /// What the process is that starts when this one is killed. Its locks are held for so long.
    async fn next(&self, node: Node, held: Duration) -> Self {
        drop(node);
        self.pauses().await;
        let next = Self { rooms: rooms(), ..self.clone() };
        next.rooms.iter().for_each(|room| hold(room, held));
        next
    }

    /// The process is held up past its lease, and another one runs meanwhile.
    async fn pauses(&self) {
        let third = u64::try_from((LEASE / 3).as_millis()).expect("some seconds");
        let other = self.journal.register(LEASE).await.expect("the journal gives a lease").node;
        for _ in 0..6 {
            self.clock.ahead.fetch_add(third, Ordering::Relaxed);
            self.journal.renew(other, LEASE).await.expect("it has a lease");
        }
    }

    async fn process(&self) -> (Durable, Node) {
        let durable = Durable::new(self.journal.clone());
        let interface = Interface::new("test.shop:1.0".parse().expect("it is a name"));
        let executor = Executor::builder().service(interface, self.clone(), |functions| {
            durable.on(functions, "order", order);
            durable.on(functions, "booking", booking);
            durable.on(functions, "crash", crash);
            durable.on(functions, "trip", trip);
        });
        let executor = executor.build().expect("it is complete");
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        (durable, node)
    }

    /// A process that has begun with orders.
    async fn busy(&self, orders: usize, takes: Duration) -> (Durable, Node) {
        let (durable, node) = self.process().await;
        join_all((0..orders).map(|_| submit(&durable, takes))).await;
        tokio::time::sleep(ORDER / 5).await;
        (durable, node)
    }

    /// The process is killed, and another one starts.
    async fn dies(&self, node: Node) -> (Durable, Node) {
        drop(node);
        self.pauses().await;
        self.process().await
    }
}

async fn submit(durable: &Durable, takes: Duration) -> Uid {
    let takes = u32::try_from(takes.as_millis()).expect("some seconds");
    submit_to(durable, "order", json!({ "takes": takes })).await
}

async fn book(durable: &Durable, room: usize, kills: bool) -> Uid {
    submit_to(durable, "booking", json!({ "room": room, "kills": kills })).await
}

async fn submit_to(durable: &Durable, function: &str, params: serde_json::Value) -> Uid {
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let options = Options::default().caller(&ann);
    let uid = durable.submit(&format!("test.shop:1.0:{function}"), params, options).await;
    uid.expect("it is stored")
}

async fn state(durable: &Durable, uid: Uid) -> FlowState {
    durable.status(uid).await.expect("it is known").flow.state
}

async fn flows(durable: &Durable) -> Vec<FlowInfo> {
    durable.list(Query { limit: 1_000, ..Query::default() }).await.expect("the journal answers")
}

/// How long it takes until all orders have ended.
async fn recovered(durable: &Durable, clock: TokioClock) -> Duration {
    let begun = clock.now();
    let uids: Vec<_> = flows(durable).await.into_iter().map(|flow| flow.uid).collect();
    for uid in uids {
        durable.ended(uid).await.expect("it is known");
    }
    Duration::from_millis(clock.now().as_millis() - begun.as_millis())
}

#[test]
fn orders_of_a_process_that_died_twice_are_recovered_soon() {
    run(async {
        let shop = Shop::new();
        let (_durable, node) = shop.busy(200, ORDER).await;
        let (_durable, node) = shop.dies(node).await;
        tokio::time::sleep(ORDER / 5).await;
        let (durable, _node) = shop.dies(node).await;
        let took = recovered(&durable, shop.clock.clock).await;
        // one at a time it was 50 s; doubled they take eight turns
        assert!(took <= ORDER * 12, "{took:?}");
    });
}

#[test]
fn a_process_that_was_held_up_condemns_no_order() {
    run(async {
        let shop = Shop::new();
        let (durable, node) = shop.busy(150, LEASE * 2).await;
        for _ in 0..5 {
            shop.pauses().await;
            // until the node knows, and has begun again with its flows
            tokio::time::sleep(LEASE / 3 + ORDER / 2).await;
            let suspects: Vec<_> =
                flows(&durable).await.into_iter().filter(|flow| flow.claims > 0).collect();
            assert_eq!(suspects, []);
            join_all((0..10).map(|_| submit(&durable, LEASE * 2))).await;
        }
        let took = recovered(&durable, shop.clock.clock).await;
        assert!(took <= LEASE * 3, "{took:?}");
        assert_eq!(node.running(), 0);
    });
}

#[test]
fn suspects_that_wait_for_locks_hold_up_no_other() {
    run(async {
        let shop = Shop::new();
        let (durable, node) = shop.process().await;
        let bookings = join_all((0..3).map(|room| book(&durable, room, false))).await;
        let orders = join_all((0..50).map(|_| submit(&durable, ORDER))).await;
        tokio::time::sleep(ORDER / 5).await;
        // what is new has taken the locks, for long
        let shop = shop.next(node, LEASE * 60).await;
        let (durable, _node) = shop.process().await;
        for order in orders {
            durable.ended(order).await.expect("it is known");
        }
        for booking in &bookings {
            assert_eq!(state(&durable, *booking).await, FlowState::Running);
        }
        for booking in bookings {
            durable.ended(booking).await.expect("it is known");
        }
    });
}

#[test]
fn a_suspect_that_kills_the_process_behind_a_lock_is_found_alone() {
    run(async {
        let mut shop = Shop::new();
        let (mut durable, mut node) = shop.process().await;
        let kills = book(&durable, 0, true).await;
        let orders = join_all((0..2).map(|_| submit(&durable, LEASE * 6))).await;
        let mut deaths = 0;
        while state(&durable, kills).await != FlowState::Dead {
            tokio::select! {
                () = shop.killed.notified() => {}
                () = tokio::time::sleep(LEASE * 20) => panic!("it is never claimed: {deaths} deaths"),
            }
            deaths += 1;
            assert!(deaths < 15, "it is never found");
            shop = shop.next(node, Duration::from_millis(3500)).await;
            (durable, node) = shop.process().await;
            tokio::time::sleep(ORDER).await;
        }
        for order in orders {
            durable.ended(order).await.expect("it is known");
            assert_eq!(state(&durable, order).await, FlowState::Ended);
        }
    });
}

#[test]
fn a_suspect_that_kills_the_process_among_new_requests_is_found_alone() {
    run(async {
        let mut shop = Shop::new();
        let (mut durable, mut node) = shop.process().await;
        let kills = book(&durable, 0, true).await;
        let (mut deaths, mut orders) = (0, Vec::new());
        while state(&durable, kills).await != FlowState::Dead {
            orders.extend(join_all((0..3).map(|_| submit(&durable, LEASE))).await);
            tokio::select! {
                () = shop.killed.notified() => {}
                () = tokio::time::sleep(LEASE * 20) => panic!("it is never claimed: {deaths} deaths"),
            }
            deaths += 1;
            assert!(deaths < 10, "it is never found");
            shop = shop.next(node, Duration::ZERO).await;
            (durable, node) = shop.process().await;
            tokio::time::sleep(ORDER).await;
        }
        for order in orders {
            durable.ended(order).await.expect("it is known");
            assert_eq!(state(&durable, order).await, FlowState::Ended);
        }
    });
}

#[test]
fn new_requests_that_kill_the_process_condemn_no_suspect() {
    run(async {
        let mut shop = Shop::new();
        let (mut durable, mut node) = shop.busy(0, ORDER).await;
        let order = submit(&durable, LEASE * 6).await;
        tokio::time::sleep(ORDER).await;
        for _ in 0..6 {
            shop = shop.next(node, Duration::ZERO).await;
            (durable, node) = shop.process().await;
            submit_to(&durable, "crash", json!({})).await;
            shop.killed.notified().await;
            let flow = durable.status(order).await.expect("it is known").flow;
            assert_eq!((flow.state, flow.claims), (FlowState::Running, 1));
        }
        let _process = shop.dies(node).await;
        durable.ended(order).await.expect("it is known");
        assert_eq!(state(&durable, order).await, FlowState::Ended);
    });
}

/// A trip among orders whose undo kills the process is found, and the orders end.
async fn trip_is_found(repeats: bool, orders: usize) {
    let mut shop = Shop::new();
    let (mut durable, mut node) = shop.process().await;
    let orders = join_all((0..orders).map(|_| submit(&durable, LEASE * 6))).await;
    tokio::time::sleep(ORDER).await;
    let trip = submit_to(&durable, "trip", json!({ "repeats": repeats })).await;
    let mut deaths = 0;
    while state(&durable, trip).await != FlowState::Dead {
        tokio::select! {
            () = shop.killed.notified() => {}
            () = tokio::time::sleep(LEASE * 20) => panic!("it is never claimed: {deaths} deaths"),
        }
        deaths += 1;
        assert!(deaths < 15, "it is never found");
        shop = shop.next(node, Duration::ZERO).await;
        (durable, node) = shop.process().await;
        tokio::time::sleep(ORDER).await;
    }
    for order in orders {
        durable.ended(order).await.expect("it is known");
        assert_eq!(state(&durable, order).await, FlowState::Ended);
    }
}

#[test]
fn an_undo_that_kills_the_process_is_found() {
    run(trip_is_found(false, 0));
    run(trip_is_found(true, 0));
}

#[test]
fn an_undo_that_kills_the_process_among_others_is_found_alone() {
    run(trip_is_found(false, 10));
    run(trip_is_found(true, 10));
}
