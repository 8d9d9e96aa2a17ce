//! The promise of the fabric over the network of a cluster: what a caller is told of a call is what became of it.

use std::sync::Mutex;
use std::time::Duration;

use asyncsteps_simulation::{Cluster, FaultKind, Faults, simulate};

use crate::bank::World;
use crate::{each_seed_has_one_history, seeds};

/// How long faults last.
const FAULTS: Duration = Duration::from_secs(60);

/// How long it takes after the last fault until calls succeed: what a node has asked for while its messages were lost is
/// given up after 5 s (`Config::connect_timeout`), then it joins and subscribes.
const UNTIL_WELL: Duration = Duration::from_secs(10);

/// How long each call succeeds then.
const WELL: Duration = Duration::from_secs(20);

/// Calls under faults of the network; returns how many had which outcome.
fn calls(cluster: &mut Cluster) -> Result<[usize; 3], String> {
    let world = World::new(cluster.seed());
    world.add_to(cluster);
    let faults = Faults::none().kills(0.02).stops(0.01);
    cluster.faults(faults.connection_losses(0.04).partitions(0.04));
    cluster.run_for(FAULTS);
    cluster.heal();
    cluster.run_for(UNTIL_WELL);
    world.is_well();
    cluster.run_for(WELL);
    world.check()?;
    Ok(world.outcomes())
}

#[test]
fn what_a_caller_is_told_of_a_call_is_what_became_of_it_under_any_of_the_seeds() {
    let outcomes = Mutex::new([0; 3]);
    let figures = simulate(0..seeds(), |cluster| {
        let run = calls(cluster)?;
        let mut sum = outcomes.lock().expect("no panic");
        *sum = std::array::from_fn(|of| sum[of] + run[of]);
        Ok(())
    });
    let [done, not_carried_out, unknown] = *outcomes.lock().expect("no panic");
    println!("{figures}{done} calls done, {not_carried_out} not carried out, {unknown} unknown");
    if figures.seeds > 1 {
        assert!(done >= 500 * figures.seeds, "{done} calls");
        assert!(not_carried_out.min(unknown) >= figures.seeds, "{not_carried_out} {unknown}");
        for kind in [FaultKind::Partition, FaultKind::Freeze] {
            assert!(figures.struck(kind).times >= figures.seeds, "{kind:?}: {figures}");
        }
    }
}

/// Serving fails because its last message is lost, just when calls have come.
#[test]
fn calls_that_come_before_serving_fails_are_carried_out_as_in_seed_2623() {
    simulate(2623..2624, |cluster| calls(cluster).map(drop));
}

/// By the clock of the bank the time of a call ends while its caller, whose clock differs, still waits.
#[test]
fn a_call_that_the_bank_ends_first_has_an_unknown_outcome_as_in_seed_259() {
    simulate(259..260, |cluster| calls(cluster).map(drop));
}

#[test]
fn one_seed_is_one_history_of_calls() {
    let test = "calls::what_a_caller_is_told_of_a_call_is_what_became_of_it_under_any_of_the_seeds";
    each_seed_has_one_history(test, |cluster| calls(cluster).map(drop));
}
