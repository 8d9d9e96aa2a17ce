//! A bank on two nodes, and its callers: what a caller is told of a call, and what the bank has done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use asyncsteps_actors::{clock, random};
use asyncsteps_core::BodyResult;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Service};
use asyncsteps_fabric::nats::{Config, NatsFabric};
use asyncsteps_fabric::{
    Call, CallError, CallPolicy, Client, Endpoint, Fabric as _, Outcome, ServeGuard,
};
use asyncsteps_simulation::{Cluster, NodeContext, Random};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

/// How long the bank takes for a payment, typically.
const WORK: Duration = Duration::from_millis(5);

/// The time limit of a call, and of each attempt at one that may be carried out several times: longer than it takes when
/// nothing is wrong.
const LIMIT: Duration = Duration::from_secs(2);
const ATTEMPT: Duration = Duration::from_millis(700);

/// How far clocks may differ, in seconds (`Config::max_clock_difference`): a call of a node that has just joined may
/// be begun so late.
const CLOCKS: f64 = 1.0;

/// How long the bank goes on with payments when it leaves: longer than a node stands still.
const GRACE: Duration = Duration::from_secs(60);

/// How often a node looks at its connection, and after how long a silent one is lost: after three intervals of a second,
/// and one more.
const LOOK: Duration = Duration::from_millis(250);
const SILENT: Duration = Duration::from_secs(4);

/// What a call is told whose node has no connection.
const NO_CONNECTION: &str = "the NATS server cannot be reached";

const ONCE: &str = "demo.bank:1.0:pay";
const AGAIN: &str = "demo.bank:1.0:payAgain";

/// What was done and what was said, outside of the cluster.
#[derive(Clone)]
pub(crate) struct World(Arc<Outside>);

struct Outside {
    /// How often the bank has done each payment.
    done: Mutex<BTreeMap<String, u32>>,
    /// The calls that have ended.
    calls: Mutex<Vec<Ended>>,
    /// Those that have not, by node.
    waiting: Mutex<BTreeSet<(String, String)>>,
    /// A call that still waited when its node knew that the connection was lost, or that was begun too late, or a node that
    /// did not notice that.
    left: Mutex<Option<String>>,
    /// Nothing goes wrong any more.
    is_well: AtomicBool,
    /// The nodes that have made or carried out a call since.
    well: Mutex<BTreeSet<String>>,
    random: Mutex<Random>,
}

struct Ended {
    payment: String,
    error: Option<CallError>,
    began_well: bool,
    took: Duration,
}

#[derive(Deserialize, JsonSchema)]
struct Pay {
    payment: String,
    /// When its caller does not wait any more, in seconds since 1970.
    ends: f64,
}

/// The bank, as a node runs it.
struct Bank {
    world: World,
    node: String,
}

impl Service for Bank {
    type Errors = ();
}

impl Bank {
    async fn pay(cx: &Cx<Self, Pay>) -> BodyResult<()> {
        if seconds(clock::wall()) > cx.params.ends + CLOCKS {
            let what = format!("{} was begun after its time", cx.params.payment);
            lock(&cx.world.0.left).get_or_insert(what);
        }
        asyncsteps_core::sleep(cx.world.delay(WORK)).await;
        *lock(&cx.world.0.done).entry(cx.params.payment.clone()).or_default() += 1;
        cx.world.works(&cx.node);
        Ok(())
    }
}

/// A time of day in seconds since 1970.
fn seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).expect("it is later").as_secs_f64()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

fn config() -> Config {
    Config::new("nats://cluster:4222")
}

