//! The ways out of a pause: an operator says what has become of a step, or has the program undo it.

use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::journal::request::{FlowState, Resume};
use asyncsteps_durable::{Durable, NotSettled, Options, Settle};
use asyncsteps_executor::{Cx, Returns, Steps};
use asyncsteps_journal::memory::{Fault, Memory, Operation, SeededFaults};
use asyncsteps_journal::{Error, Event, Journal, Path, Refused, Uid};
use futures_util::future::join4;

use crate::bank::{Bank, End, deals, undoes};
use crate::lab::{Nothing, soon};
use crate::node::{Crash, Kind, run};

const CHARGE: &str = "order-charge";

/// A look-up that is repeated is in front of the charge.
fn behind_look(steps: &Steps<Bank, Nothing>, bank: &Bank) -> Returns<String> {
    let look = steps
        .run("reserve", deals)
        .recorded()
        .undo(undoes)
        .then("look", async |cx, ()| match cx.program {
            "no look" | "away" => Err("NoLook".into()),
            _ => Ok(()),
        })
        .repeatable();
    let charge = match bank.program {
        "no undo" => look.then("charge", deals_at_once).recorded(),
        _ => look.then("charge", deals).recorded().undo(async |cx, undo| match cx.program {
            "away" => Err("Away".into()),
            _ => undoes(cx, undo).await,
        }),
    };
    charge.then("ship", ships).recorded().returns()
}

/// The bank does it before anything else can happen.
async fn deals_at_once(cx: &Cx<Bank, Nothing>, (): ()) -> BodyResult<()> {
    cx.deal(cx.key());
    Ok(())
}

async fn ships(_: &Cx<Bank, Nothing>, (): ()) -> BodyResult<String> {
    Ok("shipped".to_owned())
}

async fn ships_nothing(_: &Cx<Bank, Nothing>, (): ()) -> BodyResult<String> {
    Err("NoShip".into())
}

fn charge() -> Path {
    "test.bank:1:order/charge".parse().expect("it is a path")
}

/// A request that was paused by this program after its charge was begun: it cannot undo that. Beside it a process with a
/// program that can.
async fn paused(bank: &Bank, program: &'static str, append: usize) -> (Memory, Uid, Bank, Durable) {
    let journal = bank.journal();
    let uid = bank.submit(&journal, Options::default()).await;
    let crash = Crash { append, kind: Kind::AfterStored };
    assert!(bank.crash(&journal, uid, crash).await.is_none());
    let next = bank.process(program, None);
    match next.replay(&journal, uid).await {
        End::Paused(reason) => assert!(reason.contains(charge().as_str()), "{reason}"),
        End::Ended(ending) => panic!("{ending:?}"),
    }
    let next = if program == "away" { bank.process("no look", None) } else { next };
    let (durable, _) = next.serve(journal.clone());
    (journal, uid, next, durable)
}

/// What an operator has said is recorded with the name and the reason.
async fn is_recorded(durable: &Durable, uid: Uid) {
    let records = durable.records(uid).await.expect("it is known");
    let path = charge().branch("settled");
    let mut said = records.iter().filter(|stored| stored.record.path == path);
    let said = said.find_map(|stored| {
        if let Event::Signal(taken) = &stored.record.event {
            Some(taken.value.clone())
        } else {
            None
        }
    });
    let said: String = said.expect("it is recorded").decode().expect("it is a text");
    assert!(said.contains("\"ann\"") && said.contains("\"case 7\""), "{said}");
}

#[test]
fn a_step_that_the_request_does_not_reach_is_undone_as_an_operator_says() {
    run(async {
        let bank = Bank::new(behind_look);
        let (journal, uid, next, durable) = paused(&bank, "away", 4).await;
        assert_eq!(bank.kept(), [CHARGE]);
        durable.settle(uid, &charge(), Settle::Undo, "ann", "case 7").await.expect("it is paused");
        let end = next.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Failed(_))), "{end:?}");
        assert_eq!(bank.kept(), [""; 0], "{:?}", bank.entries());
        is_recorded(&durable, uid).await;
    });
}

