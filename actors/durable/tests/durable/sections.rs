//! A step with a lock, a limiter or attempts fails at its end: what is inside is undone, whether or not it has waited.

use std::time::Duration;

use asyncsteps_core::Retry;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::{Options, Recorded, Repeatable};
use asyncsteps_executor::{Cx, Returns, Steps};

use crate::bank::{Bank, End, Function, deal, hold};
use crate::lab::{Nothing, soon};
use crate::node::{Crash, Kind, run};

fn trip(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    let place = asi.cx().place.clone();
    asi.parallel("reserve", move |branches| {
        branches
            .substeps("hotel", |asi, ()| {
                deal!(asi, "room");
                asi.run("mail", async |_, ()| Ok(())).recorded().into()
            })
            .limited(&place);
        deal!(branches, "car");
    });
    deal!(asi, "charge");
    asi.run("confirm", async |_: &Cx<Bank, Nothing>, ()| {
        soon().await;
        Err::<String, _>("Refused".into())
    })
    .repeatable()
    .into()
}

fn locked(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    let lock = asi.cx().lock.clone();
    asi.substeps("trip", |asi, ()| trip(asi)).locked(&lock).into()
}

fn limited(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    let lock = asi.cx().lock.clone();
    asi.substeps("trip", |asi, ()| trip(asi)).limited(&lock).into()
}

fn both(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    let lock = asi.cx().lock.clone();
    asi.substeps("trip", |asi, ()| {
        let lock = asi.cx().place.clone();
        asi.substeps("inner", |asi, ()| trip_without_place(asi)).locked(&lock).into()
    })
    .locked(&lock)
    .into()
}

fn trip_without_place(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    deal!(asi, "charge");
    asi.run("confirm", async |_: &Cx<Bank, Nothing>, ()| Err::<String, _>("Refused".into()))
        .repeatable()
        .into()
}

fn tried_again(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    let (lock, retry) = (asi.cx().lock.clone(), Retry::attempts(3).on_code("Refused"));
    asi.substeps("trip", |asi, ()| trip(asi)).locked(&lock).retry(retry).into()
}

fn tried_again_limited(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    let (lock, retry) = (asi.cx().lock.clone(), Retry::attempts(3).on_code("Refused"));
    asi.substeps("trip", |asi, ()| trip(asi)).limited(&lock).retry(retry).into()
}

fn branch(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    asi.parallel("both", |branches| {
        let lock = branches.cx().lock.clone();
        branches.substeps("trip", |asi, ()| trip(asi)).locked(&lock);
        deal!(branches, "other");
    });
    asi.run("end", async |_, ()| Ok("ended".to_owned())).recorded().into()
}

const FUNCTIONS: [(&str, Function); 6] = [
    ("locked", locked),
    ("limited", limited),
    ("both", both),
    ("tried again", tried_again),
    ("tried again, limited", tried_again_limited),
    ("branch", branch),
];

/// The request fails with nothing kept, whether or not it waits for `lock` and `place`.
async fn fails(name: &str, bank: &Bank, waits: bool, crash: Option<Crash>) -> bool {
    let journal = bank.journal();
    let uid = bank.submit(&journal, Options::default()).await;
    let wait = |bank: &Bank| {
        for lock in [&bank.lock, &bank.place].into_iter().filter(|_| waits) {
            hold(lock, Duration::from_millis(50));
        }
    };
    let mut process = bank.process("", None);
    wait(&process);
    let mut has_crashed = false;
    if let Some(crash) = crash {
        has_crashed = process.crash(&journal, uid, crash).await.is_none();
        process = bank.process("", None);
        wait(&process);
    }
    let what = format!("{name}, waits: {waits}, {crash:?}");
    match process.replay(&journal, uid).await {
        End::Ended(Ending::Failed(_)) => {}
        other @ (End::Ended(_) | End::Paused(_)) => {
            panic!("{what}: {other:?}, {:?}", bank.entries())
        }
    }
    assert_eq!(bank.kept(), [""; 0], "{what}: {:?}", bank.entries());
    assert!(bank.entries().iter().any(|entry| entry.is_undo), "{what}");
    has_crashed
}

#[test]
fn what_is_inside_is_undone_whether_or_not_the_step_has_waited_for_its_lock() {
    run(async {
        for (name, function) in FUNCTIONS {
            for waits in [false, true] {
                fails(name, &Bank::new(function), waits, None).await;
            }
        }
    });
}

#[test]
fn a_step_that_waits_for_its_lock_is_undone_after_a_crash_at_each_record() {
    run(async {
        for (name, function) in FUNCTIONS {
            for kind in [Kind::BeforeStored, Kind::AfterStored] {
                for append in 1.. {
                    let crash = Some(Crash { append, kind });
                    if !fails(name, &Bank::new(function), true, crash).await {
                        break;
                    }
                }
            }
        }
    });
}
