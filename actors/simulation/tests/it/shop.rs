//! A shop on three nodes and its clients.

use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_actors::sync::mutex::Options as MutexOptions;
use asyncsteps_core::{BodyResult, Retry, UndoPolicy};
use asyncsteps_durable::journal::Timestamp;
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Emits, Executor, Returns, Service, Step, Steps};
use asyncsteps_simulation::{Cluster, NodeContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::events::Said;
use crate::world::{Process, World};

/// How many customers order at once.
const CUSTOMERS: u32 = 6;

/// How many deliveries there are at once in the end, far more than orders, and how long one takes,
/// and again until it is over.
const DELIVERIES: u32 = 240;
const DELIVERY: Duration = Duration::from_secs(1);

/// When the first of them is received, and how much later the last one: some at the moment at which the request is parked.
const RECEIVED: Duration = Duration::from_secs(20);
const MOST_RECEIVED: Duration = Duration::from_secs(15);

/// The nodes of the shop.
pub(crate) const NODES: [&str; 3] = ["one", "two", "three"];

/// The shop, as a node runs it.
struct Shop {
    world: World,
    process: Process,
    /// Of a customer, a node carries out one order at a time.
    customers: Mutex,
}

impl Service for Shop {
    type Errors = ();
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
struct Order {
    customer: u32,
}

impl Emits for Order {
    type Event = Said;
}

impl Shop {
    fn order(steps: &Steps<Self, Order>) -> Returns<String> {
        Self::steps(steps, false)
    }

    /// The next version of the program: it has lost a step, and another one has a new name.
    fn next_order(steps: &Steps<Self, Order>) -> Returns<String> {
        Self::steps(steps, true)
    }

    fn steps(steps: &Steps<Self, Order>, is_next: bool) -> Returns<String> {
        steps.locked(|cx| cx.customers.key(cx.params.customer.to_string()));
        let reserved = steps
            .join("reserve", |all| {
                (
                    all.run("seat", async |cx, ()| Self::does(cx, 0, 4).await)
                        .recorded()
                        .undo_with(until_undone(), async |cx, _| {
                            cx.undoes(&cx.params, cx.key()).await
                        }),
                    all.run("room", async |cx, ()| Self::does(cx, 0, 8).await)
                        .recorded()
                        .undo_with(until_undone(), async |cx, _| {
                            cx.undoes(&cx.params, cx.key()).await
                        }),
                )
            })
            .timeout(Duration::from_secs(60));
        let paid = reserved
            .then_wait_signal::<()>("agreed")
            .then_pause("rest", Duration::from_millis(100))
            .then(if is_next { "charge" } else { "pay" }, async |cx, _| Self::does(cx, 1, 16).await)
            .recorded()
            .timeout(Duration::from_secs(5))
            .retry(Retry::attempts(3).backoff(Duration::from_millis(200)))
            .undo_with(until_undone(), async |cx, _| cx.undoes(&cx.params, cx.key()).await);
        if is_next {
            steps.retired("mail");
            confirmed(paid.was("pay"))
        } else {
            confirmed(paid.then("mail", async |cx, ()| cx.world.takes_time(0).await).recorded())
        }
    }

    /// Something is brought to a customer of its own, who says when it is received.
    fn deliver(steps: &Steps<Self, Order>) -> Returns<()> {
        Self::brings(steps, true)
    }

    /// The same for a customer who says nothing.
    fn redeliver(steps: &Steps<Self, Order>) -> Returns<()> {
        Self::brings(steps, false)
    }

    fn brings(steps: &Steps<Self, Order>, is_received: bool) -> Returns<()> {
        let brought = steps
            .run("bring", async |cx, ()| {
                asyncsteps_core::sleep(DELIVERY).await;
                Self::does(cx, 0, 0).await
            })
            .recorded()
            .undo_with(until_undone(), async |cx, _| cx.undoes(&cx.params, cx.key()).await);
        if is_received {
            brought.then_wait_signal::<()>("received").then_pause("rest", DELIVERY).returns()
        } else {
            brought.then_pause("rest", DELIVERY).returns()
        }
    }

    /// Does what the step at this place of the order is for, and says so before if orders are watched.
    async fn does(cx: &Cx<Self, Order>, place: u32, fails_one_in: u32) -> BodyResult<()> {
        if let Some(readers) = cx.world.readers() {
            let said = (place, cx.key().to_owned());
            cx.emit(&said).await?;
            readers.emitted(said);
        }
        cx.world.does(&cx.process, cx.params.customer, cx.key(), fails_one_in).await
    }

    async fn undoes(&self, order: &Order, key: &str) -> BodyResult<()> {
        self.world.undoes(&self.process, order.customer, key).await
    }
}

fn confirmed<I: 'static>(paid: Step<Shop, Order, (), I, ()>) -> Returns<String> {
    paid.then("ticket", async |cx, ()| {
        cx.world.does_once(&cx.process, cx.params.customer, cx.key()).await
    })
    .once()
    .undo_with(until_undone(), async |cx, _| cx.undoes(&cx.params, cx.key()).await)
    .then("confirm", async |cx, ()| {
        cx.world.takes_time(20).await?;
        Ok(cx.id().to_owned())
    })
    .recorded()
    .returns()
}

fn until_undone() -> UndoPolicy {
    UndoPolicy::default().timeout(Duration::from_secs(10))
}

/// The nodes of the shop with the first version of the program, and its customers.
pub(crate) fn add_to(cluster: &mut Cluster, world: &World) {
    for name in NODES {
        let world = world.clone();
        cluster.node(name, async move |node| serve(&world, &node, 1).await);
    }
    let world = world.clone();
    cluster.client("customers", async move |node| {
        let (durable, executor) = process(&world, &node, 1);
        for customer in 0..CUSTOMERS {
            actix_rt::spawn(orders(world.clone(), durable.clone(), customer));
        }
        actix_rt::spawn(deliveries(world.clone(), durable));
        executor
    });
}

/// The next version of the program takes the place of the first one on a node.
pub(crate) fn deploy(cluster: &mut Cluster, world: &World, name: &str) {
    let world = world.clone();
    cluster.replace(name, async move |node| serve(&world, &node, 2).await);
}

async fn serve(world: &World, node: &NodeContext, version: u32) -> impl Sized + use<> {
    let (durable, executor) = process(world, node, version);
    actix_rt::spawn(own_deliveries(world.clone(), durable.clone(), node.clone()));
    if let Some(readers) = world.readers() {
        readers.start(world, &durable);
    }
    loop {
        match durable.start(&executor).await {
            Ok(node) => break (node, executor),
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// A customer orders again and again, agrees to what is reserved, and changes its mind about some orders.
async fn orders(world: World, durable: Durable, customer: u32) {
    let ann = User::new("ann", SecurityLevel::SafeOps);
    loop {
        tokio::time::sleep(world.pause()).await;
        if !world.is_open() {
            continue;
        }
        let mut options = Options::default().caller(&ann);
        if world.one_in(16) {
            let deadline = asyncsteps_actors::clock::wall() + 2 * world.pause();
            options = options.deadline(Timestamp::from(deadline));
        }
        let order = Order { customer };
        let Ok(uid) = durable.submit("demo.shop:1.0:order", order, options).await else {
            continue;
        };
        world.accept(uid);
        let (agrees, when) = (durable.clone(), world.pause() / 4);
        actix_rt::spawn(async move {
            tokio::time::sleep(when).await;
            // one that has ended needs it no more
            let _ = agrees.signal(uid, "agreed", ()).await;
        });
        if world.one_in(4) {
            // most have ended after a while, unless their node has died
            let when = world.pause() * if world.one_in(2) { 2 } else { 20 };
            let durable = durable.clone();
            actix_rt::spawn(async move {
                tokio::time::sleep(when).await;
                // one that is not stored is none
                let _ = durable.cancel(uid, "ann").await;
            });
        }
    }
}

/// Deliveries are submitted when the shop sends out.
async fn deliveries(world: World, durable: Durable) {
    while !world.sends_out() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for number in 0..DELIVERIES {
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let (order, options) =
            (Order { customer: CUSTOMERS + number }, Options::default().caller(&ann));
        if let Ok(uid) = durable.submit("demo.shop:1.0:deliver", order, options).await {
            world.accept(uid);
            let (receives, when) =
                (durable.clone(), RECEIVED + number * MOST_RECEIVED / DELIVERIES);
            actix_rt::spawn(async move {
                tokio::time::sleep(when).await;
                // one that has ended needs it no more
                let _ = receives.signal(uid, "received", ()).await;
            });
        }
    }
}

/// A node submits deliveries itself, which it stores and begins in one request.
async fn own_deliveries(world: World, durable: Durable, node: NodeContext) {
    let first = (1_u32..).zip(NODES).find(|(_, name)| *name == node.name());
    let first = first.map_or(0, |(number, _)| number * 1_000_000) + node.starts() * 1_000;
    for customer in first.. {
        tokio::time::sleep(world.pause()).await;
        if !world.is_open() {
            continue;
        }
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let order = Order { customer };
        let options = Options::default().caller(&ann);
        if let Ok(uid) = durable.submit("demo.shop:1.0:redeliver", order, options).await {
            world.accept(uid);
        }
    }
}

fn process(world: &World, node: &NodeContext, version: u32) -> (Durable, Executor) {
    let durable = Durable::new(node.journal());
    let interface = Interface::new("demo.shop:1.0".parse().expect("a name"));
    let shop = Shop {
        world: world.clone(),
        process: Process { name: node.name().to_owned(), starts: node.starts() },
        customers: Mutex::new(MutexOptions::default()),
    };
    let executor = Executor::builder()
        .service(interface, shop, |functions| {
            _ = match version {
                1 => durable.on(functions, "order", Shop::order),
                _ => durable.on(functions, "order", Shop::next_order).version(2).compatible([1]),
            };
            _ = durable.on(functions, "deliver", Shop::deliver);
            _ = durable.on(functions, "redeliver", Shop::redeliver);
        })
        .build()
        .expect("a right configuration");
    (durable, executor)
}
