//! Orders whose payment is a request of its own, on three nodes: what a payment has done is there if its order is complete,
//! and gone before anything in front of it is undone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use asyncsteps_core::{BodyResult, Error, UndoPolicy, codes};
use asyncsteps_durable::journal::Timestamp;
use asyncsteps_durable::prelude::*;
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps, TypedCall};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::FlowState;
use asyncsteps_journal::{Journal as _, Uid};
use asyncsteps_simulation::{Cluster, NodeContext, Random};
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::entities::started;

/// How many orders are made at once.
const CUSTOMERS: usize = 4;

/// The limit of the step that waits for the payment: some take longer.
const LIMIT: Duration = Duration::from_secs(20);

/// The world outside of the cluster. Cloning shares.
#[derive(Clone)]
pub(crate) struct World(Arc<Outside>);

struct Outside {
    /// By the uid of the order.
    orders: Mutex<BTreeMap<String, Order>>,
    accepted: Mutex<BTreeSet<Uid>>,
    wrong: Mutex<Option<String>>,
    is_open: Mutex<bool>,
    random: Mutex<Random>,
}

/// What was done for an order.
#[derive(Debug, Default)]
struct Order {
    is_released: bool,
    /// By the key of the payment.
    paid: BTreeMap<String, Paid>,
}

/// What became of a payment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Paid {
    #[default]
    There,
    /// Its order returns it, which may take several attempts.
    ToReturn,
    Returned,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Pay {
    order: String,
}

impl TypedCall for Pay {
    const FUNCTION: &'static str = "test.orders:1.0:pay";
    /// The key of the payment.
    type Result = String;
    type Errors = std::convert::Infallible;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

impl Service for World {
    type Errors = ();
}

fn order(steps: &Steps<World, ()>) -> Returns<String> {
    steps
        .run("reserve", async |cx, ()| cx.takes_time(16).await)
        .recorded()
        .undo_with(until_undone(), async |cx, _| {
            cx.undoes().await?;
            cx.release(cx.id());
            Ok(())
        })
        .then_child_undo(
            "pay",
            |cx, ()| Pay { order: cx.id().to_owned() },
            async |cx, paid| {
                cx.becomes(cx.id(), paid, Paid::ToReturn);
                cx.undoes().await?;
                cx.becomes(cx.id(), paid, Paid::Returned);
                Ok(())
            },
        )
        .timeout(LIMIT)
        .then("confirm", async |cx, paid| {
            cx.takes_time(4).await?;
            Ok(paid)
        })
        .recorded()
        .returns()
}

fn pay(steps: &Steps<World, Pay>) -> Returns<String> {
    steps
        .run("charge", async |cx, ()| {
            cx.takes_time(8).await?;
            cx.pays(&cx.params.order, cx.key());
            Ok(cx.key().to_owned())
        })
        .recorded()
        .undo_with(until_undone(), async |cx, _| {
            cx.undoes().await?;
            cx.becomes(&cx.params.order, cx.key(), Paid::Returned);
            Ok(())
        })
        .then_pause("rest", Duration::from_secs(4))
        .then("note", async |cx, paid| {
            cx.takes_time(8).await?;
            Ok(paid)
        })
        .recorded()
        .returns()
}

fn until_undone() -> UndoPolicy {
    UndoPolicy::default().timeout(Duration::from_secs(10))
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Outside {
            orders: Mutex::default(),
            accepted: Mutex::default(),
            wrong: Mutex::default(),
            is_open: Mutex::new(true),
            random: Mutex::new(Random::new(seed)),
        }))
    }

    fn delay(&self, typical: Duration) -> Duration {
        lock(&self.0.random).delay(typical)
    }

    fn one_in(&self, times: u32) -> bool {
        lock(&self.0.random).one_in(times)
    }

    async fn takes_time(&self, fails_one_in: u32) -> BodyResult<()> {
        asyncsteps_core::sleep(self.delay(Duration::from_millis(500))).await;
        if self.one_in(fails_one_in) { Err("NotToday".into()) } else { Ok(()) }
    }

    /// Something is undone, for which something may be away.
    async fn undoes(&self) -> BodyResult<()> {
        asyncsteps_core::sleep(self.delay(Duration::from_secs(1))).await;
        let is_away = *lock(&self.0.is_open) && self.one_in(4);
        if is_away { Err(Error::new(codes::COMM_ERROR).into()) } else { Ok(()) }
    }

    fn is_wrong(&self, what: String) {
        lock(&self.0.wrong).get_or_insert(what);
    }

    fn pays(&self, order: &str, key: &str) {
        let mut orders = lock(&self.0.orders);
        let of_order = orders.entry(order.to_owned()).or_default();
        let paid = *of_order.paid.entry(key.to_owned()).or_default();
        if of_order.is_released && paid == Paid::There {
            self.is_wrong(format!("{key} goes on after its order {order}"));
        }
    }

    fn becomes(&self, order: &str, key: &str, paid: Paid) {
        lock(&self.0.orders).entry(order.to_owned()).or_default().paid.insert(key.to_owned(), paid);
    }

    fn release(&self, order: &str) {
        let mut orders = lock(&self.0.orders);
        let of_order = orders.entry(order.to_owned()).or_default();
        of_order.is_released = true;
        if let Some((key, _)) = of_order.paid.iter().find(|(_, paid)| **paid == Paid::There) {
            self.is_wrong(format!("{order} is released before {key} is returned"));
        }
    }

    /// No order comes any more.
    pub(crate) fn close(&self) {
        *lock(&self.0.is_open) = false;
    }

    /// All has ended, and an order has one payment if it is complete, and else none. Returns how many orders were complete,
    /// and how many were not although something was paid.
    pub(crate) fn check(&self, cluster: &Cluster) -> Result<[usize; 2], String> {
        if let Some(wrong) = lock(&self.0.wrong).take() {
            return Err(wrong);
        }
        const OPEN: [FlowState; 7] = [
            FlowState::New,
            FlowState::Ready,
            FlowState::Suspect,
            FlowState::Running,
            FlowState::Parked,
            FlowState::Paused,
            FlowState::Dead,
        ];
        if let Some(open) = OPEN.iter().find_map(|state| cluster.requests(*state).pop()) {
            return Err(format!("{open:?}"));
        }
        let mut counts = [0; 2];
        for uid in &*lock(&self.0.accepted) {
            let ending = match cluster.journal().status(*uid).now_or_never() {
                Some(Ok(status)) => status.ending,
                other => return Err(format!("{uid} has no status: {other:?}")),
            };
            let orders = lock(&self.0.orders);
            let paid = orders.get(&uid.to_string()).map(|order| &order.paid);
            let all = paid.map_or(0, BTreeMap::len);
            let left =
                paid.into_iter().flatten().filter(|(_, paid)| **paid != Paid::Returned).count();
            let is_complete = matches!(ending, Some(Ending::Completed(_)));
            if left != usize::from(is_complete) {
                return Err(format!("{uid} has ended with {ending:?}: {paid:?}"));
            }
            counts[usize::from(!is_complete)] += usize::from(all > 0);
        }
        Ok(counts)
    }
}

