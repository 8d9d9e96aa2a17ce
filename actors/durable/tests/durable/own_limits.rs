//! Limits that steps set on themselves from within, by `asi.this().timeout(..)`: they are recorded as those that are
//! said behind a step.

use std::time::Duration;

use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::{Options, Recorded, Repeatable};
use asyncsteps_executor::{Cx, Next, Returns, Steps};

use crate::bank::{Bank, End, Function, deal};
use crate::lab::Nothing;
use crate::node::{Crash, Kind, run};

const LIMIT: Duration = Duration::from_millis(400);

/// A step that takes so long; only the first run of it is recorded.
macro_rules! takes {
    ($steps:expr, $name:expr, $millis:expr) => {
        $steps.run($name, async |_: &Cx<Bank, Nothing>, ()| {
            tokio::time::sleep(Duration::from_millis($millis)).await;
            Ok(())
        })
    };
}

/// It takes longer than the limit; what a run after a crash still has to do takes less.
fn slow(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    deal!(asi, "charge");
    takes!(asi, "wait", 200).recorded();
    takes!(asi, "last", 300)
        .repeatable()
        .then("end", async |_, ()| Ok(String::new()))
        .repeatable()
        .into()
}

fn whole(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    asi.this().timeout(LIMIT);
    slow(asi)
}

fn nested(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    deal!(asi, "before");
    asi.substeps("trip", |asi, ()| whole(asi)).into()
}

fn scope(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    asi.scope("trip", |asi, ()| whole(asi)).into()
}

/// The last call counts.
fn twice(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    asi.this().timeout(LIMIT * 1_000_000);
    asi.this().timeout(LIMIT);
    slow(asi)
}

/// One limit inside of another one.
fn both(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    asi.this().timeout(LIMIT * 1_000_000);
    asi.substeps("trip", |asi, ()| whole(asi)).timeout(LIMIT * 1_000_000).into()
}

fn behind_lock(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    let (lock, place) = (asi.cx().lock.clone(), asi.cx().place.clone());
    asi.this().locked(&lock).limited(&place).timeout(LIMIT);
    slow(asi)
}

/// The step fails first and goes on.
fn after_failure(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    asi.this().timeout(LIMIT);
    asi.run("fail", async |_, ()| Err::<(), _>("Refused".into()))
        .recorded()
        .recover(async |_, _| Ok(()));
    slow(asi)
}

/// Each pass has a limit of its own, and the last one takes too long.
fn passes(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    asi.repeat("loop", 0, |asi, pass: i32| {
        asi.this().timeout(LIMIT);
        deal!(asi, "charge");
        takes!(asi, "wait", 200).recorded();
        asi.run("last", async move |cx: &Cx<Bank, Nothing>, ()| {
            let is_slow = pass == 2 && cx.program != "quick";
            tokio::time::sleep(Duration::from_millis(if is_slow { 300 } else { 50 })).await;
            Ok(if pass == 2 { Next::Break(String::new()) } else { Next::Continue(pass + 1) })
        })
        .recorded()
        .into()
    })
    .recorded()
    .into()
}

const FUNCTIONS: [(&str, Function); 8] = [
    ("whole", whole),
    ("nested", nested),
    ("scope", scope),
    ("twice", twice),
    ("both", both),
    ("behind a lock", behind_lock),
    ("after a failure", after_failure),
    ("passes", passes),
];

/// The request ends by its limit with nothing kept. Whether all the crashes happened.
async fn ends_by_its_limit(name: &str, function: Function, crashes: &[Crash]) -> bool {
    let bank = Bank::new(function);
    let journal = bank.journal();
    let uid = bank.submit(&journal, Options::default()).await;
    let mut all_happened = true;
    for crash in crashes {
        let process = bank.process("", None);
        let crashed = process.crash(&journal, uid, *crash);
        let crashed = tokio::time::timeout(Duration::from_secs(300), crashed).await;
        all_happened &= matches!(crashed, Ok(None));
    }
    let what = format!("{name}, {crashes:?}");
    match bank.process("", None).replay(&journal, uid).await {
        End::Ended(Ending::Failed(_)) => {}
        other @ (End::Ended(_) | End::Paused(_)) => {
            panic!("{what}: {other:?}, {:?}", bank.entries())
        }
    }
    assert_eq!(bank.kept(), [""; 0], "{what}: {:?}", bank.entries());
    all_happened
}

#[test]
fn a_limit_of_a_step_on_itself_ends_the_request_whatever_crashes() {
    run(async {
        for (name, function) in FUNCTIONS {
            ends_by_its_limit(name, function, &[]).await;
            for kind in [Kind::BeforeStored, Kind::AfterStored] {
                let mut count = 0;
                while ends_by_its_limit(name, function, &[Crash { append: count + 1, kind }]).await
                {
                    count += 1;
                }
                assert!(count >= 5, "{name}: {count} crashes");
            }
        }
    });
}

#[test]
fn a_limit_of_a_step_on_itself_ends_the_request_whatever_crashes_twice() {
    run(async {
        for (name, function) in FUNCTIONS {
            for first in 1..=10 {
                for second in 1..=4 {
                    let [first, second] =
                        [first, second].map(|append| Crash { append, kind: Kind::AfterStored });
                    ends_by_its_limit(name, function, &[first, second]).await;
                }
            }
        }
    });
}

#[test]
fn each_pass_of_a_loop_has_a_limit_of_its_own() {
    run(async {
        let bank = Bank::new(passes).process("quick", None);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let end = bank.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Completed(_))), "{end:?}");
        assert_eq!(bank.kept().len(), 3, "{:?}", bank.entries());
    });
}

/// A pass fails, and its own handler has the loop go on.
fn recovers(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    asi.repeat("loop", 0, |asi, pass: i32| {
        asi.this().on_error(|asi, _| asi.success((Next::<i32, String>::Continue(1),)));
        deal!(asi, "charge");
        asi.run("last", async move |_: &Cx<Bank, Nothing>, ()| match pass {
            0 => Err("Refused".into()),
            _ => Ok(Next::Break(String::new())),
        })
        .recorded()
        .into()
    })
    .recorded()
    .into()
}

#[test]
fn a_loop_goes_on_after_a_pass_that_has_recovered() {
    run(async {
        for kind in [Kind::BeforeStored, Kind::AfterStored] {
            for append in 1..=20 {
                let bank = Bank::new(recovers);
                let journal = bank.journal();
                let uid = bank.submit(&journal, Options::default()).await;
                let crash = Crash { append, kind };
                bank.process("", None).crash(&journal, uid, crash).await;
                let end = bank.replay(&journal, uid).await;
                assert!(matches!(end, End::Ended(Ending::Completed(_))), "{crash:?}: {end:?}");
                assert_eq!(bank.kept(), ["order-loop#1/charge"], "{crash:?}: {:?}", bank.entries());
            }
        }
    });
}

/// A step that ends within its limit, and one behind it that takes longer than that and has no undo.
fn behind(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    asi.substeps("trip", |asi, ()| {
        deal!(asi, "charge");
        takes!(asi, "look", 1).repeatable().into()
    })
    .timeout(LIMIT);
    takes!(asi, "print", 1_000).recorded();
    asi.run("end", async |_, ()| Ok(String::new())).repeatable().into()
}

#[test]
fn a_limit_does_not_strike_what_had_ended_before_the_crash() {
    run(async {
        let bank = Bank::new(behind);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let (durable, executor) = bank.serve(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(LIMIT).await;
        drop(node);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let end = bank.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Completed(_))), "{end:?}");
        assert_eq!(bank.kept(), ["order-trip/charge"]);
    });
}
