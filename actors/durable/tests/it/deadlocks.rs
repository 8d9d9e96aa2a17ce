//! Deadlocks within a time limit that does not end the request, because a step inside has committed it.

use std::time::Duration;

use asyncsteps_durable::Options;
use asyncsteps_durable::journal::Clock;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_executor::{Cx, Returns, Steps};

use crate::bank::{Bank, End, Planned, deals, hold, undoes};
use crate::lab::Nothing;
use crate::node::{Crash, Kind, run};
use asyncsteps_journal::TokioClock;

const LIMIT: Duration = Duration::from_millis(300);

/// A branch waits for the lock that its own request holds, and begins to wait after this number of milliseconds. Another
/// branch commits the request.
fn stuck(steps: &Steps<Bank, Nothing>, after: u64) -> Returns<String> {
    steps
        .join("both", |all| {
            let look = all.run("look", async move |_, ()| {
                tokio::time::sleep(Duration::from_millis(after)).await;
                Ok(())
            });
            let take = look.repeatable().then("take", async |_, ()| Ok(()));
            let charge = all.run("charge", deals).recorded().undo(undoes);
            (take.recorded().locked(|cx| cx.lock.clone()), charge.commits())
        })
        .locked(|cx| cx.lock.clone())
        .then("end", async |_, _| Ok("ended".to_owned()))
        .recorded()
        .returns()
}

fn of_request(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    stuck(steps.timeout(LIMIT), 0)
}

fn of_step(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps.nested("trip", |steps| stuck(steps, 0)).timeout(LIMIT).returns()
}

fn after_the_commit(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    stuck(steps.timeout(LIMIT), 100)
}

fn after_the_limit(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    stuck(steps.timeout(LIMIT), 500)
}

const FUNCTIONS: [(&str, Planned); 4] = [
    ("of the request", of_request),
    ("of a step", of_step),
    ("after the commit", after_the_commit),
    ("after the limit", after_the_limit),
];

/// The wait fails, and all is undone. Whether the crash came.
async fn fails(name: &str, function: Planned, crash: Option<Crash>) -> bool {
    let bank = Bank::new(function);
    let journal = bank.journal();
    let uid = bank.submit(&journal, Options::default()).await;
    let has_crashed = match crash {
        Some(crash) => bank.process("", None).crash(&journal, uid, crash).await.is_none(),
        None => false,
    };
    let end = bank.process("", None).replay(&journal, uid).await;
    let code = match &end {
        End::Ended(Ending::Failed(failure)) => &*failure.code,
        End::Ended(_) | End::Paused(_) => panic!("{name}, {crash:?}: {end:?}"),
    };
    // after a crash before the commit the limit has passed
    let is_right = code == "InternalError" || crash.is_some() && code == "Timeout";
    assert!(is_right, "{name}, {crash:?}: {end:?}");
    assert_eq!(bank.kept(), [""; 0], "{name}, {crash:?}: {:?}", bank.entries());
    has_crashed
}

#[test]
fn a_wait_that_closes_a_cycle_fails_where_its_limit_is_held_off_by_a_commit() {
    run(async {
        for (name, function) in FUNCTIONS {
            fails(name, function, None).await;
        }
    });
}

#[test]
fn it_fails_after_a_crash_at_each_record() {
    run(async {
        for (name, function) in FUNCTIONS {
            for kind in [Kind::BeforeStored, Kind::AfterStored] {
                for append in 1.. {
                    if !fails(name, function, Some(Crash { append, kind })).await {
                        break;
                    }
                }
            }
        }
    });
}

/// A branch comes to its charge later than another one waits for the same lock.
fn behind_another_branch(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .join("both", |all| {
            let look = async |cx: &Cx<Bank, Nothing>, is_slow: bool| {
                let first = if is_slow { 100_000_000 } else { 1 };
                let time = if cx.program == "first" { first } else { 20 - 15 * u64::from(is_slow) };
                tokio::time::sleep(Duration::from_millis(time)).await;
                Ok(())
            };
            let charge = all
                .run("look", async move |cx, ()| look(cx, false).await)
                .repeatable()
                .then("charge", deals)
                .recorded()
                .locked(|cx| cx.lock.clone())
                .undo(undoes);
            let other = all
                .run("wait", async move |cx, ()| look(cx, true).await)
                .repeatable()
                .then("note", async |_, ()| Ok(()))
                .recorded()
                .locked(|cx| cx.lock.clone())
                .then("end", async |_, ()| Ok(()))
                .repeatable();
            (charge, other)
        })
        .then("end", async |_, _| Ok("ended".to_owned()))
        .recorded()
        .returns()
}

#[test]
fn a_step_that_gets_its_lock_after_a_cancel_does_not_keep_it_from_what_was_begun() {
    run(async {
        for limit in [None, Some(61_000)] {
            let bank = Bank::new(behind_another_branch);
            let journal = bank.journal();
            let deadline = limit.map(|limit| Duration::from_millis(limit + 30));
            let options = deadline.into_iter().fold(Options::default(), |options, deadline| {
                options.deadline(TokioClock::start().now().after(deadline))
            });
            let uid = bank.submit(&journal, options).await;
            let crash = Crash { append: 1, kind: Kind::AfterStored };
            let first = bank.process("first", None);
            assert!(first.crash(&journal, uid, crash).await.is_none());
            let next = bank.process("", None);
            hold(&next.lock, Duration::from_secs(3));
            let (durable, _) = next.serve(journal.clone());
            actix::spawn(async move {
                tokio::time::sleep(Duration::from_millis(1_500)).await;
                durable.cancel(uid, "the test").await.expect("it is known");
            });
            match next.replay(&journal, uid).await {
                End::Ended(Ending::Cancelled | Ending::Failed(_)) => {}
                other @ (End::Ended(_) | End::Paused(_)) => panic!("{other:?}"),
            }
            assert_eq!(bank.kept(), [""; 0], "{:?}", bank.entries());
        }
    });
}
