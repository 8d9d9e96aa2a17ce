//! The promises of locks and limits between machines: sections exclude each other while clocks are right and processes go
//! on, tokens protect what is written whatever happens, rates hold, and each lock comes free.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use asyncsteps_actors::clock;
use asyncsteps_actors::flow::start_flow;
use asyncsteps_cluster::{
    Cluster as Locks, Config, Counting, FencingToken, LOCK_LOST, OnDisconnect, Rate,
};
use asyncsteps_core::{Flow, codes};
use asyncsteps_simulation::{Cluster, Faults, NodeContext, Random, simulate};
use tokio::time::{sleep, timeout};

use crate::{each_seed_has_one_history, seeds};

const NODES: [&str; 3] = ["one", "two", "three"];

/// What is locked.
const SHELVES: [&str; 3] = ["apples", "pears", "plums"];

/// The shelf that is wanted rarely: a lock that is not returned is not soon taken again by its own node.
const RARE: usize = 2;

const SECOND: Duration = Duration::from_secs(1);

/// How long faults last, of each of the two kinds.
const FAULTS: Duration = Duration::from_secs(60);

/// How long it takes until all is well after them, and how long it is then.
const HEALED: Duration = Duration::from_secs(15);
const WELL: Duration = Duration::from_secs(15);

/// How long a lock is free at the most while a section waits for it and all is well: far less than until the next poll.
const NOTIFIED: Duration = Duration::from_millis(500);

/// How far the times of nodes that run in turns are apart.
const TURNS: Duration = Duration::from_millis(100);

/// How many entries a rate allows in a second.
const RATE: u32 = 5;

/// What is outside of the cluster. Cloning shares.
#[derive(Clone)]
struct World(Arc<Outside>);

struct Outside {
    shelves: Mutex<[Shelf; SHELVES.len()]>,
    /// When something entered the throttle.
    entries: Mutex<Vec<SystemTime>>,
    /// Whether sections exclude each other without their tokens.
    excludes: AtomicBool,
    /// The nodes and shelves of sections that ended while all was well.
    well: Mutex<Option<BTreeSet<(String, usize)>>>,
    lost: AtomicUsize,
    /// How many flows have waited for a shelf.
    waits: AtomicUsize,
    random: Mutex<Random>,
    wrong: Mutex<Option<String>>,
}

/// Something that knows tokens, as a database would.
#[derive(Default)]
struct Shelf {
    highest: Option<FencingToken>,
    count: u32,
    /// How often it was written.
    writes: u32,
    /// How many sections are inside.
    inside: u32,
    /// Since when there is none.
    free: Option<SystemTime>,
    /// Since when others wait until they are inside, by number.
    waiting: BTreeMap<usize, SystemTime>,
}

/// A section, until it is dropped.
struct Inside<'a>(&'a World, usize);

/// A flow that waits for a shelf, until it is inside or this is dropped.
struct Waits<'a> {
    world: &'a World,
    shelf: usize,
    number: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

impl Shelf {
    /// Whether no later holder was here.
    fn knows(&mut self, fence: &FencingToken) -> bool {
        let is_old = self.highest.as_ref().is_some_and(|highest| fence < highest);
        if !is_old {
            self.highest = Some(fence.clone());
        }
        !is_old
    }

    /// How long nothing has been inside although something waits.
    fn idle(&self) -> Option<Duration> {
        let since = self.free?.max(*self.waiting.values().min()?);
        clock::wall().duration_since(since).ok()
    }
}

