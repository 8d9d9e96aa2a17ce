//! Entities on three nodes, each of which has callers: what was answered is in the state, once and in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::Durable;
use asyncsteps_durable::entity::{Entity, EntityCx as _, Message};
use asyncsteps_durable::journal::{Value, ValueError};
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::{Headers, Request};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Incoming, ReplyBody, Service};
use asyncsteps_simulation::{Cluster, NodeContext, Random};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::sleep;

/// The nodes.
pub(crate) const NODES: [&str; 3] = ["one", "two", "three"];

/// How many entities there are, and callers of each node.
const NAMES: u32 = 3;
const CALLERS: u32 = 2;

/// Each of so many calls sends a message, which does the same again for another number.
const SENDS_ONE_IN: i32 = 4;
const AGAIN: i32 = 10_000_000;
const LATER: Duration = Duration::from_secs(5);

/// What was answered, outside of the cluster.
#[derive(Clone)]
pub(crate) struct World(Arc<Outside>);

struct Outside {
    /// The place of each number among those of its entity, as its caller was told.
    answered: Mutex<BTreeMap<(u32, i32), usize>>,
    /// The states in the end.
    states: Mutex<BTreeMap<u32, Vec<i32>>>,
    is_open: AtomicBool,
    is_read: AtomicBool,
    last: Mutex<i32>,
    random: Mutex<Random>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Outside {
            answered: Mutex::default(),
            states: Mutex::default(),
            is_open: AtomicBool::new(true),
            is_read: AtomicBool::new(false),
            last: Mutex::new(0),
            random: Mutex::new(Random::new(seed)),
        }))
    }

    /// No more calls begin; then the states are read.
    pub(crate) fn close(&self) {
        self.0.is_open.store(false, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) {
        self.0.is_read.store(true, Ordering::Relaxed);
    }

    fn next(&self) -> i32 {
        let mut last = lock(&self.0.last);
        *last += 1;
        *last
    }

    fn below(&self, most: u32) -> u32 {
        u32::try_from(lock(&self.0.random).below(most as usize)).unwrap_or(0)
    }

    fn pause(&self) -> Duration {
        lock(&self.0.random).delay(Duration::from_millis(200))
    }

    /// Each number that was answered is in its place, and none is there twice; each that sends a message has been done
    /// again.
    pub(crate) fn check(&self) -> Result<usize, String> {
        let (answered, states) = (lock(&self.0.answered), lock(&self.0.states));
        if states.len() != NAMES as usize {
            return Err(format!("{} states were read", states.len()));
        }
        for (name, numbers) in &*states {
            let once: BTreeSet<i32> = numbers.iter().copied().collect();
            if once.len() != numbers.len() {
                return Err(format!("a number is twice in {name}: {numbers:?}"));
            }
            for number in numbers.iter().filter(|number| **number < AGAIN) {
                if number % SENDS_ONE_IN == 0 && !once.contains(&(number + AGAIN)) {
                    return Err(format!("the message of {number} to {name} was not carried out"));
                }
            }
        }
        for ((name, number), place) in &*answered {
            if states[name].get(place - 1) != Some(number) {
                return Err(format!("{number} is not in place {place} of {name}"));
            }
        }
        Ok(answered.len())
    }
}

/// Numbers in the order in which they came, as this version of the program stores them.
struct Numbers<const VERSION: u32>;

impl<const VERSION: u32> Service for Numbers<VERSION> {
    type Errors = ();
}

impl Entity for Numbers<1> {
    type State = Vec<i32>;
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Kept {
    numbers: Vec<i32>,
}

impl Entity for Numbers<2> {
    type State = Kept;
    const VERSION: u32 = 2;

