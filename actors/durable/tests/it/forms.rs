//! Programs that have a step in another form, or without its undo: the request waits for an operator before any
//! step of that level starts.

use std::ops::ControlFlow;
use std::time::Duration;

use asyncsteps_durable::Options;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::journal::request::Resume;
use asyncsteps_executor::{Returns, Step, Steps};
use asyncsteps_journal::Uid;
use asyncsteps_journal::memory::Memory;

use crate::bank::{Bank, End, deals, undoes};
use crate::lab::{Nothing, soon};
use crate::node::{Crash, Kind, run};

const BODIES: [&str; 2] = ["recorded", "once"];
const NESTED: [&str; 3] = ["substeps", "scope", "parallel"];

/// What the first step returns: the items of the charge, in a program that has some.
type Items = [(); 2];

/// A chain of steps that return `T`.
type Chain<A, T> = Step<Bank, Nothing, (), A, T>;

/// The charge, in the form that the program has.
fn formed(steps: &Steps<Bank, Nothing>, bank: &Bank) -> Returns<String> {
    let first = steps.run("first", async |cx, ()| {
        cx.deal(cx.key());
        Ok([(), ()])
    });
    let first = first.recorded();
    match bank.program {
        "recorded" => end(first.then("charge", deals).recorded().undo(undoes)),
        "once" => end(first.then("charge", deals).once().undo(undoes)),
        "no undo" => end(first.then("charge", deals).recorded()),
        "repeatable" => end(first.then("charge", deals).repeatable()),
        "substeps" => end(first.then_nested("charge", inner)),
        "scope" => end(first.then_scope("charge", inner)),
        "parallel" => end(first.then_join("charge", |all| {
            (inner(all), all.run("other", async |_, _| Ok(())).repeatable())
        })),
        "repeat" => end(first
            .then_repeat("charge", |turn| {
                turn.run("inner", deals)
                    .recorded()
                    .undo(undoes)
                    .then("next", async |_, _| Ok(ControlFlow::Break(())))
                    .repeatable()
                    .returns()
            })
            .recorded_with_input()),
        "items" => end(first.then_each(
            "charge",
            |_, items| items.to_vec(),
            |item| item.run("inner", deals).recorded().returns(),
        )),
        other => unreachable!("there is no program {other}"),
    }
}

fn inner(steps: &Steps<Bank, Nothing, Items>) -> Returns<Items> {
    steps.run("inner", deals).recorded().undo(undoes).returns()
}

fn end<A: 'static, T: 'static>(charged: Chain<A, T>) -> Returns<String> {
    charged
        .then("end", async |_, _| {
            soon().await;
            Ok("done".to_owned())
        })
        .recorded()
        .returns()
}

/// Crashes the first program wherever the charge was begun, and has the other one go on: it pauses the request
/// before it does anything. How often that was.
async fn pauses(first: &'static str, other: &'static str, reason: &str) -> usize {
    let mut count = 0;
    for append in 1.. {
        let bank = Bank::new(formed).process(first, None);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let crash = Crash { append, kind: Kind::AfterStored };
        if bank.crash(&journal, uid, crash).await.is_some() {
            return count;
        }
        if !is_recorded(&bank, &journal, uid, other).await {
            continue;
        }
        count += 1;
        let case = format!("{first} -> {other}, {crash:?}");
        let entries = bank.entries();
        let next = bank.process(other, None);
        let (durable, _) = next.serve(journal.clone());
        let dump = durable.dump().await.expect("the journal is there");
        let checked = durable.replay_check(&dump);
        let Some(checked) = checked.into_iter().next() else {
            // its end was stored
            return count - 1;
        };
        let divergence = checked.divergence.unwrap_or_default();
        assert!(divergence.contains(reason), "{case}: {divergence}");
        match next.replay(&journal, uid).await {
            End::Paused(why) => assert_eq!(why, divergence, "{case}"),
            End::Ended(ending) => panic!("{case}: {ending:?}, {:?}", bank.entries()),
        }
        assert_eq!(bank.entries(), entries, "{case}");
        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        let end = bank.replay(&journal, uid).await;
        let ended_well = matches!(&end, End::Ended(Ending::Completed(_)));
        let is_unknown = first == "once" && matches!(&end, End::Ended(Ending::Failed(_)));
        assert!(ended_well || is_unknown, "{case}: {end:?}");
    }
    unreachable!("the last append is that of the end")
}