impl World {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Outside {
            shelves: Mutex::default(),
            entries: Mutex::default(),
            excludes: AtomicBool::new(true),
            well: Mutex::default(),
            lost: AtomicUsize::new(0),
            waits: AtomicUsize::new(0),
            random: Mutex::new(Random::new(seed)),
            wrong: Mutex::default(),
        }))
    }

    /// A time between two sections.
    fn pause(&self) -> Duration {
        lock(&self.0.random).within(2 * SECOND)
    }

    /// How long a section takes: far less than a pause, so that no lock is wanted all the time. Between nodes there is no
    /// order.
    fn length(&self) -> Duration {
        let mut random = lock(&self.0.random);
        let length = random.within(SECOND / 20);
        if random.one_in(16) { 30 * length } else { length }
    }

    fn is_wrong(&self, what: String) {
        lock(&self.0.wrong).get_or_insert(what);
    }

    fn waits(&self, shelf: usize) -> Waits<'_> {
        let number = self.0.waits.fetch_add(1, Ordering::Relaxed);
        lock(&self.0.shelves)[shelf].waiting.insert(number, clock::wall());
        Waits { world: self, shelf, number }
    }

    fn enter(&self, shelf: usize, wait: Option<usize>) -> Inside<'_> {
        self.check_idle(shelf);
        let Shelf { inside, free, waiting, .. } = &mut lock(&self.0.shelves)[shelf];
        *free = None;
        wait.map(|number| waiting.remove(&number));
        *inside += 1;
        if *inside > 1 && self.0.excludes.load(Ordering::Relaxed) {
            self.is_wrong(format!("{inside} sections for {}", SHELVES[shelf]));
        }
        Inside(self, shelf)
    }

    /// While all is well, no lock is free for long that something waits for.
    fn check_idle(&self, shelf: usize) {
        let idle = lock(&self.0.shelves)[shelf].idle();
        if lock(&self.0.well).is_some() && idle > Some(NOTIFIED) {
            self.is_wrong(format!("{} was free for {idle:?} and waited for", SHELVES[shelf]));
        }
    }

    /// Reads what is there, and writes one more later.
    async fn adds(&self, shelf: usize, fence: Option<FencingToken>, wait: Option<usize>) {
        let Some(fence) = fence else {
            return self.is_wrong("a section has no token".to_owned());
        };
        let _inside = self.enter(shelf, wait);
        let read = {
            let shelf = &mut lock(&self.0.shelves)[shelf];
            shelf.knows(&fence).then_some(shelf.count)
        };
        sleep(self.length()).await;
        let shelf = &mut lock(&self.0.shelves)[shelf];
        if let Some(count) = read
            && shelf.knows(&fence)
        {
            (shelf.count, shelf.writes) = (count + 1, shelf.writes + 1);
        }
    }

    fn ended(&self, node: &str, shelf: usize) {
        if let Some(well) = &mut *lock(&self.0.well) {
            well.insert((node.to_owned(), shelf));
        }
    }

    fn entered(&self) {
        lock(&self.0.entries).push(clock::wall());
    }

    /// No write was lost, and in each second there were at most twice as many entries as the rate allows.
    fn check(&self) -> Result<(), String> {
        for (shelf, name) in lock(&self.0.shelves).iter().zip(SHELVES) {
            if shelf.count != shelf.writes {
                return Err(format!("{} writes made {} {name}", shelf.writes, shelf.count));
            }
        }
        let mut times = mem::take(&mut *lock(&self.0.entries));
        times.sort_unstable();
        for among in times.windows(2 * RATE as usize + 1) {
            let time = among[among.len() - 1].duration_since(among[0]).unwrap_or_default();
            if time + TURNS < SECOND {
                return Err(format!("{} entries in {time:?}", among.len()));
            }
        }
        lock(&self.0.wrong).take().map_or(Ok(()), Err)
    }

    /// While all was well, each node had each lock.
    fn check_well(&self) -> Result<(), String> {
        let well = lock(&self.0.well).take().unwrap_or_default();
        for node in NODES {
            for (shelf, name) in SHELVES.iter().enumerate().take(RARE) {
                if !well.contains(&(node.to_owned(), shelf)) {
                    return Err(format!("{node} waits for {name}"));
                }
            }
        }
        Ok(())
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        lock(&self.world.0.shelves)[self.shelf].waiting.remove(&self.number);
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let shelf = &mut lock(&self.0.0.shelves)[self.1];
        shelf.inside -= 1;
        shelf.free = Some(clock::wall());
    }
}

async fn node(world: World, node: NodeContext) {
    let config = || Config { lease: 3 * SECOND, poll: SECOND, ..Config::default() };
    let locks = loop {
        match node.locks(config()).await {
            Ok(locks) => break locks,
            Err(_) => sleep(SECOND).await,
        }
    };
    for shelf in 0..SHELVES.len() {
        for has_patience in [true, true, false] {
            let (world, locks) = (world.clone(), locks.clone());
            let name = node.name().to_owned();
            actix_rt::spawn(async move {
                loop {
                    sleep(world.pause() * if shelf == RARE { 60 } else { 1 }).await;
                    if has_patience {
                        in_a_flow(&world, &locks, shelf).await;
                        world.ended(&name, shelf);
                    } else {
                        in_a_hurry(&world, &locks, shelf).await;
                    }
                }
            });
        }
    }
    let looks = world.clone();
    actix_rt::spawn(async move {
        loop {
            sleep(NOTIFIED).await;
            (0..SHELVES.len()).for_each(|shelf| looks.check_idle(shelf));
        }
    });
    enters(world, locks).await;
}

