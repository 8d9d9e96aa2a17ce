//! A crash at each record and at each pair of records of an order with a limit, a lock, a limiter, branches, attempts
//! and undo; then something ends the replay. The books of the bank say whether all that was begun is done or undone.

use std::time::Duration;

use asyncsteps_core::{BodyResult, Error, Retry};
use asyncsteps_durable::Options;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::journal::request::Resume;
use asyncsteps_executor::{Cx, Either, Returns, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::{Clock, TokioClock, Uid};

use crate::bank::{Bank, End, Entry, deals, hold, stays, undoes};
use crate::lab::{Nothing, soon};
use crate::node::{Crash, Kind, run};

/// What ends the replay; each is a program of the order as well.
const WAYS: [&str; 12] = [
    "nothing",
    "limit",
    "limit of the step on itself",
    "limit behind a lock",
    "deadline",
    "cancel",
    "cancel later",
    "a branch fails",
    "drain",
    "the look-up fails",
    "a full queue",
    "panic",
];

const RESERVE: &str = "order-buy/reserve";
const ROOM: &str = "order-buy/both/hotel/room";
const CAR: &str = "order-buy/both/car";
const CHARGE: &str = "order-buy/pay/charge";

fn order(steps: &Steps<Bank, Nothing>, bank: &Bank) -> Returns<String> {
    steps
        .run("look", async |cx, ()| {
            soon().await;
            if cx.program == "the look-up fails" { Err("NoLook".into()) } else { Ok(()) }
        })
        .repeatable()
        .then("way", async |_, ()| Ok(Either::<(), ()>::A(())))
        .recorded()
        .either(
            "buy",
            |buy| {
                buy.run("reserve", deals)
                    .recorded()
                    .undo(undoes)
                    .then_join("both", |all| {
                        let hotel = all.nested("hotel", hotel).locked(|cx| cx.lock.clone());
                        let car = all.run("car", deals).recorded().undo(undoes);
                        (hotel, car.then("insure", insures).recorded())
                    })
                    .then_nested("pay", |steps| pay(steps, bank))
                    .timeout(Duration::from_millis(400))
                    .returns()
            },
            |nothing| nothing.run("note", async |_, ()| Ok(())).recorded().returns(),
        )
        .then("confirm", async |_, ()| Ok("confirmed".to_owned()))
        .recorded()
        .returns()
}

async fn insures(cx: &Cx<Bank, Nothing>, (): ()) -> BodyResult<()> {
    soon().await;
    if cx.program == "a branch fails" { Err("NoInsurance".into()) } else { Ok(()) }
}

fn hotel(steps: &Steps<Bank, Nothing>) -> Returns<()> {
    let retry = Retry::attempts(3).backoff(Duration::from_millis(20)).on_code("TryAgain");
    steps
        .run("room", async |cx, ()| {
            soon().await;
            cx.deal(cx.key());
            if cx.attempt() < 2 { Err(Error::new("TryAgain").into()) } else { Ok(()) }
        })
        .retry(retry)
        .limited(|cx| cx.place.clone())
        .recorded()
        .undo(undoes)
        .then("mail", async |_, ()| Ok(()))
        .recorded()
        .returns()
}

fn pay(steps: &Steps<Bank, Nothing, ((), ())>, bank: &Bank) -> Returns<()> {
    if bank.program == "limit of the step on itself" {
        steps.timeout(Duration::from_millis(200));
    }
    steps
        .run("rate", async |cx, _| {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_ne!(cx.program, "panic", "the test asked for it");
            Ok(())
        })
        .repeatable()
        .then("charge", deals)
        .recorded()
        .undo(undoes)
        .limited(|cx| cx.place.clone())
        .then("slip", async |cx, ()| {
            if cx.program.starts_with("limit") {
                return stays(cx, ()).await;
            }
            soon().await;
            Ok(())
        })
        .recorded()
        .returns()
}

/// Prepares a process in which the replay ends in this way.
async fn prepare(way: &'static str, bank: &Bank, (journal, uid): (&Memory, Uid)) -> Bank {
    let max_queue = (way == "a full queue").then_some(0);
    let next = bank.process(way, max_queue);
    let (durable, executor) = next.serve(journal.clone());
    match way {
        "limit behind a lock" => hold(&next.lock, Duration::from_millis(300)),
        "a full queue" => hold(&next.lock, Duration::from_secs(5)),
        // it may have ended before
        "cancel" => _ = durable.cancel(uid, "the test").await.expect("it is known"),
        "cancel later" => {
            actix::spawn(async move {
                tokio::time::sleep(Duration::from_millis(12)).await;
                durable.cancel(uid, "the test").await.expect("it is known");
            });
        }
        "drain" => {
            let node = durable.start(&executor).await.expect("the journal gives a lease");
            tokio::time::sleep(Duration::from_millis(15)).await;
            node.stop().await;
        }
        _ => {}
    }
    next
}

/// Runs the order with these crashes, the first one of a process without a fault. Whether all of them happened.
async fn order_with(way: &'static str, crashes: &[Crash]) -> bool {
    let bank = Bank::new(order);
    let case = format!("{way}: {crashes:?}");
    let journal = bank.journal();
    let deadline =
        (way == "deadline").then(|| TokioClock::start().now().after(Duration::from_secs(30)));
    let options = deadline.into_iter().fold(Options::default(), Options::deadline);
    let uid = bank.submit(&journal, options).await;
    let (mut next, mut all_happened) = (bank.clone(), true);
    for (number, crash) in crashes.iter().enumerate() {
        if number > 0 {
            next = prepare(way, &bank, (&journal, uid)).await;
        }
        // one that waits for an operator does not crash
        let crashed = next.crash(&journal, uid, *crash);
        let crashed = tokio::time::timeout(Duration::from_secs(300), crashed).await;
        all_happened &= matches!(crashed, Ok(None));
    }
    next = prepare(way, &bank, (&journal, uid)).await;
    let mut end = next.replay(&journal, uid).await;
    if let End::Paused(reason) = &end {
        assert!(reason.contains("test.bank:1:order"), "{case}: {reason}");
        let (durable, _) = bank.serve(journal.clone());
        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        end = bank.process("nothing", None).replay(&journal, uid).await;
    }
    check(&bank, &end, &case);
    all_happened
}

/// The books add up, and what was undone was undone in the order in which that is without a crash.
fn check(bank: &Bank, end: &End, case: &str) {
    let (kept, entries) = (bank.kept(), bank.entries());
    match end {
        End::Ended(Ending::Completed(_)) if entries.is_empty() => {}
        End::Ended(Ending::Completed(_)) => {
            assert_eq!(kept, [CAR, ROOM, CHARGE, RESERVE], "{case}: {entries:?}");
        }
        End::Ended(_) => assert_eq!(kept, [""; 0], "{case}: {end:?}, {entries:?}"),
        End::Paused(reason) => panic!("{case}: {reason}, {entries:?}"),
    }
    let undone = |name: &str| entries.iter().position(|entry| entry.is_undo && entry.name == name);
    for (later, earlier) in
        [(CHARGE, ROOM), (CHARGE, CAR), (CHARGE, RESERVE), (ROOM, RESERVE), (CAR, RESERVE)]
    {
        if let (Some(later), Some(earlier)) = (undone(later), undone(earlier)) {
            assert!(later < earlier, "{case}: {entries:?}");
        }
    }
    let is_after = |entry: &Entry, undo: usize| entries[undo..].iter().any(|it| it == entry);
    for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.is_undo) {
        let done = Entry { is_undo: false, ..entry.clone() };
        assert!(!is_after(&done, at), "{case}: done after it was undone, {entries:?}");
    }
}