    fn upgrade(_: u32, stored: &Value) -> Result<Kept, ValueError> {
        Ok(Kept { numbers: stored.decode()? })
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Add {
    name: u32,
    number: i32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Of {
    name: u32,
}

/// Adds a number; returns its place.
async fn add<E: Entity>(
    cx: &Cx<E, Add>,
    numbers: fn(&mut E::State) -> &mut Vec<i32>,
) -> BodyResult<i32> {
    let number = cx.params.number;
    asyncsteps_core::sleep(Duration::from_millis(u64::from(number.unsigned_abs() % 20))).await;
    if number < AGAIN && number % SENDS_ONE_IN == 0 {
        let again = Message::new("add", json!({ "number": number + AGAIN }))?;
        cx.entity().send(again.after(LATER))?;
    }
    let count = cx.entity().change(|state| {
        let numbers = numbers(state);
        numbers.push(number);
        numbers.len()
    })?;
    Ok(i32::try_from(count)?)
}

fn process(node: &NodeContext, version: u32) -> (Durable, Executor) {
    let durable = Durable::new(node.journal());
    let interface = Interface::new("test.numbers:1.0".parse().expect("a name"));
    let builder = Executor::builder().request_timeout(Duration::from_secs(60));
    let builder = match version {
        1 => builder.service(interface, Numbers::<1>, |functions| {
            durable
                .entity(functions, "name")
                .on("add", async |cx: &Cx<_, Add>| add::<Numbers<1>>(cx, |all| all).await)
                .reads("all", async |cx: &Cx<Numbers<1>, Of>| Ok((*cx.entity().get()).clone()));
        }),
        _ => builder.service(interface, Numbers::<2>, |functions| {
            durable
                .entity(functions, "name")
                .on("add", async |cx: &Cx<_, Add>| {
                    add::<Numbers<2>>(cx, |kept| &mut kept.numbers).await
                })
                .reads("all", async |cx: &Cx<Numbers<2>, Of>| {
                    Ok(cx.entity().get().numbers.clone())
                });
        }),
    };
    (durable, builder.build().expect("it is complete"))
}

/// The nodes, and one outside that reads the states in the end.
pub(crate) fn add_to(cluster: &mut Cluster, world: &World) {
    for name in NODES {
        let world = world.clone();
        cluster.node(name, async move |node| serve(&world, &node, 1).await);
    }
    let world = world.clone();
    cluster.client("reader", async move |node| {
        let (durable, executor) = process(&node, 2);
        let (world, reads) = (world.clone(), executor.clone());
        actix_rt::spawn(async move {
            while !world.0.is_read.load(Ordering::Relaxed) {
                sleep(Duration::from_secs(1)).await;
            }
            let _node = started(&durable, &reads).await;
            for name in 0..NAMES {
                let state = loop {
                    match reads.call_as_system("test.numbers:1.0:all", Of { name }).await {
                        Ok(state) => break state,
                        Err(_) => sleep(Duration::from_secs(1)).await,
                    }
                };
                lock(&world.0.states).insert(name, state);
            }
        });
        executor
    });
}

/// The next version of the program takes the place of the first one on a node.
pub(crate) fn deploy(cluster: &mut Cluster, world: &World, name: &str) {
    let world = world.clone();
    cluster.replace(name, async move |node| serve(&world, &node, 2).await);
}

async fn serve(world: &World, node: &NodeContext, version: u32) -> impl Sized + use<> {
    let (durable, executor) = process(node, version);
    let node = started(&durable, &executor).await;
    for _ in 0..CALLERS {
        actix_rt::spawn(calls(world.clone(), executor.clone()));
    }
    (node, executor)
}

pub(crate) async fn started(durable: &Durable, executor: &Executor) -> asyncsteps_durable::Node {
    loop {
        match durable.start(executor).await {
            Ok(node) => return node,
            Err(_) => sleep(Duration::from_secs(1)).await,
        }
    }
}

/// Calls one entity after the other: a call that fails is made again, with its key.
async fn calls(world: World, executor: Executor) {
    while world.0.is_open.load(Ordering::Relaxed) {
        sleep(world.pause()).await;
        let (name, number) = (world.below(NAMES), world.next());
        for _ in 0..5 {
            let params = json!({ "name": name, "number": number });
            let Ok(place) = keyed(&executor, number, params).await else { continue };
            let place = place.as_u64().and_then(|place| usize::try_from(place).ok());
            let place = place.expect("a number");
            let before = lock(&world.0.answered).insert((name, number), place);
            assert!(before.is_none_or(|before| before == place), "one key, one answer");
            if world.below(4) > 0 {
                break;
            }
        }
    }
}

async fn keyed(
    executor: &Executor,
    number: i32,
    params: serde_json::Value,
) -> Result<serde_json::Value, String> {
    let serde_json::Value::Object(params) = params else { return Err("no map".to_owned()) };
    let caller = User::new("ann", SecurityLevel::SafeOps);
    let incoming = Incoming::new(Request::new("test.numbers:1.0:add", params), Channel::local())
        .with_caller((&caller).into())
        .with_headers(Rc::new(Key(number.to_string())));
    match executor.dispatch(incoming).await.into_parts().1 {
        ReplyBody::Message(message) => {
            message.response().clone().into_result().map_err(|error| error.code.to_string())
        }
        ReplyBody::Nothing | ReplyBody::Raw(_) => Err("no message".to_owned()),
    }
}

struct Key(String);

impl Headers for Key {
    fn header(&self, name: &str) -> Option<&str> {
        (name == "idempotency-key").then_some(&self.0)
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(std::iter::empty())
    }
}
