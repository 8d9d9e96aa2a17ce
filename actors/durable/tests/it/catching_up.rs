//! A request whose replay has not come to what was begun does not end: what is begun is done or undone.

use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::journal::Uid;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::{Cx, Returns, Steps};

use crate::bank::{Bank, End, Planned, deals, hold, stays, undoes};
use crate::lab::Nothing;
use crate::node::{Crash, Kind, run};

const LIMIT: Duration = Duration::from_millis(400);

/// A crash at each record, then `replay` ends the request; what it has begun is undone.
async fn undone_after_each_crash(function: Planned, replay: impl AsyncFn(&Bank, &Durable, Uid)) {
    let (mut crashes, mut undone) = (0, 0);
    for append in 1.. {
        let bank = Bank::new(function);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let crash = Crash { append, kind: Kind::AfterStored };
        let before =
            tokio::time::timeout(Duration::from_secs(1_000), bank.crash(&journal, uid, crash));
        if !matches!(before.await, Ok(None)) {
            break;
        }
        crashes += 1;
        tokio::time::sleep(Duration::from_secs(100)).await;
        let next = bank.process("", None);
        let (durable, _) = next.serve(journal.clone());
        replay(&next, &durable, uid).await;
        let end = next.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Failed(_) | Ending::Cancelled)), "{end:?}");
        assert_eq!(bank.kept(), [""; 0], "{crash:?}: {end:?}: {:?}", bank.entries());
        undone += usize::from(!bank.entries().is_empty());
    }
    assert!(crashes >= 2 && undone >= 1, "{crashes} crashes, {undone} undone");
}

/// The charge is in a section of a lock.
fn in_section(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .nested("buy", |buy| {
            buy.nested("section", |section| {
                let charge = section.run("charge", deals).recorded().undo(undoes);
                charge.then("wait", stays).recorded().returns()
            })
            .locked(|cx| cx.lock.clone())
            .returns()
        })
        .timeout(LIMIT)
        .then("end", async |_, ()| Ok(String::new()))
        .recorded()
        .returns()
}

#[test]
fn a_limit_waits_for_a_lock_around_what_was_begun() {
    run(undone_after_each_crash(in_section, async |bank, _, _| {
        hold(&bank.lock, Duration::from_millis(300));
    }));
}

#[test]
fn a_cancel_waits_for_a_lock_around_what_was_begun() {
    run(undone_after_each_crash(in_section, async |bank, durable, uid| {
        hold(&bank.lock, Duration::from_millis(300));
        durable.cancel(uid, "the test").await.expect("it is open");
    }));
}

/// The charge itself waits for a place, and does not end.
fn with_place(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .nested("buy", |buy| {
            buy.run("charge", charges)
                .recorded()
                .limited(|cx| cx.place.clone())
                .undo(undoes)
                .then("more", async |_, ()| Ok(()))
                .recorded()
                .returns()
        })
        .timeout(LIMIT)
        .then("end", async |_, ()| Ok(String::new()))
        .recorded()
        .returns()
}

/// The body of a charge that does not end.
async fn charges(cx: &Cx<Bank, Nothing>, (): ()) -> BodyResult<()> {
    cx.deal(cx.key());
    stays(cx, ()).await
}

#[test]
fn a_limit_undoes_a_step_that_waits_for_its_place_again() {
    run(async {
        let bank = Bank::new(with_place);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let crash = Crash { append: 3, kind: Kind::BeforeStored };
        let first =
            tokio::time::timeout(Duration::from_millis(300), bank.crash(&journal, uid, crash));
        first.await.expect_err("the charge does not end");
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(bank.kept(), ["order-buy/charge"]);
        let next = bank.process("", None);
        hold(&next.place, Duration::from_secs(10));
        let end = next.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Failed(_))), "{end:?}");
        assert_eq!(bank.kept(), [""; 0], "{:?}", bank.entries());
    });
}

#[test]
fn a_lock_whose_queue_is_full_is_tried_again_less_and_less_often() {
    run(async {
        let bank = Bank::new(in_section);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let crash = Crash { append: 2, kind: Kind::AfterStored };
        assert_eq!(bank.crash(&journal, uid, crash).await, None);
        assert_eq!(bank.kept(), ["order-buy/section/charge"]);
        let next = bank.process("", Some(0));
        hold(&next.lock, Duration::from_secs(1_000));
        let (durable, executor) = next.serve(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(990)).await;
        let flow = durable.status(uid).await.expect("it is known").flow;
        assert!(flow.epoch.get() < 50, "it was claimed again and again: {flow:?}");
        let reason = flow.reason.clone().unwrap_or_else(|| panic!("no reason: {flow:?}"));
        assert!(reason.contains("buy") && reason.contains("Mutex queue limit"), "{reason}");
        assert!(flow.due.is_some());
        let records = durable.records(uid).await.expect("it is known").len();
        assert!(records < 12, "{records} records");
        node.stop().await;
        let end = next.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Failed(_))), "{end:?}");
        assert_eq!(bank.kept(), [""; 0], "{:?}", bank.entries());
        let flow = durable.status(uid).await.expect("it is known").flow;
        assert_eq!(flow.reason, None);
    });
}

/// A look-up that is repeated is in front of the charge.
fn behind_look(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .nested("buy", |buy| {
            buy.run("look", async |_, ()| {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok(())
            })
            .repeatable()
            .then("charge", deals)
            .recorded()
            .undo(undoes)
            .then("wait", stays)
            .recorded()
            .returns()
        })
        .timeout(LIMIT)
        .then("end", async |_, ()| Ok(String::new()))
        .recorded()
        .returns()
}

#[test]
fn a_limit_waits_for_a_look_up_in_front_of_what_was_begun() {
    run(undone_after_each_crash(behind_look, async |_, _, _| {}));
}

/// The charge itself is locked, and nothing limits it.
fn locked(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .run("charge", charges)
        .recorded()
        .locked(|cx| cx.lock.clone())
        .undo(async |cx, _| {
            assert_eq!(cx.lock.load().holders, 1, "it is undone without its lock");
            assert!(
                cx.lock.try_lock().is_some(),
                "it is undone while another request has its lock"
            );
            cx.undo(cx.key());
            Ok(())
        })
        .then("end", async |_, ()| Ok(String::new()))
        .recorded()
        .returns()
}

#[test]
fn a_cancel_undoes_a_step_that_waits_for_its_lock_again() {
    run(async {
        let bank = Bank::new(locked);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let crash = Crash { append: 3, kind: Kind::BeforeStored };
        let first =
            tokio::time::timeout(Duration::from_millis(300), bank.crash(&journal, uid, crash));
        first.await.expect_err("the charge does not end");
        tokio::time::sleep(Duration::from_secs(100)).await;
        let next = bank.process("", None);
        hold(&next.lock, Duration::from_secs(10));
        let (durable, _) = next.serve(journal.clone());
        actix::spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            durable.cancel(uid, "the test").await.expect("it is open");
        });
        let end = next.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Cancelled)), "{end:?}");
        assert_eq!(bank.kept(), [""; 0], "{:?}", bank.entries());
    });
}