#[test]
fn a_step_is_kept_or_was_undone_as_an_operator_says() {
    run(async {
        for (how, kept) in [(Settle::Kept, vec![CHARGE]), (Settle::Undone, vec![CHARGE])] {
            let bank = Bank::new(behind_look);
            let (journal, uid, next, durable) = paused(&bank, "away", 4).await;
            durable.settle(uid, &charge(), how, "ann", "case 7").await.expect("it is paused");
            let end = next.replay(&journal, uid).await;
            assert!(matches!(end, End::Ended(Ending::Failed(_))), "{end:?}");
            // the program undoes the rest, and leaves the charge to the operator
            assert_eq!(bank.kept(), kept, "{:?}", bank.entries());
            is_recorded(&durable, uid).await;
        }
    });
}

#[test]
fn a_request_does_not_end_well_with_what_an_operator_has_had_undone() {
    run(async {
        for (how, kept) in
            [(Settle::Undo, vec!["order-reserve"]), (Settle::Undone, vec![CHARGE, "order-reserve"])]
        {
            let bank = Bank::new(behind_look);
            let (journal, uid, _, durable) = paused(&bank, "no undo", 4).await;
            durable.settle(uid, &charge(), how, "ann", "case 7").await.expect("it is paused");
            let End::Paused(reason) = bank.replay(&journal, uid).await else { panic!("it ended") };
            assert!(reason.contains("undone by an operator"), "{reason}");
            assert!(reason.contains(charge().as_str()), "{reason}");
            assert_eq!(bank.kept(), kept, "{:?}", bank.entries());
            durable.cancel(uid, "ann").await.expect("it is known");
            let end = bank.replay(&journal, uid).await;
            assert!(matches!(end, End::Ended(Ending::Cancelled)), "{end:?}");
        }
    });
}

#[test]
fn a_step_ends_with_the_result_that_an_operator_names() {
    run(async {
        let bank = Bank::new(behind_look);
        // the charge has begun
        let (journal, uid, next, durable) = paused(&bank, "no undo", 3).await;
        let result = Settle::Result(serde_json::Value::Null);
        durable.settle(uid, &charge(), result, "ann", "case 7").await.expect("it is paused");
        // the program has no undo still, and the step began with one
        let End::Paused(_) = next.replay(&journal, uid).await else { panic!("it lacks the undo") };
        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        let entries = bank.entries();
        let end = bank.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Completed(_))), "{end:?}");
        assert_eq!(bank.entries(), entries, "the charge was done again");
        is_recorded(&durable, uid).await;
    });
}

#[test]
fn an_undo_that_the_program_lacks_is_not_forgotten() {
    run(async {
        let bank = Bank::new(behind_look);
        let (journal, uid, next, durable) = paused(&bank, "no undo", 4).await;
        durable.settle(uid, &charge(), Settle::Undo, "ann", "case 7").await.expect("it is paused");
        let End::Paused(reason) = next.replay(&journal, uid).await else { panic!("it ended") };
        assert!(reason.contains(charge().as_str()), "{reason}");
        durable.settle(uid, &charge(), Settle::Kept, "ann", "case 7").await.expect("it is paused");
        let end = next.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Completed(_))), "{end:?}");
        assert_eq!(bank.kept(), [CHARGE, "order-reserve"]);
    });
}

/// An undo that fails while the bank is away.
fn undo_fails(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .run("charge", deals_at_once)
        .recorded()
        .undo(async |cx, _| {
            soon().await;
            if cx.program == "away" {
                return Err("Away".into());
            }
            cx.undo(cx.key());
            Ok(())
        })
        .then("ship", ships_nothing)
        .recorded()
        .returns()
}

#[test]
fn an_undo_that_failed_pauses_the_request_and_is_tried_again() {
    run(async {
        let charge = charge();
        for by_order in [false, true] {
            let bank = Bank::new(undo_fails).process("away", None);
            let (journal, mut ended) = (bank.journal(), Vec::new());
            let uid = bank.submit(&journal, Options::default()).await;
            let (durable, _) = bank.serve(journal.clone());
            for process in [&bank, &bank.process("", None)] {
                if by_order && !ended.is_empty() {
                    let settled = durable.settle(uid, &charge, Settle::Undo, "ann", "case 7");
                    settled.await.expect("it is paused");
                } else if !ended.is_empty() {
                    durable.resume(uid, Resume::Continue).await.expect("it is paused");
                }
                ended.push(process.replay(&journal, uid).await);
            }
            let [End::Paused(reason), End::Ended(Ending::Failed(_))] = &*ended else {
                panic!("{ended:?}")
            };
            assert!(reason.contains("order/charge was begun, and is not undone"), "{reason}");
            assert_eq!(bank.kept(), [""; 0]);
        }
    });
}

