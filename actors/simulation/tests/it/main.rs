//! The promises of the simulated cluster: one seed is one history, and what is built in this workspace loses nothing
//! under any of them.

mod bank;
mod calls;
mod children;
mod crossing;
mod entities;
mod events;
mod locks;
mod lost_locks;
mod repeated;
mod schedules;
mod shop;
mod world;

use std::env;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asyncsteps_journal::request::FlowState;
use asyncsteps_simulation::{Cluster, FaultKind, Faults, simulate};

use world::World;

/// How long faults last.
const FAULT_SECONDS: u16 = 228;

/// When all nodes die with many deliveries, and again when they have taken the first of these.
const MANY_DIE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(13)];

/// How long it takes at the most until all is well after them.
const HEALED: Duration = Duration::from_secs(40);

/// How long there are orders again, and how long the last of them take.
const CALM: Duration = Duration::from_secs(10);
const LAST: Duration = Duration::from_secs(22);

/// How many seeds are run: without optimization a run takes ten times as long, and the build takes no time of its own.
fn seeds() -> u64 {
    match (env::var_os("LONG_TESTS").is_some(), cfg!(debug_assertions)) {
        (true, false) => 5000,
        (false, false) => 100,
        (_, true) => 10,
    }
}

/// The seeds of the shop, of which a run takes twenty seconds without optimization. In 817 a node reads a signal at the
/// moment at which it parks the request that waits for it.
fn seeds_of_shop() -> Range<u64> {
    if cfg!(debug_assertions) { 817..819 } else { 800..800 + seeds() }
}

/// Orders under all faults, while a new version of the program is deployed node by node: each one that was accepted ends,
/// with all of its effects or with none. Then all nodes die twice with many requests, while the clock of the journal jumps.
fn shop(cluster: &mut Cluster) -> Result<(), String> {
    let world = World::new(cluster.seed());
    shop::add_to(cluster, &world);
    cluster.faults(Faults::all().disk_errors(0.3));
    let part = Duration::from_secs(u64::from(FAULT_SECONDS) / 4);
    cluster.run_for(part);
    for name in shop::NODES {
        shop::deploy(cluster, &world, name);
        cluster.run_for(part);
    }
    world.open(false);
    cluster.heal();
    cluster.run_for(HEALED);
    world.check(cluster)?;
    cluster.faults(Faults::none().clock_jumps(0.1, Duration::from_secs(25 * 3600)));
    world.send_out();
    for time in MANY_DIE {
        cluster.run_for(time);
        for name in shop::NODES {
            shop::deploy(cluster, &world, name);
        }
    }
    cluster.heal();
    cluster.run_for(HEALED);
    world.check(cluster)?;
    let before = cluster.requests(FlowState::Ended).len();
    world.open(true);
    cluster.run_for(CALM);
    world.open(false);
    cluster.run_for(LAST);
    world.check(cluster)?;
    world.check_calm(cluster, before)
}

#[test]
fn no_order_is_lost_or_paid_twice_under_any_of_the_seeds() {
    let figures = simulate(seeds_of_shop(), shop);
    println!("{figures}");
    if figures.seeds > 1 {
        assert!(figures.requests >= 4 * usize::from(FAULT_SECONDS) * figures.seeds, "{figures}");
        assert!(figures.in_flight() >= 3 * figures.seeds, "{figures}");
        let kills =
            [FaultKind::Kill, FaultKind::NoticedKill].map(|kind| figures.struck(kind).in_flight);
        assert!(kills.iter().sum::<usize>() >= figures.seeds / 2, "{figures}");
    }
}

/// Orders that emit how far they are, under all faults and with a deploy, and readers on all nodes: one goes on where
/// another one has stopped or died.
fn watched(cluster: &mut Cluster) -> Result<(), String> {
    let world = World::watched(cluster.seed());
    shop::add_to(cluster, &world);
    cluster.faults(Faults::all().disk_errors(0.3));
    for name in shop::NODES {
        cluster.run_for(Duration::from_secs(15));
        shop::deploy(cluster, &world, name);
    }
    world.open(false);
    cluster.heal();
    cluster.run_for(HEALED);
    world.check(cluster)?;
    world.readers().map_or(Ok(()), events::Readers::check)
}

#[test]
fn events_of_orders_are_read_once_and_in_order_under_any_of_the_seeds() {
    let figures = simulate(0..seeds().div_ceil(5), watched);
    println!("{figures}");
}

/// Calls of entities from all nodes under all faults, while a program with another form of their state is deployed node by
/// node.
fn entities(cluster: &mut Cluster) -> Result<(), String> {
    let world = entities::World::new(cluster.seed());
    entities::add_to(cluster, &world);
    cluster.faults(Faults::all().disk_errors(0.3));
    let part = Duration::from_secs(20);
    cluster.run_for(part);
    for name in entities::NODES {
        entities::deploy(cluster, &world, name);
        cluster.run_for(part);
    }
    world.close();
    cluster.heal();
    // all is carried out, and no entity is of a node that died
    cluster.run_for(HEALED);
    world.read();
    cluster.run_for(HEALED);
    let answered = world.check()?;
    if answered < 10 { Err(format!("{answered} calls were answered")) } else { Ok(()) }
}

