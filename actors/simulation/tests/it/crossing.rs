//! Entities on three nodes that call each other from all sides: a call succeeds or ends as a deadlock, and none stands until
//! its time is over.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::Durable;
use asyncsteps_durable::entity::{Entity, EntityCx as _};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Service};
use asyncsteps_simulation::{Cluster, NodeContext, Random};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::entities::{NODES, started};

/// How many entities there are.
const NAMES: i32 = 3;

/// How long a call takes at the most: far longer than entities move, and shorter than any limit.
const SOON: Duration = Duration::from_secs(5);

/// The code of a call that failed, and how long the call took.
type Ended = (Option<String>, Duration);

/// What became of the calls.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<Vec<Ended>>>);

impl World {
    /// Some succeeded and some ended as a deadlock, all of them soon.
    pub(crate) fn check(&self) -> Result<(), String> {
        let ended = self.0.lock().expect("no panic");
        let late = ended.iter().filter(|(_, took)| *took > SOON).count();
        let deadlocks = ended.iter().filter(|(code, _)| code.as_deref() == Some("InternalError"));
        let (deadlocks, done) =
            (deadlocks.count(), ended.iter().filter(|(code, _)| code.is_none()));
        let (done, all) = (done.count(), ended.len());
        match late == 0 && done > 0 && deadlocks > 0 && done + deadlocks == all {
            true => Ok(()),
            false => Err(format!("{all} calls: {done} done, {deadlocks} deadlocks, {late} late")),
        }
    }
}

struct Links;

impl Service for Links {
    type Errors = ();
}

impl Entity for Links {
    type State = i32;
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Pass {
    name: i32,
    /// The next one.
    on: Option<i32>,
}

async fn pass(cx: &Cx<Links, Pass>) -> BodyResult<i32> {
    cx.entity().change(|count| *count += 1)?;
    sleep(Duration::from_millis(5)).await;
    let Some(name) = cx.params.on else { return Ok(1) };
    let passed: i32 = cx.request().call("test.links:1.0:pass", Pass { name, on: None }).await?;
    Ok(passed + 1)
}

pub(crate) fn add_to(cluster: &mut Cluster, world: &World) {
    let seed = cluster.seed();
    for (number, name) in (0..).zip(NODES) {
        let world = world.clone();
        cluster.node(name, async move |node| serve(&world, &node, seed + number).await);
    }
}

async fn serve(world: &World, node: &NodeContext, seed: u64) -> impl Sized + use<> {
    let durable = Durable::new(node.journal());
    let interface = Interface::new("test.links:1.0".parse().expect("a name"));
    let builder = Executor::builder().request_timeout(Duration::from_secs(60));
    let builder = builder.service(interface, Links, |functions| {
        durable.entity(functions, "name").on("pass", pass);
    });
    let executor = builder.build().expect("it is complete");
    let node = started(&durable, &executor).await;
    for caller in 0..2 {
        actix_rt::spawn(calls(world.clone(), executor.clone(), Random::new(seed * 2 + caller)));
    }
    (node, executor)
}

/// Calls an entity that calls another one, and again.
async fn calls(world: World, executor: Executor, mut random: Random) {
    loop {
        sleep(random.delay(Duration::from_millis(300))).await;
        let name = i32::try_from(random.below(NAMES as usize)).expect("a few");
        let on = Some((name + 1) % NAMES);
        let begun = Instant::now();
        let passed = executor.call_as_system::<i32>("test.links:1.0:pass", Pass { name, on }).await;
        let code = passed.err().map(|error| error.code().to_owned());
        world.0.lock().expect("no panic").push((code, begun.elapsed()));
    }
}