#[test]
fn only_what_a_paused_request_has_begun_is_settled() {
    run(async {
        let bank = Bank::new(behind_look);
        let (journal, uid, _, durable) = paused(&bank, "away", 4).await;
        let ship = "test.bank:1:order/ship".parse().expect("it is a path");
        let settled = durable.settle(uid, &ship, Settle::Kept, "ann", "").await;
        let Err(NotSettled::NoStep { path, begun }) = settled else { panic!("{settled:?}") };
        assert!(path == ship && begun.contains(&charge()), "{path}, {begun:?}");
        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        let end = bank.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Failed(_))), "{end:?}");
        let settled = durable.settle(uid, &charge(), Settle::Kept, "ann", "").await;
        let refused =
            matches!(settled, Err(NotSettled::Journal(Error::Refused(Refused::NotStopped(_)))));
        assert!(refused, "it has ended");
    });
}

#[test]
fn of_orders_at_once_the_one_that_is_acknowledged_is_carried_out() {
    run(async {
        for seed in 0..30 {
            let bank = Bank::new(behind_look);
            let (journal, uid, next, _) = paused(&bank, "away", 4).await;
            // some overtake others, and the first answer may be lost
            let mut is_lost = seed % 3 > 0;
            let lost = move |operation: Operation| {
                if operation == Operation::Resume && !is_lost {
                    is_lost = true;
                    return Fault::AnswerLost;
                }
                Fault::Delayed(seed % 5)
            };
            let delayed = SeededFaults::new(seed.into(), u32::MAX, 4);
            let (operators, _) = next.serve(journal.clone().faults(delayed));
            let (other, _) = next.serve(journal.clone().faults(lost));
            let path = charge();
            let orders = join4(
                operators.settle(uid, &path, Settle::Kept, "ann", ""),
                other.settle(uid, &path, Settle::Undone, "bob", ""),
                operators.settle(uid, &path, Settle::Undo, "eve", ""),
                operators.resume(uid, Resume::Continue),
            );
            let (kept, undone, undo, resumed) = orders.await;
            let acknowledged =
                [("Kept", kept.is_ok()), ("Undone", undone.is_ok()), ("Undo", undo.is_ok())];
            let acknowledged = acknowledged.iter().filter(|(_, is_ok)| *is_ok);
            let acknowledged: Vec<_> = acknowledged.map(|(how, _)| *how).collect();
            let signals = journal.inbox(uid).await.expect("it is known").signals;
            let stored = signals.iter().map(|signal| {
                let said: String = signal.value.decode().expect("it is a text");
                let said: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
                said["how"].as_str().unwrap_or_default().to_owned()
            });
            assert_eq!(stored.collect::<Vec<_>>(), acknowledged, "seed {seed}");
            assert_eq!(acknowledged.len() + usize::from(resumed.is_ok()), 1, "seed {seed}");
        }
    });
}

#[test]
fn a_step_that_began_without_an_undo_is_not_ordered_to_be_undone() {
    run(async {
        let bank = Bank::new(undo_fails).process("away", None);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let (durable, _) = bank.serve(journal.clone());
        let End::Paused(_) = bank.replay(&journal, uid).await else { panic!("its undo fails") };
        let ship = "test.bank:1:order/ship".parse().expect("it is a path");
        let refused = durable.settle(uid, &ship, Settle::Undo, "ann", "").await;
        let refused = refused.expect_err("it has no undo").to_string();
        assert!(refused.contains("order/ship began without an undo"), "{refused}");
        let status = durable.status(uid).await.expect("it is known");
        assert_eq!(status.flow.state, FlowState::Paused, "it waits for another order");
    });
}