#[test]
fn a_call_of_an_entity_is_in_its_state_once_and_in_its_place_under_any_of_the_seeds() {
    let figures = simulate(0..seeds().div_ceil(2), entities);
    println!("{figures}");
}

/// Schedules of each minute under all faults but jumps of clocks, which skip times.
fn schedules(cluster: &mut Cluster) -> Result<(), String> {
    let world = schedules::World::new(cluster.seed());
    schedules::add_to(cluster, &world);
    cluster.faults(Faults::all().clock_jumps(0.0, Duration::ZERO).clock_drifts(0.0));
    cluster.run_for(Duration::from_secs(600));
    cluster.heal();
    cluster.run_for(Duration::from_secs(180));
    match world.check(cluster)? {
        0 => Err("nothing was skipped".to_owned()),
        _ => Ok(()),
    }
}

#[test]
fn each_time_of_a_schedule_begins_one_request_or_is_skipped_under_any_of_the_seeds() {
    let figures = simulate(0..seeds().div_ceil(2), schedules);
    println!("{figures}");
}

/// Orders whose payment is a request of its own under all faults.
fn children(cluster: &mut Cluster) -> Result<(), String> {
    let world = children::World::new(cluster.seed());
    children::add_to(cluster, &world);
    cluster.faults(Faults::all().disk_errors(0.3));
    cluster.run_for(Duration::from_secs(120));
    world.close();
    cluster.heal();
    // what is away is tried again after a while
    cluster.run_for(Duration::from_secs(300));
    match world.check(cluster)? {
        [0, _] | [_, 0] => {
            Err("no order was complete, or none was undone with its payment".to_owned())
        }
        _ => Ok(()),
    }
}

#[test]
fn no_child_goes_on_after_its_parent_under_any_of_the_seeds() {
    let figures = simulate(0..seeds().div_ceil(2), children);
    println!("{figures}");
}

/// Entities of all nodes that call each other.
fn crossing(cluster: &mut Cluster) -> Result<(), String> {
    let world = crossing::World::default();
    crossing::add_to(cluster, &world);
    cluster.run_for(Duration::from_secs(70));
    world.check()
}

#[test]
fn a_call_of_an_entity_that_crosses_others_succeeds_or_ends_as_a_deadlock_under_any_of_the_seeds() {
    simulate(0..seeds().div_ceil(2), crossing);
}

/// A scenario has one history for a seed, which this returns: in this process and in another one, in which it is run by a
/// test. Addresses and the order of hash tables differ there.
fn has_one_history(
    test: &str,
    seed: u64,
    scenario: impl FnOnce(&mut Cluster) -> Result<(), String>,
) -> u64 {
    let mut cluster = Cluster::seeded(seed);
    if let Err(wrong) = scenario(&mut cluster) {
        panic!("SEEDS={seed} {test}: {wrong}");
    }
    let here = cluster.figures().history;
    let mut other = Command::new(env::current_exe().expect("this program"));
    let other =
        other.args(["--exact", test, "--nocapture"]).env("SEEDS", seed.to_string()).output();
    let printed = String::from_utf8(other.expect("it runs").stdout).expect("text");
    assert!(printed.contains(&format!("history {here:016x}")), "{here:016x}\n{printed}");
    here
}

/// Each of two seeds has one, and they differ.
fn each_seed_has_one_history(test: &str, scenario: impl Fn(&mut Cluster) -> Result<(), String>) {
    let [seven, two] = [7, 2].map(|seed| has_one_history(test, seed, &scenario));
    assert_ne!(seven, two, "the seed decides");
}

#[test]
fn a_node_that_panics_ends_the_run_whichever_it_is() {
    const NAMES: [&str; 3] = ["one", "two", "three"];
    for (who, after) in NAMES.into_iter().flat_map(|who| [(who, 0), (who, 1)]) {
        let run = panic::catch_unwind(|| {
            let mut cluster = Cluster::seeded(1);
            for name in NAMES {
                cluster.node(name, async move |_| {
                    tokio::time::sleep(Duration::from_secs(after)).await;
                    assert_ne!(name, who, "no such node");
                });
            }
            cluster.run_for(Duration::from_secs(2));
        });
        let panicked = run.expect_err("the panic of the node");
        let text = panicked.downcast_ref::<String>().expect("a formatted text");
        assert!(text.contains("no such node"), "{text}");
    }
}

#[test]
fn a_seed_that_fails_once_is_said_to_be_no_run() {
    let has_failed = AtomicBool::new(false);
    let run = panic::catch_unwind(AssertUnwindSafe(|| {
        simulate(0..1, |_| match has_failed.swap(true, Ordering::Relaxed) {
            false => Err("by chance".to_owned()),
            true => Ok(()),
        })
    }));
    let panicked = run.expect_err("the first failure");
    let text = panicked.downcast_ref::<String>().expect("a formatted text");
    assert!(text.contains("by chance") && text.contains("again, it does not fail"), "{text}");
}
