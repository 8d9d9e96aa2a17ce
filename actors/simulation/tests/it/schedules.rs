//! Schedules that three nodes keep: at each time one request begins, or is skipped because an earlier one has not ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use asyncsteps_durable::{Durable, Overlap, SKIPPED, Schedule};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_journal::request::{FlowInfo, FlowState};
use asyncsteps_simulation::{Cluster, NodeContext, Random};
use serde_json::json;

use crate::entities::started;

/// The functions, each with the schedule of each minute.
const FUNCTIONS: [(&str, Overlap); 2] = [("skips", Overlap::Skip), ("waits", Overlap::BufferOne)];

/// How many seconds a request takes at the most: more than a minute.
const LONGEST: usize = 90;

/// What the nodes have done, outside of the cluster.
#[derive(Clone)]
pub(crate) struct World(Arc<Outside>);

struct Outside {
    /// The request of each function that has begun and is not done.
    begun: Mutex<BTreeMap<&'static str, String>>,
    wrong: Mutex<Option<String>>,
    random: Mutex<Random>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

impl Service for World {
    type Errors = ();
}

/// A request of a schedule.
fn serves(function: &'static str) -> impl Fn(&Steps<World, ()>) -> Returns<()> {
    move |steps| {
        steps
            .run("begin", async move |cx, ()| {
                let (own, mut begun) = (cx.id().to_owned(), lock(&cx.0.begun));
                if let Some(other) = begun.insert(function, own.clone()).filter(|it| *it != own) {
                    let wrong = format!("{function}: {own} begins, and {other} has not ended");
                    lock(&cx.0.wrong).get_or_insert(wrong);
                }
                let takes = lock(&cx.0.random).below(LONGEST);
                Ok(u32::try_from(takes)?)
            })
            .recorded()
            .then("work", async |_, takes| {
                asyncsteps_core::sleep(Duration::from_secs(takes.into())).await;
                Ok(())
            })
            .recorded()
            .then_pause("rest", Duration::from_secs(10))
            .then("end", async move |cx, ()| {
                let mut begun = lock(&cx.0.begun);
                if begun.get(function).is_some_and(|it| it == cx.id()) {
                    begun.remove(function);
                }
                Ok(())
            })
            .recorded()
            .returns()
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let random = Mutex::new(Random::new(seed));
        Self(Arc::new(Outside { begun: Mutex::default(), wrong: Mutex::default(), random }))
    }

    /// No two requests have overlapped, no minute is lost or there twice, and what was skipped had a reason.
    pub(crate) fn check(&self, cluster: &Cluster) -> Result<usize, String> {
        if let Some(wrong) = &*lock(&self.0.wrong) {
            return Err(wrong.clone());
        }
        const STATES: [FlowState; 8] = [
            FlowState::New,
            FlowState::Ready,
            FlowState::Suspect,
            FlowState::Running,
            FlowState::Parked,
            FlowState::Paused,
            FlowState::Dead,
            FlowState::Ended,
        ];
        let all: Vec<_> = STATES.into_iter().flat_map(|state| cluster.requests(state)).collect();
        let mut skips = 0;
        for (function, _) in FUNCTIONS {
            let template = format!("test.scheduled:1:{function}");
            let mut flows: Vec<_> = all.iter().filter(|it| it.template == template).collect();
            flows.sort_by_key(|flow| time(flow));
            for pair in flows.windows(2) {
                if time(pair[1]) != time(pair[0]) + 60_000 {
                    return Err(format!(
                        "{function}: {} is behind {}",
                        time(pair[1]),
                        time(pair[0])
                    ));
                }
            }
            for (n, flow) in flows.iter().enumerate() {
                if flow.outcome.as_deref() != Some(SKIPPED) {
                    continue;
                }
                skips += 1;
                let is_open = |other: &&FlowInfo| {
                    other.outcome.as_deref() != Some(SKIPPED)
                        && other.ended.is_none_or(|ended| ended.as_millis() >= time(flow))
                };
                if !flows[..n].iter().any(is_open) {
                    return Err(format!("{function}: {} is skipped for nothing", time(flow)));
                }
            }
        }
        Ok(skips)
    }
}

/// The time of a request, as its key has it.
fn time(flow: &FlowInfo) -> u64 {
    flow.key.as_deref().and_then(|key| key.parse().ok()).expect("a time")
}

pub(crate) fn add_to(cluster: &mut Cluster, world: &World) {
    for name in ["one", "two", "three"] {
        let world = world.clone();
        cluster.node(name, async move |node| serve(&world, &node).await);
    }
}

async fn serve(world: &World, node: &NodeContext) -> impl Sized + use<> {
    let durable = Durable::new(node.journal());
    let interface = Interface::new("test.scheduled:1.0".parse().expect("a name"));
    let executor = Executor::builder().service(interface, world.clone(), |functions| {
        for (function, _) in FUNCTIONS {
            durable.on(functions, function, serves(function));
        }
    });
    let executor = executor.build().expect("it is complete");
    for (function, overlap) in FUNCTIONS {
        let schedule = Schedule::new(function, "* * * * *").expect("it is right").overlap(overlap);
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let schedule = schedule.jitter(Duration::from_secs(5)).caller(&ann);
        let function = format!("test.scheduled:1.0:{function}");
        durable.schedule(schedule, &function, json!({})).expect("it is declared");
    }
    (started(&durable, &executor).await, executor)
}