/// An undo that the program has fail in its way.
fn undo_fails_as(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .run("charge", deals_at_once)
        .recorded()
        .undo(async |cx, _| {
            soon().await;
            Err(asyncsteps_core::Error::with_info("Away", cx.program).into())
        })
        .then("ship", ships_nothing)
        .recorded()
        .returns()
}

/// Longer than the journal takes a text, with characters that not each journal can store, and that are cut in the
/// middle.
const LONG: &str = concat!("\0\u{1f600}", include_str!("settled.rs"));

const CUT: &str = "Away: \u{fffd}\u{1f600}//! The ways out of a pause";

#[test]
fn the_reason_of_a_pause_says_why_the_undo_failed() {
    run(async {
        let charge = charge();
        for (program, why) in [("the bank is closed", "Away: the bank is closed"), (LONG, CUT)] {
            let bank = Bank::new(undo_fails_as).process(program, None);
            let journal = bank.journal();
            let uid = bank.submit(&journal, Options::default()).await;
            let End::Paused(reason) = bank.replay(&journal, uid).await else { panic!("it ended") };
            assert!(reason.contains("order/charge was begun, and is not undone"), "{reason}");
            assert!(reason.contains(why) && reason.len() < 1_000, "{reason}");
            // an operator's order says the same
            let (durable, _) = bank.serve(journal.clone());
            let settled = durable.settle(uid, &charge, Settle::Undo, "ann", "case 7");
            settled.await.expect("it is paused");
            let End::Paused(reason) = bank.replay(&journal, uid).await else { panic!("it ended") };
            assert!(reason.contains("order/charge cannot be undone"), "{reason}");
            assert!(reason.contains(why) && reason.len() < 1_000, "{reason}");
        }
    });
}

/// Its later program has steps with long names instead.
fn renames(steps: &Steps<Bank, Nothing>, bank: &Bank) -> Returns<String> {
    let begin = if bank.program == "long names" {
        ["x", "y", "z"].iter().fold(steps.pass().erased(), |before, letter| {
            before.then(letter.repeat(1_800).leak(), async |_, ()| Ok(())).recorded().erased()
        })
    } else {
        steps.run("charge", deals).recorded().undo(undoes).erased()
    };
    begin.then("ship", ships).recorded().returns()
}

#[test]
fn a_reason_that_is_longer_than_a_text_of_the_journal_is_cut() {
    run(async {
        let bank = Bank::new(renames);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let crash = Crash { append: 3, kind: Kind::AfterStored };
        assert!(bank.crash(&journal, uid, crash).await.is_none());
        let next = bank.process("long names", None);
        let End::Paused(reason) = next.replay(&journal, uid).await else { panic!("it ended") };
        assert!(reason.contains("order/charge is recorded"), "{reason}");
        assert_eq!(reason.len(), asyncsteps_journal::limits::TEXT_BYTES);
    });
}

/// A look-up that is repeated, deep in a step that ended before the charge.
fn deep_look(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let look = async |cx: &Cx<Bank, Nothing>, ()| {
        soon().await;
        if cx.program == "no look" { Err("NoLook".into()) } else { Ok(()) }
    };
    steps
        .nested("trip", |trip| {
            trip.nested("inner", |inner| inner.run("look", look).repeatable().returns()).returns()
        })
        .timeout(Duration::from_secs(1_000))
        .then("charge", deals)
        .recorded()
        .undo(undoes)
        .then("ship", ships)
        .recorded()
        .returns()
}

#[test]
fn a_look_up_that_fails_deep_in_what_has_ended_works_again_after_a_resume() {
    run(async {
        let bank = Bank::new(deep_look);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let crash = Crash { append: 4, kind: Kind::AfterStored };
        assert!(bank.crash(&journal, uid, crash).await.is_none());
        let next = bank.process("no look", None);
        let End::Paused(reason) = next.replay(&journal, uid).await else { panic!("it ended") };
        assert!(reason.contains("ended well before a crash, and fails now"), "{reason}");
        let (durable, _) = bank.serve(journal.clone());
        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        let end = bank.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Completed(_))), "{end:?}");
        assert_eq!(bank.kept(), [CHARGE]);
    });
}
