//! A step with a lock, a limiter or attempts fails at its end: what is inside is undone, whether or not it has waited.

use std::time::Duration;

use asyncsteps_core::Retry;
use asyncsteps_durable::Options;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_executor::{Returns, Steps};

use crate::bank::{Bank, End, Planned, deals, hold, undoes};
use crate::lab::{Nothing, soon};
use crate::node::{Crash, Kind, run};

fn trip(steps: &Steps<Bank, Nothing>) -> Returns<String> {
    steps
        .join("reserve", |all| {
            let hotel = all
                .nested("hotel", |steps| {
                    let room = steps.run("room", deals).recorded().undo(undoes);
                    room.then("mail", async |_, ()| Ok(())).recorded().returns()
                })
                .limited(|cx| cx.place.clone());
            (hotel, all.run("car", deals).recorded().undo(undoes))
        })
        .then("charge", deals)
        .recorded()
        .undo(undoes)
        .then("confirm", async |_, _| {
            soon().await;
            Err::<String, _>("Refused".into())
        })
        .repeatable()
        .returns()
}

fn locked(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps.nested("trip", trip).locked(|cx| cx.lock.clone()).returns()
}

fn limited(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps.nested("trip", trip).limited(|cx| cx.lock.clone()).returns()
}

fn both(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let inner = |steps: &Steps<Bank, Nothing>| {
        steps.nested("inner", trip_without_place).locked(|cx| cx.place.clone()).returns()
    };
    steps.nested("trip", inner).locked(|cx| cx.lock.clone()).returns()
}

fn trip_without_place(steps: &Steps<Bank, Nothing>) -> Returns<String> {
    steps
        .run("charge", deals)
        .recorded()
        .undo(undoes)
        .then("confirm", async |_, ()| Err::<String, _>("Refused".into()))
        .repeatable()
        .returns()
}

fn tried_again(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let trip = steps.nested("trip", trip).locked(|cx| cx.lock.clone());
    trip.retry(Retry::attempts(3).on_code("Refused")).returns()
}

fn tried_again_limited(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let trip = steps.nested("trip", trip).limited(|cx| cx.lock.clone());
    trip.retry(Retry::attempts(3).on_code("Refused")).returns()
}

fn branch(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .join("both", |all| {
            let trip = all.nested("trip", trip).locked(|cx| cx.lock.clone());
            (trip, all.run("other", deals).recorded().undo(undoes))
        })
        .then("end", async |_, _| Ok("ended".to_owned()))
        .recorded()
        .returns()
}

const FUNCTIONS: [(&str, Planned); 6] = [
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
