//! Recorded steps whose bodies go on when a limit has ended them: what they do then is undone, behind that.

use std::time::Duration;

use asyncsteps_core::{BodyResult, Error, Retry};
use asyncsteps_durable::Options;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_executor::{Cx, Returns, Steps};

use crate::bank::{Bank, End, Entry, Planned, deals, undoes};
use crate::lab::Nothing;
use crate::node::{Crash, Kind, run};

/// The limit, which is shorter than the body.
const LIMIT: Duration = Duration::from_millis(100);

/// Charges behind the limit.
async fn charges(cx: &Cx<Bank, Nothing>, (): ()) -> BodyResult<()> {
    tokio::time::sleep(LIMIT * 2).await;
    deals(cx, ()).await
}

/// Fails behind the limit.
async fn declines(_: &Cx<Bank, Nothing>, (): ()) -> BodyResult<()> {
    tokio::time::sleep(LIMIT * 2).await;
    Err("Declined".into())
}

async fn ends(_: &Cx<Bank, Nothing>, (): ()) -> BodyResult<String> {
    Ok(String::new())
}

fn charged(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .nested("trip", |steps| {
            let charge = steps.run("charge", charges).shielded().recorded().undo(undoes);
            charge.locked(|cx| cx.lock.clone()).returns()
        })
        .timeout(LIMIT)
        .then("end", ends)
        .repeatable()
        .returns()
}

fn declined(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .nested("trip", |steps| {
            let before = steps.run("before", deals).recorded().undo(undoes);
            before.then("charge", declines).shielded().recorded().undo(undoes).returns()
        })
        .timeout(LIMIT)
        .then("end", ends)
        .repeatable()
        .returns()
}

/// The limit is that of the attempts of the step itself.
fn tried(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let retry = Retry::attempts(2).within(LIMIT);
    let charge = steps.run("charge", charges).shielded().retry(retry).recorded().undo(undoes);
    charge.then("end", ends).repeatable().returns()
}

/// The same with a body that fails, and an error that is recovered by its code.
fn refused(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let retry = Retry::attempts(2).within(LIMIT).on_code("Busy");
    let charge = steps.run("charge", declines).shielded().retry(retry).recorded().undo(undoes);
    charge
        .recover(async |_, error: &Error| match error.code() {
            "Timeout" => Ok(()),
            _ => Err(error.clone().into()),
        })
        .then("other", deals)
        .recorded()
        .then("wait", async |_, ()| {
            tokio::time::sleep(LIMIT * 4).await;
            Ok(())
        })
        .recorded()
        .then("end", ends)
        .repeatable()
        .returns()
}

/// It goes on with another result.
fn recovered(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .nested("trip", |steps| {
            steps.run("charge", charges).shielded().recorded().undo(undoes).returns()
        })
        .timeout(LIMIT)
        .recover(async |_, error: &Error| {
            assert_eq!(error.code(), "Timeout");
            Ok(())
        })
        .then("other", deals)
        .recorded()
        .then("end", ends)
        .repeatable()
        .returns()
}

const FUNCTIONS: [(&str, Planned); 5] = [
    ("charged", charged),
    ("declined", declined),
    ("tried", tried),
    ("refused", refused),
    ("recovered", recovered),
];

fn check(what: &str, name: &str, bank: &Bank, end: &End) {
    let entries = bank.entries();
    let (kept, is_well) = match end {
        End::Ended(Ending::Completed(_)) => {
            (vec!["order-other"], name == "recovered" || name == "refused")
        }
        End::Ended(Ending::Failed(_)) => (vec![], !["recovered", "refused"].contains(&name)),
        End::Ended(_) | End::Paused(_) => (vec![], false),
    };
    assert!(is_well, "{what}: {end:?}, {entries:?}");
    assert_eq!(bank.kept(), kept, "{what}: {entries:?}");
}

#[test]
fn what_a_shielded_body_does_behind_its_limit_is_undone() {
    run(async {
        for (name, function) in FUNCTIONS {
            let bank = Bank::new(function);
            let journal = bank.journal();
            let uid = bank.submit(&journal, Options::default()).await;
            let end = bank.replay(&journal, uid).await;
            check(name, name, &bank, &end);
            let entry = |name: &str, is_undo| Entry { name: format!("order-{name}"), is_undo };
            let expected = match name {
                "charged" => vec![entry("trip/charge", false), entry("trip/charge", true)],
                "tried" => vec![entry("charge", false), entry("charge", true)],
                "refused" => vec![entry("other", false)],
                "declined" => vec![entry("trip/before", false), entry("trip/before", true)],
                _ => vec![
                    entry("trip/charge", false),
                    entry("trip/charge", true),
                    entry("other", false),
                ],
            };
            assert_eq!(bank.entries(), expected, "{name}");
        }
    });
}

#[test]
fn it_is_undone_after_a_crash_at_each_record() {
    run(async {
        for (name, function) in FUNCTIONS {
            for kind in [Kind::BeforeStored, Kind::AfterStored] {
                let mut crashes = 0;
                for append in 1..20 {
                    let bank = Bank::new(function);
                    let journal = bank.journal();
                    let uid = bank.submit(&journal, Options::default()).await;
                    let crash = Crash { append, kind };
                    if bank.process("", None).crash(&journal, uid, crash).await.is_some() {
                        break;
                    }
                    crashes += 1;
                    let end = bank.process("", None).replay(&journal, uid).await;
                    check(&format!("{name}, {crash:?}"), name, &bank, &end);
                }
                assert!(crashes > 2, "{name}: {crashes} crashes");
            }
        }
    });
}
