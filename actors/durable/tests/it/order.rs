//! A durable order, with a crash at every record and at every pair of records: the world outside adds up.

use std::time::Duration;

use asyncsteps_durable::Options;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_journal::record::Ending;
use serde_json::json;

use crate::node::{Crash, Kind, Until, run, run_until};
use crate::shop::{self, World, durable};

/// Runs an order whose nodes crash one after the other, and then one that does not. Gives how it ended,
/// and whether all crashes happened.
async fn order(world: &World, fails_at: &str, crashes: &[Crash]) -> (Ending, bool) {
    let journal = world.journal();
    let submitted = durable(journal.clone(), world);
    let params = json!({ "fails_at": fails_at });
    let options = Options::default().caller(User::new("ann", SecurityLevel::SafeOps));
    let uid = submitted.0.submit(shop::ORDER, params, options).await.expect("the journal takes it");
    for crash in crashes {
        match run_until(&journal, |journal| durable(journal, world), uid, Some(*crash)).await {
            Until::Crashed => {}
            Until::Ended(ending) => return (ending, false),
        }
    }
    match run_until(&journal, |journal| durable(journal, world), uid, None).await {
        Until::Ended(ending) => (ending, true),
        Until::Crashed => unreachable!("nothing crashes it"),
    }
}

/// Each crash that can happen in an order that fails there: until a run has fewer records.
async fn each_crash(fails_at: &str, first: &[Crash]) -> usize {
    let mut count = 0;
    for kind in [Kind::BeforeStored, Kind::AfterStored] {
        for append in 1.. {
            let world = World::new();
            let crashes: Vec<Crash> =
                first.iter().copied().chain([Crash { append, kind }]).collect();
            let limit = Duration::from_secs(10_000);
            let order = tokio::time::timeout(limit, order(&world, fails_at, &crashes)).await;
            let (ending, all) = order.unwrap_or_else(|_| panic!("{fails_at}: {crashes:?} hangs"));
            world.check(&ending, fails_at, &format!("{crashes:?}"));
            if !all {
                break;
            }
            count += 1;
        }
    }
    count
}

#[test]
fn an_order_without_a_crash() {
    run(async move {
        for fails_at in shop::FAILURES {
            let world = World::new();
            let (ending, _) = order(&world, fails_at, &[]).await;
            world.check(&ending, fails_at, "no crash");
        }
    });
}

#[test]
fn a_crash_at_each_record() {
    run(async move {
        for fails_at in shop::FAILURES {
            let crashes = each_crash(fails_at, &[]).await;
            assert!(crashes >= 10, "{crashes} crashes of {fails_at}");
        }
    });
}

#[test]
fn a_crash_at_each_pair_of_records() {
    // the long run of the tests takes all of them
    let step = if std::env::var_os("LONG_TESTS").is_some() { 1 } else { 10 };
    run(async move {
        for fails_at in shop::FAILURES {
            for kind in [Kind::BeforeStored, Kind::AfterStored] {
                for append in (1..).step_by(step) {
                    if each_crash(fails_at, &[Crash { append, kind }]).await == 0 {
                        break;
                    }
                }
            }
        }
    });
}