pub(crate) fn add_to(cluster: &mut Cluster, world: &World) {
    for name in ["one", "two", "three"] {
        let world = world.clone();
        cluster.node(name, async move |node| {
            let (durable, executor) = process(&world, &node);
            (started(&durable, &executor).await, executor)
        });
    }
    let world = world.clone();
    cluster.client("customers", async move |node| {
        let (durable, executor) = process(&world, &node);
        for _ in 0..CUSTOMERS {
            actix_rt::spawn(orders(world.clone(), durable.clone()));
        }
        executor
    });
}

/// Orders again and again, some of which are cancelled or have a deadline.
async fn orders(world: World, durable: Durable) {
    let ann = User::new("ann", SecurityLevel::SafeOps);
    loop {
        tokio::time::sleep(world.delay(Duration::from_secs(3))).await;
        if !*lock(&world.0.is_open) {
            return;
        }
        let mut options = Options::default().caller(&ann);
        if world.one_in(8) {
            let deadline = asyncsteps_actors::clock::wall() + world.delay(Duration::from_secs(6));
            options = options.deadline(Timestamp::from(deadline));
        }
        let Ok(uid) = durable.submit("test.orders:1.0:order", json!({}), options).await else {
            continue;
        };
        lock(&world.0.accepted).insert(uid);
        if world.one_in(2) {
            tokio::time::sleep(world.delay(Duration::from_secs(6))).await;
            // one that is not stored is none
            let _ = durable.cancel(uid, "ann").await;
        }
    }
}

fn process(world: &World, node: &NodeContext) -> (Durable, Executor) {
    let durable = Durable::new(node.journal());
    let interface = Interface::new("test.orders:1.0".parse().expect("a name"));
    let executor = Executor::builder().service(interface, world.clone(), |functions| {
        durable.on(functions, "order", order);
        durable.on(functions, "pay", pay);
    });
    (durable, executor.build().expect("it is complete"))
}
