//! The promises of the simulated cluster: one seed is one history, and what is built in this workspace loses nothing
//! under any of them.

mod shop;

use std::env;
use std::time::Duration;

use asyncsteps_simulation::{Cluster, Faults, Kind, simulate};

use shop::World;

/// How long faults last, and how long it takes at the most until all is well after them.
const FAULT_SECONDS: u16 = 240;
const HEALED: Duration = Duration::from_secs(60);

/// How many seeds are run: without optimization a run takes ten times as long.
fn seeds() -> u64 {
    match (env::var_os("LONG_TESTS").is_some(), cfg!(debug_assertions)) {
        (true, false) => 5000,
        (false, false) => 200,
        (_, true) => 4,
    }
}

/// Orders under all faults: each one that was accepted ends, with all of its effects or with none.
fn shop(cluster: &mut Cluster) -> Result<(), String> {
    let world = World::new(cluster.seed());
    world.add_to(cluster);
    cluster.faults(Faults::all());
    cluster.run_for(Duration::from_secs(FAULT_SECONDS.into()));
    world.close();
    cluster.heal();
    cluster.run_for(HEALED);
    world.check(cluster)
}

#[test]
fn no_order_is_lost_or_paid_twice_under_any_of_the_seeds() {
    let figures = simulate(0..seeds(), shop);
    println!("{figures}");
    if figures.seeds > 1 {
        assert!(figures.requests >= 4 * usize::from(FAULT_SECONDS) * figures.seeds, "{figures}");
        assert!(figures.in_flight() >= 3 * figures.seeds, "{figures}");
        assert!(figures.struck(Kind::Kill).in_flight >= figures.seeds / 2, "{figures}");
    }
}

#[test]
fn one_seed_is_one_history() {
    let history = |seed| {
        let mut cluster = Cluster::seeded(seed);
        shop(&mut cluster).expect("all is well");
        (cluster.history(), cluster.figures())
    };
    let one = history(1);
    assert_eq!(one, history(1));
    assert_ne!(one, history(2), "the seed decides");
}

#[test]
#[should_panic(expected = "no such node")]
fn a_node_that_panics_ends_the_run() {
    let mut cluster = Cluster::seeded(1);
    cluster.node("one", async |_| panic!("no such node"));
    cluster.run_for(Duration::from_secs(1));
}