/// Joins the fabric, as soon as that is possible.
async fn join(node: &NodeContext) -> NatsFabric {
    loop {
        match node.fabric(config()).await {
            Ok(fabric) => return fabric,
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Outside {
            done: Mutex::default(),
            calls: Mutex::default(),
            waiting: Mutex::default(),
            left: Mutex::default(),
            is_well: AtomicBool::new(false),
            well: Mutex::default(),
            random: Mutex::new(Random::new(seed)),
        }))
    }

    fn delay(&self, typical: Duration) -> Duration {
        lock(&self.0.random).delay(typical)
    }

    pub(crate) fn add_to(&self, cluster: &mut Cluster) {
        let world = self.clone();
        cluster.node("bank-1", async move |node| world.serve(&node).await);
        let world = self.clone();
        cluster.node("bank-2", async move |node| world.serve_at_times(node).await);
        let world = self.clone();
        cluster.node("shop", async move |node| world.call(node).await);
        let world = self.clone();
        cluster.client("clients", async move |node| world.call(node).await);
    }

    /// Serves, leaves without losing a call, and joins again.
    async fn serve_at_times(&self, node: NodeContext) {
        loop {
            let (guard, fabric, executor) = self.serve(&node).await;
            tokio::time::sleep(self.delay(Duration::from_secs(3))).await;
            guard.drain(GRACE).await;
            executor.close(GRACE).await;
            fabric.close().await;
        }
    }

    async fn serve(&self, node: &NodeContext) -> (ServeGuard, NatsFabric, Executor) {
        let mut interface = Interface::new("demo.bank:1.0".parse().expect("a name"));
        interface.allow_anonymous();
        let bank = Bank { world: self.clone(), node: node.name().to_owned() };
        let executor = Executor::builder().service(interface, bank, |functions| {
            functions.on("pay", Bank::pay).on("payAgain", Bank::pay);
        });
        let executor = executor.build().expect("a right configuration");
        let fabric = join(node).await;
        actix_rt::spawn(self.clone().looks(node.name().to_owned(), fabric.clone()));
        loop {
            match fabric.serve(Endpoint::all(&executor), executor.clone()).await {
                Ok(guard) => return (guard, fabric, executor),
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }

    async fn call(&self, node: NodeContext) -> impl Sized + use<> {
        let fabric = join(&node).await;
        actix_rt::spawn(self.clone().looks(node.name().to_owned(), fabric.clone()));
        let policy = CallPolicy::new().attempts(3).attempt_timeout(ATTEMPT);
        let client =
            Client::new(Arc::new(fabric.clone())).others(policy).policy(AGAIN, policy.idempotent());
        for number in 0..4 {
            let (world, client, name) = (self.clone(), client.clone(), node.name().to_owned());
            actix_rt::spawn(world.calls_all(name, client, fabric.clone(), number % 2 == 0));
        }
        client
    }

    /// A node notices that its server is silent.
    async fn looks(self, node: String, fabric: NatsFabric) {
        let (mut silent, mut losses) = (0, 0);
        loop {
            tokio::time::sleep(LOOK).await;
            let state = fabric.connection_state();
            let is_silent = state.fault.is_none() && state.silence > SILENT;
            // one that took the place of a silent one may be as silent for as long
            let is_new = std::mem::replace(&mut losses, state.losses) != state.losses;
            silent = if is_silent && !is_new { silent + 1 } else { 0 };
            // one that stood still has the time to ask the server
            if silent * LOOK > SILENT {
                let what = format!("{node} keeps a connection that is silent: {state:?}");
                lock(&self.0.left).get_or_insert(what);
            }
        }
    }

    async fn calls_all(
        self,
        node: String,
        client: Client,
        fabric: NatsFabric,
        is_repeatable: bool,
    ) {
        loop {
            let function = if is_repeatable { AGAIN } else { ONCE };
            let payment = format!("{function} {}", random::id());
            let ends = seconds(clock::wall() + LIMIT);
            let params = serde_json::json!({ "payment": payment, "ends": ends });
            let call = Call::new(function, params).expect("it is a call").within(LIMIT);
            let began_well = self.0.is_well.load(Ordering::Relaxed);
            let began = Instant::now();
            let waits = Waits::new(&self, &node, &payment);
            let had_connection = fabric.is_connected();
            let losses = fabric.connection_losses();
            let error = client.call(call).await.err();
            drop(waits);
            // what stood still may find its time over late
            let took = if node == "clients" { began.elapsed() } else { Duration::ZERO };
            let has_waited = error.is_none() || began.elapsed() > Duration::from_millis(1);
            if !had_connection && has_waited {
                let what = format!("{payment} waits without a connection: {error:?}");
                lock(&self.0.left).get_or_insert(what);
            }
            let is_late = error.as_ref().and_then(CallError::info) == Some("no answer in time");
            // the attempts at a call that is repeated have limits of their own; without a connection yet, it was lost at the
            // moment at which the limit ended
            let has_lost = fabric.connection_losses() > losses && fabric.is_connected();
            if !is_repeatable && is_late && has_lost {
                let what = format!("{payment} waits for an answer that was lost: {error:?}");
                lock(&self.0.left).get_or_insert(what);
            }
            self.works(&node);
            if error.as_ref().is_some_and(|error| error.info() == Some(NO_CONNECTION)) {
                self.lost_connection(&node).await;
            }
            lock(&self.0.calls).push(Ended { payment, error, began_well, took });
            tokio::time::sleep(self.delay(Duration::from_millis(200))).await;
        }
    }

    /// A node has no connection: the answers to all calls that it has made before are lost, which they are told now.
    async fn lost_connection(&self, node: &str) {
        let before = lock(&self.0.waiting).clone();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut left = before.intersection(&lock(&self.0.waiting)).cloned().collect::<Vec<_>>();
        left.retain(|(of, _)| of == node);
        if !left.is_empty() {
            lock(&self.0.left).get_or_insert(format!("without a connection wait {left:?}"));
        }
    }

    /// A node has made or carried out a call.
    fn works(&self, node: &str) {
        if self.0.is_well.load(Ordering::Relaxed) {
            lock(&self.0.well).insert(node.to_owned());
        }
    }

    /// From now on each call succeeds, and each node works.
    pub(crate) fn is_well(&self) {
        self.0.is_well.store(true, Ordering::Relaxed);
    }

    /// How many calls had which outcome: done, not carried out, unknown.
    pub(crate) fn outcomes(&self) -> [usize; 3] {
        let calls = lock(&self.0.calls);
        let count = |outcome: Option<Outcome>| {
            calls
                .iter()
                .filter(|call| call.error.as_ref().map(CallError::outcome) == outcome)
                .count()
        };
        [None, Some(Outcome::NotCarriedOut), Some(Outcome::Unknown)].map(count)
    }

    /// What callers were told is what the bank has done.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(left) = lock(&self.0.left).take() {
            return Err(left);
        }
        let (calls, done) = (lock(&self.0.calls), lock(&self.0.done));
        for Ended { payment, error, began_well, took } in &*calls {
            let times = done.get(payment).copied().unwrap_or_default();
            let wrong =
                |what: &str| Err(format!("{payment} {what}: {error:?}, done {times} times"));
            let is_right = match error.as_ref().map(CallError::outcome) {
                None => times >= 1,
                Some(Outcome::NotCarriedOut) => times == 0,
                Some(Outcome::Answered) => return wrong("was refused"),
                Some(Outcome::Unknown) => true,
            };
            if !is_right {
                return wrong("was reported wrongly");
            }
            if *took > LIMIT + Duration::from_millis(10) {
                return wrong(&format!("took {took:?}"));
            }
            if *began_well && error.is_some() {
                return wrong("failed although nothing is wrong");
            }
        }
        // also those of callers that were killed
        let well = lock(&self.0.well);
        if !well.iter().eq(["bank-1", "bank-2", "clients", "shop"]) {
            return Err(format!("only these nodes work in the end: {well:?}"));
        }
        let once = format!("{ONCE} ");
        let again = done.iter().find(|(payment, times)| **times > 1 && payment.starts_with(&once));
        again.map_or(Ok(()), |(payment, times)| Err(format!("{payment} was done {times} times")))
    }
}

/// A call of a node that has not ended, until this is dropped.
struct Waits<'a>(&'a World, (String, String));

impl<'a> Waits<'a> {
    fn new(world: &'a World, node: &str, payment: &str) -> Self {
        let call = (node.to_owned(), payment.to_owned());
        lock(&world.0.waiting).insert(call.clone());
        Self(world, call)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        lock(&self.0.0.waiting).remove(&self.1);
    }
}