fn crashes_at(append: usize) -> [Crash; 2] {
    [Kind::BeforeStored, Kind::AfterStored].map(|kind| Crash { append, kind })
}

#[test]
fn an_order_that_nothing_crashes_ends_in_each_way() {
    run(async {
        for way in WAYS {
            order_with(way, &[]).await;
        }
    });
}

#[test]
fn what_is_begun_is_done_or_undone_after_a_crash_at_each_record() {
    run(async {
        for way in WAYS {
            let mut count = 0;
            for append in 1.. {
                let mut is_over = true;
                for crash in crashes_at(append) {
                    let has_crashed = order_with(way, &[crash]).await;
                    count += usize::from(has_crashed);
                    is_over &= !has_crashed;
                }
                if is_over {
                    break;
                }
            }
            assert!(count >= 20, "{way}: {count} crashes");
        }
    });
}

#[test]
fn what_is_begun_is_done_or_undone_after_a_crash_at_each_pair_of_records() {
    // the long run of the tests takes all of them
    let each = if std::env::var_os("LONG_TESTS").is_some() { 1 } else { 10 };
    run(async move {
        let mut number = 0;
        for way in WAYS {
            // an order has fewer records than that
            for (first, second) in (1..=16).flat_map(|one| (1..=12).map(move |two| (one, two))) {
                for one in crashes_at(first) {
                    for two in crashes_at(second) {
                        number += 1;
                        if number % each == 0 {
                            order_with(way, &[one, two]).await;
                        }
                    }
                }
            }
        }
    });
}
