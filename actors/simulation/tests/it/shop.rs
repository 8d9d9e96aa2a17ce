//! A shop on two nodes and its clients, and the world around it: a bank and a stock that know keys, and no crash.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use asyncsteps_core::{BodyResult, Retry, UndoPolicy};
use asyncsteps_durable::journal::Uid;
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_journal::request::FlowState;
use asyncsteps_journal::{Journal as _, StoredRecord};
use asyncsteps_simulation::{Cluster, NodeContext, Random};
use futures_util::FutureExt as _;
use serde_json::json;

/// The world outside of the cluster.
#[derive(Clone)]
pub(crate) struct World(Arc<Outside>);

struct Outside {
    /// What was done for each key, and how often it was undone: effects have their key once.
    effects: Mutex<BTreeMap<String, Effect>>,
    /// The orders that the journal has taken.
    accepted: Mutex<Vec<Uid>>,
    is_closed: AtomicBool,
    random: Mutex<Random>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Effect {
    is_done: bool,
    is_undone: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

/// The shop, as a node runs it.
struct Shop {
    world: World,
}

impl Service for Shop {
    type Errors = ();
}

impl Shop {
    fn order(steps: &Steps<Self, ()>) -> Returns<String> {
        steps
            .join("reserve", |all| {
                (
                    all.run("seat", async |cx, ()| cx.world.does(cx.key(), 4).await)
                        .recorded()
                        .undo_with(until_undone(), async |cx, _| cx.world.undoes(cx.key()).await),
                    all.run("room", async |cx, ()| cx.world.does(cx.key(), 8).await)
                        .recorded()
                        .undo_with(until_undone(), async |cx, _| cx.world.undoes(cx.key()).await),
                )
            })
            .timeout(Duration::from_secs(60))
            .then_pause("rest", Duration::from_secs(2))
            .then("pay", async |cx, _| cx.world.does(cx.key(), 16).await)
            .recorded()
            .timeout(Duration::from_secs(5))
            .retry(Retry::attempts(3).backoff(Duration::from_millis(200)))
            .undo_with(until_undone(), async |cx, _| cx.world.undoes(cx.key()).await)
            .then("confirm", async |cx, ()| {
                cx.world.takes_time(20).await?;
                Ok(cx.id().to_owned())
            })
            .recorded()
            .returns()
    }
}

fn until_undone() -> UndoPolicy {
    UndoPolicy::default()
        .timeout(Duration::from_secs(10))
        .retry(Retry::attempts(100).backoff(Duration::from_millis(100)))
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Outside {
            effects: Mutex::default(),
            accepted: Mutex::default(),
            is_closed: AtomicBool::new(false),
            random: Mutex::new(Random::new(seed)),
        }))
    }

    /// Takes some time, and fails once in `fails_one_in` times.
    async fn takes_time(&self, fails_one_in: u32) -> BodyResult<()> {
        let (time, fails) = {
            let mut random = lock(&self.0.random);
            (random.delay(Duration::from_millis(50)), random.one_in(fails_one_in))
        };
        asyncsteps_core::sleep(time).await;
        if fails { Err("NotToday".into()) } else { Ok(()) }
    }

    async fn does(&self, key: &str, fails_one_in: u32) -> BodyResult<()> {
        self.takes_time(fails_one_in).await?;
        let mut effects = lock(&self.0.effects);
        let effect = effects.entry(key.to_owned()).or_default();
        // what was undone by its key is not done any more
        effect.is_done |= !effect.is_undone;
        Ok(())
    }

    async fn undoes(&self, key: &str) -> BodyResult<()> {
        self.takes_time(10).await?;
        let mut effects = lock(&self.0.effects);
        let effect = effects.entry(key.to_owned()).or_default();
        (effect.is_done, effect.is_undone) = (false, true);
        Ok(())
    }

    pub(crate) fn add_to(&self, cluster: &mut Cluster) {
        for name in ["one", "two", "three"] {
            let world = self.clone();
            cluster.node(name, async move |node| {
                let (durable, executor) = process(&world, &node);
                loop {
                    match durable.start(&executor).await {
                        Ok(node) => break (node, executor),
                        Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
                    }
                }
            });
        }
        let world = self.clone();
        cluster.client("clients", async move |node| {
            let (durable, executor) = process(&world, &node);
            for _ in 0..6 {
                actix_rt::spawn(world.clone().orders_all(durable.clone()));
            }
            executor
        });
    }

    async fn orders_all(self, durable: Durable) {
        let ann = User::new("ann", SecurityLevel::SafeOps);
        while !self.0.is_closed.load(Ordering::Relaxed) {
            let options = Options::default().caller(&ann);
            if let Ok(uid) = durable.submit("demo.shop:1.0:order", json!({}), options).await {
                lock(&self.0.accepted).push(uid);
            }
            let pause = lock(&self.0.random).delay(Duration::from_millis(500));
            tokio::time::sleep(pause).await;
        }
    }

    /// No more orders.
    pub(crate) fn close(&self) {
        self.0.is_closed.store(true, Ordering::Relaxed);
    }

    /// Each accepted order has ended, with all of its effects or with none.
    pub(crate) fn check(&self, cluster: &Cluster) -> Result<(), String> {
        for state in [
            FlowState::Ready,
            FlowState::New,
            FlowState::Suspect,
            FlowState::Running,
            FlowState::Parked,
            FlowState::Paused,
            FlowState::Dead,
        ] {
            if let Some(open) = cluster.requests(state).first() {
                return Err(format!("{open:?}\n{}", records(cluster, open.uid)));
            }
        }
        let ended = cluster.requests(FlowState::Ended);
        let (effects, accepted) = (lock(&self.0.effects), lock(&self.0.accepted));
        for uid in &*accepted {
            if !ended.iter().any(|ended| ended.uid == *uid) {
                return Err(format!("{uid} was accepted, and the journal does not have it"));
            }
        }
        for request in &ended {
            let id = request.uid.to_string();
            let of_request =
                effects.range(id.clone()..).take_while(|(key, _)| key.starts_with(&id));
            let done: Vec<_> =
                of_request.filter(|(_, effect)| effect.is_done).map(|(key, _)| key).collect();
            if ![0, 3].contains(&done.len()) {
                return Err(format!("{id} has ended, and of its effects there are {done:?}"));
            }
        }
        Ok(())
    }
}

/// What a request has recorded.
fn records(cluster: &Cluster, uid: Uid) -> String {
    let Some(Ok(loaded)) = cluster.journal().load(uid).now_or_never() else {
        return "no records".to_owned();
    };
    let line = |stored: &StoredRecord| format!("  {:?} {:?}\n", stored.id, stored.record);
    loaded.records.iter().map(line).collect()
}

fn process(world: &World, node: &NodeContext) -> (Durable, Executor) {
    let durable = Durable::new(node.journal());
    let interface = Interface::new("demo.shop:1.0".parse().expect("a name"));
    let executor = Executor::builder()
        .service(interface, Shop { world: world.clone() }, |functions| {
            durable.on(functions, "order", Shop::order);
        })
        .build()
        .expect("a right configuration");
    (durable, executor)
}