/// Whether something is recorded of the charge that shows its form.
async fn is_recorded(bank: &Bank, journal: &Memory, uid: Uid, other: &str) -> bool {
    let (durable, _) = bank.serve(journal.clone());
    let records = durable.records(uid).await.expect("it is known");
    let of_charge = records.iter().map(|stored| &stored.record).filter(|record| {
        let path = record.path.as_str();
        path.contains("/charge") && !path.contains('|')
    });
    let is_done = |record: &asyncsteps_journal::Record| {
        matches!(record.event, asyncsteps_journal::Event::Done(_))
    };
    let mut found = of_charge;
    if other == "repeatable" { found.any(is_done) } else { found.next().is_some() }
}

#[test]
fn a_body_that_has_become_steps_pauses_the_request() {
    run(async {
        for first in BODIES {
            for other in NESTED.into_iter().chain(["repeat"]) {
                let count = pauses(first, other, "/charge is recorded as one body").await;
                assert!(count >= 2, "{first} -> {other}: {count}");
            }
        }
    });
}

#[test]
fn steps_that_have_become_a_body_pause_the_request() {
    run(async {
        for other in BODIES {
            for first in NESTED {
                let why = "/charge is recorded as a step with sub-steps";
                assert!(pauses(first, other, why).await >= 2, "{first} -> {other}");
            }
            let count = pauses("repeat", other, "/charge is recorded as a loop").await;
            assert!(count >= 2, "repeat -> {other}: {count}");
        }
    });
}

#[test]
fn steps_that_have_become_a_loop_and_items_that_have_become_one_body_pause_the_request() {
    run(async {
        for nested in NESTED {
            let why = "/charge is recorded as a step with sub-steps";
            assert!(pauses(nested, "repeat", why).await >= 2, "{nested} -> repeat");
            assert!(pauses("repeat", nested, "as a loop").await >= 2, "repeat -> {nested}");
        }
        let count = pauses("items", "no undo", "as a step with items").await;
        assert!(count >= 1, "items -> recorded: {count}");
    });
}

#[test]
fn a_step_that_is_done_and_would_be_repeated_pauses_the_request() {
    run(async {
        let count = pauses("no undo", "repeatable", "the program would repeat it").await;
        assert!(count >= 1, "{count}");
    });
}

#[test]
fn an_undo_that_the_program_lacks_pauses_the_request() {
    run(async {
        for first in BODIES {
            let count = pauses(first, "no undo", "/charge began with an undo").await;
            assert!(count >= 2, "{first}: {count}");
        }
    });
}

/// A look-up that is repeated is in front of the charge.
fn behind_look(steps: &Steps<Bank, Nothing>, bank: &Bank) -> Returns<String> {
    let look = steps.run("look", async |_, ()| Ok(())).repeatable();
    let charge = look.then("charge", deals).recorded();
    let charge = if bank.program == "no undo" { charge } else { charge.undo(undoes) };
    charge.then("end", async |_, ()| Ok(String::new())).recorded().returns()
}

#[test]
fn what_is_behind_a_step_without_a_record_is_compared_as_well() {
    run(async {
        let bank = Bank::new(behind_look);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let crash = Crash { append: 2, kind: Kind::AfterStored };
        assert!(bank.crash(&journal, uid, crash).await.is_none());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (durable, _) = bank.process("no undo", None).serve(journal.clone());
        let dump = durable.dump().await.expect("the journal is there");
        let checked = durable.replay_check(&dump);
        let why = checked[0].divergence.clone().unwrap_or_default();
        assert!(why.contains("test.bank:1:order/charge began with an undo"), "{why}");
    });
}
