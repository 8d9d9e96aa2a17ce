//! A seed is a run: programs in which chance and order decide have one history for a seed, however often they run, in
//! this process and in another one.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use asyncsteps_actors::flow::start_flow;
use asyncsteps_actors::sync::Mutex as LocalMutex;
use asyncsteps_actors::sync::mutex::Options as MutexOptions;
use asyncsteps_actors::{clock, random};
use asyncsteps_cluster::{Cluster as Locks, Config as LockConfig, Mutex as ClusterMutex};
use asyncsteps_core::{BodyResult, Flow, Retry, UndoPolicy};
use asyncsteps_durable::entity::{Entity, EntityCx as _, Message};
use asyncsteps_durable::{Durable, Options, Schedule};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Caller, Cx, Executor, Returns, Service, Steps};
use asyncsteps_fabric::nats::{Config, NatsFabric};
use asyncsteps_fabric::{Call, Client, Endpoint, Fabric as _};
use asyncsteps_simulation::{Cluster, Faults, NodeContext, Random, simulate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::sleep;

const NODES: [&str; 2] = ["one", "two"];
const SEEDS: u64 = 100;
const SHORT: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

/// How long there are faults, and how long none; for one of ten seeds until a schedule has begun a request and idle entities
/// are given back.
const FAULTS: Duration = Duration::from_secs(8);
const CALM: Duration = Duration::from_secs(6);
const IDLE: Duration = Duration::from_secs(70);

/// When a node stops and gives its entities back.
const STOPS: Duration = Duration::from_secs(5);

/// How many requests a node begins.
const REQUESTS: i32 = 4;

/// What is outside of the cluster: chance, and a digest of what was done and when.
#[derive(Clone)]
struct World(Arc<Mutex<(Random, DefaultHasher)>>);

impl World {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new((Random::new(seed), DefaultHasher::new()))))
    }

    fn lock(&self) -> MutexGuard<'_, (Random, DefaultHasher)> {
        self.0.lock().expect("no panic")
    }

    fn note(&self, what: impl Display) {
        (what.to_string(), clock::wall()).hash(&mut self.lock().1);
    }

    /// Takes some time, and fails once in `fails_one_in` times.
    async fn does(&self, what: impl Display, fails_one_in: u32) -> BodyResult<()> {
        self.note(&what);
        let (time, fails) = {
            let (random, _) = &mut *self.lock();
            (random.delay(SHORT / 4), random.one_in(fails_one_in))
        };
        asyncsteps_core::sleep(time).await;
        self.note(format_args!("{what} {fails}"));
        if fails { Err("NotNow".into()) } else { Ok(()) }
    }
}

/// A service in which chance and order decide.
struct Mixed {
    world: World,
    local: LocalMutex,
    /// Of all nodes.
    shared: ClusterMutex,
}

impl Service for Mixed {
    type Errors = ();
}

impl Entity for Mixed {
    type State = Vec<i32>;
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Work {
    name: String,
    number: i32,
}

fn jitter() -> Retry {
    Retry::attempts(6).backoff(SHORT).jitter()
}

impl Mixed {
    fn work(steps: &Steps<Self, Work>) -> Returns<i32> {
        steps
            .run("try", async |cx, ()| cx.world.does(cx.key(), 2).await)
            .recorded()
            .retry(jitter())
            .undo_with(UndoPolicy::default().retry(jitter()), async |cx, _| {
                cx.world.does(cx.key(), 4).await
            })
            .then_join("both", |all| {
                (
                    all.run("left", async |cx, ()| cx.world.does(cx.key(), 0).await)
                        .recorded()
                        .locked(|cx| cx.local.key(cx.params.name.clone())),
                    all.run("right", async |cx, ()| cx.world.does(cx.key(), 3).await)
                        .recorded()
                        .retry(jitter())
                        .locked(|cx| cx.shared.key(&cx.params.name)),
                )
            })
            .then_race(
                "fastest",
                |_, _| vec![1, 2, 3],
                |one| {
                    one.run("runs", async |cx, number| {
                        cx.world.does(format_args!("{} {number}", cx.key()), 0).await?;
                        Ok(number)
                    })
                    .recorded()
                },
            )
            .then_wait_signal_within::<i32>("go", 2 * SECOND)
            .then_pause("rest", SHORT)
            .then("count", async |cx, _| {
                let Work { name, number } = &*cx.params;
                let add = json!({ "name": name, "number": number });
                cx.request()
                    .executor()
                    .call_as_system("test.mixed:1.0:add", add)
                    .await
                    .map_err(Into::into)
            })
            .recorded()
            .retry(jitter())
            .returns()
    }

