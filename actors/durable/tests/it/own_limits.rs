//! Limits that are said of steps as a whole, by `steps.timeout(..)`: they are recorded as limits that are said behind a
//! step.

use std::ops::ControlFlow;
use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::Options;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_executor::{Returns, Step, Steps};

use crate::bank::{Bank, End, Planned, deals, undoes};
use crate::lab::Nothing;
use crate::node::{Crash, Kind, run};

const LIMIT: Duration = Duration::from_millis(400);

/// The body of a step that takes so long.
async fn takes(millis: u64) -> BodyResult<()> {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    Ok(())
}

/// It takes longer than the limit; what a run after a crash still has to do takes less.
fn slow(steps: &Steps<Bank, Nothing>) -> Returns<String> {
    behind(steps.run("charge", deals).recorded().undo(undoes))
}

/// What is behind the charge.
fn behind(charge: Step<Bank, Nothing, (), (), ()>) -> Returns<String> {
    charge
        .then("wait", async |_, ()| takes(200).await)
        .recorded()
        .then("last", async |_, ()| takes(300).await)
        .repeatable()
        .then("end", async |_, ()| Ok(String::new()))
        .repeatable()
        .returns()
}

fn limited(steps: &Steps<Bank, Nothing>) -> Returns<String> {
    slow(steps.timeout(LIMIT))
}

fn whole(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    limited(steps)
}

fn nested(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let before = steps.run("before", deals).recorded().undo(undoes);
    before.then_nested("trip", limited).returns()
}

fn scope(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps.scope("trip", limited).returns()
}

/// The last call counts.
fn twice(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    slow(steps.timeout(LIMIT * 1_000_000).timeout(LIMIT))
}

/// One limit inside of another one.
fn both(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let steps = steps.timeout(LIMIT * 1_000_000);
    steps.nested("trip", limited).timeout(LIMIT * 1_000_000).returns()
}

fn behind_lock(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    slow(steps.locked(|cx| cx.lock.clone()).limited(|cx| cx.place.clone()).timeout(LIMIT))
}

/// The step fails first and goes on.
fn after_failure(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let fails = steps.timeout(LIMIT).run("fail", async |_, ()| Err::<(), _>("Refused".into()));
    let recovered = fails.recorded().recover(async |_, _| Ok(()));
    behind(recovered.then("charge", deals).recorded().undo(undoes))
}

/// Each pass has a limit of its own, and the last one takes too long.
fn passes(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .run("begin", async |_, ()| Ok(0))
        .repeatable()
        .then_repeat("loop", |steps| {
            steps
                .timeout(LIMIT)
                .run("charge", deals)
                .recorded()
                .undo(undoes)
                .then("wait", async |_, pass| takes(200).await.map(|()| pass))
                .recorded()
                .then("last", async |cx, pass| {
                    let is_slow = pass == 2 && cx.program != "quick";
                    takes(if is_slow { 300 } else { 50 }).await.map(|()| pass)
                })
                .recorded()
                .then("next", async |_, pass| {
                    Ok(match pass {
                        2 => ControlFlow::Break(String::new()),
                        _ => ControlFlow::Continue(pass + 1),
                    })
                })
                .repeatable()
                .returns()
        })
        .recorded_with_input()
        .returns()
}

const FUNCTIONS: [(&str, Planned); 8] = [
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
async fn ends_by_its_limit(name: &str, function: Planned, crashes: &[Crash]) -> bool {
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
fn recovers(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .run("begin", async |_, ()| Ok(0))
        .repeatable()
        .then_repeat("loop", |steps| {
            steps
                .run("charge", deals)
                .recorded()
                .undo(undoes)
                .then("last", async |_, pass| match pass {
                    0 => Err("Refused".into()),
                    _ => Ok(String::new()),
                })
                .recorded()
                .then("next", async |_, result| Ok(ControlFlow::Break(result)))
                .repeatable()
                .as_one()
                .recover(async |_, _| Ok(ControlFlow::Continue(1)))
                .returns()
        })
        .recorded_with_input()
        .returns()
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
fn ended(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .nested("trip", |steps| {
            let charge = steps.run("charge", deals).recorded().undo(undoes);
            charge.then("look", async |_, ()| takes(1).await).repeatable().returns()
        })
        .timeout(LIMIT)
        .then("print", async |_, ()| takes(1_000).await)
        .recorded()
        .then("end", async |_, ()| Ok(String::new()))
        .repeatable()
        .returns()
}

#[test]
fn a_limit_does_not_strike_what_had_ended_before_the_crash() {
    run(async {
        let bank = Bank::new(ended);
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
