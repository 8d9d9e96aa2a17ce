//! The ways out of a pause: an operator says what has become of a step, or has the program undo it.

use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::journal::request::Resume;
use asyncsteps_durable::{Durable, NotSettled, Options, Recorded, Repeatable, Settle};
use asyncsteps_executor::{Cx, Gives, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::{Error, Event, Path, Refused, Uid};

use crate::bank::{Bank, End, deal};
use crate::lab::{Nothing, soon};
use crate::node::{Crash, Kind, run};

const CHARGE: &str = "order-charge";

/// A look-up that is repeated is in front of the charge.
fn behind_look(asi: &mut Steps<Bank, Nothing>) -> Gives<String> {
    deal!(asi, "reserve");
    asi.run(
        "look",
        async |cx: &Cx<Bank, Nothing>, ()| {
            if cx.program == "no look" { Err("NoLook".into()) } else { Ok(()) }
        },
    )
    .repeatable();
    match asi.cx().program {
        "no undo" => {
            asi.run("charge", async |cx, ()| {
                cx.deal(cx.key());
                Ok(())
            })
            .recorded();
        }
        _ => _ = deal!(asi, "charge"),
    }
    asi.run("ship", async |_, ()| Ok("shipped".to_owned())).recorded().into()
}

fn charge() -> Path {
    "test.bank:1:order/charge".parse().expect("it is a path")
}

/// A request that was paused by this program after its charge was begun.
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
        let (journal, uid, next, durable) = paused(&bank, "no look", 4).await;
        assert_eq!(bank.kept(), [CHARGE, "order-reserve"]);
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
            let (journal, uid, next, durable) = paused(&bank, "no look", 4).await;
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
fn undo_fails(asi: &mut Steps<Bank, Nothing>) -> Gives<String> {
    asi.run("charge", async |cx: &Cx<Bank, Nothing>, ()| {
        cx.deal(cx.key());
        Ok(())
    })
    .recorded()
    .undo(async |cx, _| {
        soon().await;
        if cx.program == "away" {
            return Err("Away".into());
        }
        cx.undo(cx.key());
        Ok(())
    });
    asi.run("ship", async |_, ()| Err("NoShip".into())).recorded().into()
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
        let (journal, uid, _, durable) = paused(&bank, "no look", 4).await;
        let ship = "test.bank:1:order/ship".parse().expect("it is a path");
        let settled = durable.settle(uid, &ship, Settle::Kept, "ann", "").await;
        assert!(matches!(settled, Err(NotSettled::NoStep(path)) if path == ship));
        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        let end = bank.replay(&journal, uid).await;
        assert!(matches!(end, End::Ended(Ending::Completed(_))), "{end:?}");
        let settled = durable.settle(uid, &charge(), Settle::Kept, "ann", "").await;
        let refused =
            matches!(settled, Err(NotSettled::Journal(Error::Refused(Refused::NotStopped(_)))));
        assert!(refused, "it has ended");
    });
}