/// A section of a flow, which is cancelled when the lock is lost.
async fn in_a_flow(world: &World, locks: &Locks, shelf: usize) {
    let mutex = locks.mutex("shelf").key(SHELVES[shelf]);
    let waits = world.waits(shelf);
    let mut flow = Flow::new();
    let (in_flow, token, wait) = (world.clone(), mutex.clone(), waits.number);
    flow.run(async move |()| {
        in_flow.adds(shelf, token.fence(), Some(wait)).await;
        Ok(())
    })
    .locked(&mutex);
    match start_flow::<()>(flow).await {
        Ok(()) => {}
        Err(error) if error.code() == LOCK_LOST => {
            world.0.lost.fetch_add(1, Ordering::Relaxed);
        }
        Err(error) => world.is_wrong(format!("a section failed: {error}")),
    }
}

/// A section outside of flows, for which the lock is not waited for long.
async fn in_a_hurry(world: &World, locks: &Locks, shelf: usize) {
    let mutex = locks.mutex("shelf").key(SHELVES[shelf]);
    let Ok(taken) = timeout(world.pause() / 20, mutex.lock()).await else { return };
    match taken {
        Ok(guard) => tokio::select! {
            biased;
            () = guard.lost() => {}
            () = world.adds(shelf, Some(guard.fence()), None) => {}
        },
        Err(error) => world.is_wrong(format!("a lock failed: {error}")),
    }
}

/// Enters as often as the node may.
async fn enters(world: World, locks: Locks) {
    let counting = Counting::Shares(OnDisconnect::Reject);
    let rate = Rate { max: RATE, period: SECOND, max_queue: Some(1), counting };
    let mails = locks.throttle("mails", rate).expect("a right rate");
    loop {
        match mails.enter().await {
            Ok(()) => world.entered(),
            Err(error) if error.code() == codes::DEFENSE_REJECTED => sleep(SECOND / 10).await,
            Err(error) => return world.is_wrong(format!("an entry failed: {error}")),
        }
    }
}

/// Locks and limits, first under faults that leave clocks right, then under all; returns how many sections lost their lock.
fn locks(cluster: &mut Cluster) -> Result<usize, String> {
    let world = World::new(cluster.seed());
    for name in NODES {
        let world = world.clone();
        cluster.node(name, async move |context| node(world.clone(), context).await);
    }
    cluster.faults(Faults::none().kills(0.02).slow_disk(0.1, 4 * SECOND).disk_errors(1.0));
    cluster.run_for(FAULTS);
    world.check()?;
    world.0.excludes.store(false, Ordering::Relaxed);
    cluster
        .faults(Faults::all().kills(0.02).stops(0.15).slow_disk(0.1, 4 * SECOND).disk_errors(5.0));
    cluster.run_for(FAULTS);
    cluster.heal();
    mem::take(&mut *lock(&world.0.entries));
    cluster.run_for(HEALED);
    world.0.excludes.store(true, Ordering::Relaxed);
    *lock(&world.0.well) = Some(BTreeSet::new());
    cluster.run_for(WELL);
    world.check()?;
    world.check_well()?;
    Ok(world.0.lost.load(Ordering::Relaxed))
}

#[test]
fn locks_exclude_and_come_free_under_any_of_the_seeds() {
    let lost = AtomicUsize::new(0);
    let figures = simulate(0..seeds(), |cluster| {
        lost.fetch_add(locks(cluster)?, Ordering::Relaxed);
        Ok(())
    });
    let lost = lost.into_inner();
    println!("{figures}{lost} sections lost their lock");
    assert!(lost >= figures.seeds / 5, "{lost} sections lost their lock");
}

#[test]
fn one_seed_is_one_history_of_locks() {
    let test = "locks::locks_exclude_and_come_free_under_any_of_the_seeds";
    each_seed_has_one_history(test, |cluster| locks(cluster).map(drop));
}
