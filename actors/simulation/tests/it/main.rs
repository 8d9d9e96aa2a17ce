//! The promises of the simulated cluster: one seed is one history, and what is built in this workspace loses nothing
//! under any of them.

mod shop;

use std::env;
use std::ops::Range;
use std::time::Duration;

use asyncsteps_simulation::{Cluster, Faults, Struck};

use shop::World;

/// How long faults last, and how long it takes at the most until all is well after them.
const MINUTE: Duration = Duration::from_secs(60);

/// The seeds of the plain run and of the long one, or the one that is to be repeated.
fn seeds() -> Range<u64> {
    let one = env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    match one {
        Some(seed) => seed..seed + 1,
        None if env::var_os("LONG_TESTS").is_some() => 0..500,
        None => 0..12,
    }
}

struct Run {
    history: u64,
    struck: Struck,
    orders: usize,
}

/// A run of one seed; fails with the command that repeats it.
fn run(seed: u64) -> Run {
    let world = World::default();
    let mut cluster = Cluster::seeded(seed);
    world.add_to(&mut cluster);
    cluster.faults(Faults::all().kills(0.03).stops(0.01));
    cluster.run_for(MINUTE);
    let struck = cluster.struck();
    world.close();
    cluster.heal();
    cluster.run_for(MINUTE);
    if let Err(why) = world.check(&cluster) {
        let again = format!("SEED={seed} cargo test -p asyncsteps-simulation seeds");
        panic!("seed {seed}: {why}\n{struck:?}\nagain: {again}");
    }
    Run { history: cluster.history(), struck, orders: world.orders() }
}

#[test]
fn no_order_is_lost_or_paid_twice_under_any_of_the_seeds() {
    let runs: Vec<Run> = seeds().map(run).collect();
    let orders: usize = runs.iter().map(|run| run.orders).sum();
    let kills: u32 = runs.iter().map(|run| run.struck.kills_in_flight).sum();
    println!("{} seeds: {orders} orders, {kills} nodes killed in the middle of some", runs.len());
    assert!(orders >= 100 * runs.len(), "{orders} orders");
    assert!(runs.len() == 1 || kills >= 1, "nothing was killed");
}

#[test]
fn one_seed_is_one_history() {
    let (one, again, other) = (run(1), run(1), run(2));
    assert_eq!((one.history, one.struck), (again.history, again.struck));
    assert_ne!(one.history, other.history, "the seed decides");
}

#[test]
#[should_panic(expected = "no such node")]
fn a_node_that_panics_ends_the_run() {
    let mut cluster = Cluster::seeded(1);
    cluster.node("one", async |_| panic!("no such node"));
    cluster.run_for(Duration::from_secs(1));
}