    fn daily(steps: &Steps<Self, Work>) -> Returns<()> {
        steps.run("day", async |cx, ()| cx.world.does(cx.key(), 0).await).recorded().returns()
    }

    /// Adds a number; returns its place.
    async fn add(cx: &Cx<Self, Work>) -> BodyResult<i32> {
        let number = cx.params.number;
        cx.world.does(format_args!("adds {number}"), 0).await?;
        if number % 3 == 0 {
            cx.entity()
                .send(Message::new("add", json!({ "number": number + 1000 }))?.after(SECOND))?;
        }
        let count = cx.entity().change(|numbers| {
            numbers.push(number);
            numbers.len()
        })?;
        Ok(i32::try_from(count)?)
    }
}

async fn until_ok<T, E, F: Future<Output = Result<T, E>>>(ask: impl Fn() -> F) -> T {
    loop {
        match ask().await {
            Ok(done) => return done,
            Err(_) => sleep(SECOND).await,
        }
    }
}

async fn node(world: World, node: NodeContext) -> impl Sized {
    let durable = Durable::new(node.journal());
    let fabric = until_ok(|| node.fabric(Config::new("nats://cluster"))).await;
    let config = || LockConfig { lease: 3 * SECOND, poll: SECOND, ..LockConfig::default() };
    let locks = until_ok(|| node.locks(config())).await;
    let executor = executor(&world, &durable, &locks);
    let schedule = Schedule::new("minutes", "* * * * *").expect("a right expression");
    let params = Work { name: "time".to_owned(), number: 0 };
    durable
        .schedule(schedule.caller(Caller::system()), "test.mixed:1.0:daily", params)
        .expect("it is one of its functions");
    let runs = until_ok(|| durable.start(&executor)).await;
    let serves = until_ok(|| fabric.serve(Endpoint::all(&executor), executor.clone())).await;
    actix_rt::spawn(requests(world.clone(), durable.clone()));
    for (number, name) in (0..).zip(["a", "b", "c"]) {
        actix_rt::spawn(entities(world.clone(), executor.clone(), name, number));
        actix_rt::spawn(calls(world.clone(), fabric.clone()));
        actix_rt::spawn(flows(world.clone(), locks.clone()));
    }
    if node.name() == "two" && node.starts() > 1 {
        sleep(STOPS).await;
        runs.stop().await;
        return (None, serves, executor, locks, fabric);
    }
    (Some(runs), serves, executor, locks, fabric)
}

fn executor(world: &World, durable: &Durable, locks: &Locks) -> Executor {
    let mut interface = Interface::new("test.mixed:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    let mixed = Mixed {
        world: world.clone(),
        local: LocalMutex::new(MutexOptions::default()),
        shared: locks.mutex("mixed"),
    };
    let executor = Executor::builder().service(interface, mixed, |functions| {
        durable.on(functions, "work", Mixed::work);
        durable.on(functions, "daily", Mixed::daily);
        durable.entity(functions, "name").on("add", Mixed::add);
    });
    executor.build().expect("a right configuration")
}

/// Durable requests, each with a signal at some time; some are cancelled.
async fn requests(world: World, durable: Durable) {
    for number in 0..REQUESTS {
        let (pause, is_cancelled) = {
            let (random, _) = &mut *world.lock();
            (random.delay(SHORT), random.one_in(4))
        };
        sleep(pause).await;
        let work = Work { name: format!("r{}", number % 3), number };
        let options = Options::default().caller(Caller::system());
        let Ok(uid) = durable.submit("test.mixed:1.0:work", work, options).await else { continue };
        let (world, durable) = (world.clone(), durable.clone());
        actix_rt::spawn(async move {
            sleep(10 * pause).await;
            let done = match is_cancelled {
                true => format!("{:?}", durable.cancel(uid, "ann").await),
                false => format!("{:?}", durable.signal(uid, "go", 1).await),
            };
            world.note(format_args!("{uid} {done}"));
            world.note(format_args!("{uid} {:?}", durable.result::<i32>(uid).await));
        });
    }
}

/// Calls of entities that the other node calls as well.
async fn entities(world: World, executor: Executor, name: &'static str, number: i32) {
    for number in (number..).step_by(3).take(3) {
        let add = Work { name: name.to_owned(), number };
        let place = executor.call_as_system::<i32>("test.mixed:1.0:add", add).await;
        world.note(format_args!("{name} {number} {place:?}"));
    }
}

/// Calls of whichever node answers.
async fn calls(world: World, fabric: NatsFabric) {
    let client = Client::new(Arc::new(fabric));
    for name in ["d", "e", "f", "g"] {
        let params = json!({ "name": name, "number": 1 });
        let call = Call::new("test.mixed:1.0:add", params).expect("it is a call");
        let answer = client.call(call.within(2 * SECOND)).await;
        world.note(format_args!("{} {:?}", random::id(), answer.map_err(|error| error.outcome())));
    }
}

/// Flows with branches that wait for the same moment, and a lock of all nodes.
async fn flows(world: World, locks: Locks) {
    for _ in 0..2 {
        let mut flow = Flow::new();
        let (in_branches, in_lock, mutex) = (world.clone(), world.clone(), locks.mutex("flows"));
        flow.parallel(move |branches| {
            for number in 0..3 {
                let world = in_branches.clone();
                branches.run(async move |()| world.does(number, 2).await).retry(jitter());
            }
        });
        flow.run(async move |()| in_lock.does("locked", 0).await).locked(&mutex);
        let ended = start_flow::<()>(flow).await;
        world.note(format_args!("{:?}", ended.map_err(|error| error.code().to_owned())));
    }
}

/// Runs the program; returns its history, with that of the world.
fn mixed(cluster: &mut Cluster) -> u64 {
    let world = World::new(cluster.seed());
    for name in NODES {
        let world = world.clone();
        cluster.node(name, async move |context| node(world.clone(), context).await);
    }
    cluster.faults(Faults::all().kills(0.05).disk_errors(0.2));
    cluster.run_for(FAULTS);
    cluster.heal();
    cluster.run_for(if cluster.seed().is_multiple_of(10) { IDLE } else { CALM });
    let (_, done) = &mut *world.lock();
    cluster.figures().history.hash(done);
    done.finish()
}

/// The histories of so many seeds.
fn histories(seeds: u64) -> BTreeMap<u64, u64> {
    let histories = Mutex::new(BTreeMap::new());
    simulate(0..seeds, |cluster| {
        let history = mixed(cluster);
        histories.lock().expect("no panic").insert(cluster.seed(), history);
        Ok(())
    });
    histories.into_inner().expect("no panic")
}

/// The same in another process, which runs this test.
fn histories_elsewhere(test: &str) -> BTreeMap<u64, u64> {
    let mut other = Command::new(env::current_exe().expect("this program"));
    let seeds = format!("0..{SEEDS}");
    let other = other.args(["--exact", test, "--nocapture"]).env("SEEDS", seeds).output();
    let printed = String::from_utf8(other.expect("it runs").stdout).expect("text");
    let lines = printed.lines().filter_map(|line| line.strip_prefix("history of "));
    lines
        .filter_map(|line| {
            let (seed, history) = line.split_once(": ")?;
            Some((seed.parse().ok()?, history.parse().ok()?))
        })
        .collect()
}

/// The name of this test.
const TEST: &str =
    "repeated::a_hundred_seeds_are_the_same_runs_again_in_this_process_and_in_another_one";

#[test]
fn a_hundred_seeds_are_the_same_runs_again_in_this_process_and_in_another_one() {
    let first = histories(SEEDS);
    if env::var_os("SEEDS").is_some() {
        first.iter().for_each(|(seed, history)| println!("history of {seed}: {history}"));
        return;
    }
    let (again, elsewhere) = (histories(SEEDS / 4), histories_elsewhere(TEST));
    let again = again.iter().filter(|(seed, history)| first[seed] != **history);
    let elsewhere = first.iter().filter(|(seed, history)| elsewhere.get(seed) != Some(history));
    let different: BTreeSet<_> = again.chain(elsewhere).map(|(seed, _)| *seed).collect();
    assert_eq!(different, BTreeSet::new());
}
