//! Changes of a program while a request is open, after a crash at each record: the request ends right, or it waits for
//! an operator before anything runs or is undone. No effect is done twice, and no undo is lost.

use std::time::Duration;

use asyncsteps_core::Undo;
use asyncsteps_durable::Options;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::journal::request::Resume;
use asyncsteps_executor::plan::{Erased, Returns, Step, Steps};
use asyncsteps_journal::Uid;
use asyncsteps_journal::memory::Memory;

use crate::bank::{Bank, End, deals, undoes};
use crate::lab::{Lab, Nothing, soon};
use crate::node::{Crash, Kind, run};

/// What goes from step to step: the items of a charge that has some.
type Items = [(); 2];

type Chain = Step<Bank, Nothing, (), Erased, Items>;

/// A change of the program: what the request waits for an operator with, if it does. `least` is how often it has to.
struct Change {
    first: [&'static str; 2],
    second: [&'static str; 2],
    reason: &'static str,
    least: usize,
}

/// Each program is there twice: its last step ends well, or fails.
macro_rules! change {
    ($first:literal -> $second:literal, $reason:literal, $least:literal) => {
        Change {
            first: [$first, concat!($first, " fails")],
            second: [$second, concat!($second, " fails")],
            reason: $reason,
            least: $least,
        }
    };
}

fn order(steps: &Steps<Bank, Nothing>, bank: &Bank) -> Returns<String> {
    let (program, fails) = match bank.program.strip_suffix(" fails") {
        Some(program) => (program, true),
        None => (bank.program, false),
    };
    if program == "retired" {
        steps.retired("charge").undo(async |cx| undoes::<()>(cx, Undo::Unknown).await);
    }
    let reserve = steps.run("reserve", async |cx, ()| {
        deals(cx, ()).await?;
        Ok([(), ()])
    });
    let reserve = reserve.recorded().undo(undoes);
    charged(reserve.erased(), program)
        .then("end", async move |_, _| {
            soon().await;
            if fails { Err("NoEnd".into()) } else { Ok("done".to_owned()) }
        })
        .recorded()
        .returns()
}

fn charged(reserve: Chain, program: &str) -> Chain {
    match program {
        "recorded" => reserve.then("charge", deals).recorded().undo(undoes).erased(),
        "plain" => reserve.then("charge", deals).recorded().erased(),
        "once" => reserve.then("charge", deals).once().undo(undoes).erased(),
        "repeatable" => reserve.then("charge", deals).repeatable().erased(),
        "renamed" => reserve.then("debit", deals).recorded().undo(undoes).erased(),
        "was" => reserve.then("debit", deals).was("charge").recorded().undo(undoes).erased(),
        "removed" | "retired" => reserve,
        "in front" => {
            let check = reserve.then("check", deals).recorded().undo(undoes);
            check.then("charge", deals).recorded().undo(undoes).erased()
        }
        "behind" => {
            let charge = reserve.then("charge", deals).recorded().undo(undoes);
            charge.then("mail", deals).recorded().undo(undoes).erased()
        }
        "nested" => reserve
            .then_nested("charge", |steps| {
                steps.run("inner", deals).recorded().undo(undoes).returns()
            })
            .erased(),
        "join" => reserve
            .then_join("charge", |all| {
                let other = all.run("other", deals).recorded().undo(undoes);
                (all.run("inner", deals).recorded().undo(undoes), other)
            })
            .then("both", async |_, (items, _)| Ok(items))
            .repeatable()
            .erased(),
        "three" => reserve
            .then_join("charge", |all| {
                let [other, third] =
                    ["other", "third"].map(|name| all.run(name, deals).recorded().undo(undoes));
                (all.run("inner", deals).recorded().undo(undoes), other, third)
            })
            .then("both", async |_, (items, _, _)| Ok(items))
            .repeatable()
            .erased(),
        "each" => reserve
            .then_each(
                "charge",
                |_, items| items.to_vec(),
                |item| item.run("inner", deals).recorded().undo(undoes).returns(),
            )
            .then("all", async |_, _| Ok([(), ()]))
            .repeatable()
            .erased(),
        "receipt" => reserve
            .then("charge", async |cx, _| deals(cx, "a receipt".to_owned()).await)
            .recorded()
            .undo(undoes)
            .then("items", async |_, _| Ok([(), ()]))
            .repeatable()
            .erased(),
        other => unreachable!("there is no program {other}"),
    }
}

/// What a request has done that ended well.
fn done_by(program: &str) -> &[&str] {
    match program {
        "renamed" => &["debit", "reserve"],
        "removed" => &["reserve"],
        "in front" => &["charge", "check", "reserve"],
        "behind" => &["charge", "mail", "reserve"],
        "nested" => &["charge/inner", "reserve"],
        "join" => &["charge/inner", "charge/other", "reserve"],
        "three" => &["charge/inner", "charge/other", "charge/third", "reserve"],
        "each" => &["charge#0/inner", "charge#1/inner", "reserve"],
        _ => &["charge", "reserve"],
    }
}

/// The books add up for a request that this program has ended.
fn check(bank: &Bank, ending: &Ending, (program, case): (&str, &str)) {
    let (kept, entries) = (bank.kept(), bank.entries());
    let kept: Vec<&str> = kept.iter().map(|name| name.trim_start_matches("order-")).collect();
    let program = program.trim_end_matches(" fails");
    // these began with no undo, or perhaps not at all
    let may_be_kept = match (program, ending) {
        ("plain" | "repeatable", _) | ("retired", Ending::Completed(_)) => Some("charge"),
        _ if case.starts_with("plain") => Some("charge"),
        _ => None,
    };
    let is = |done: &[&str]| {
        let without = |names: &[&str]| {
            let names = names.iter().filter(|name| Some(**name) != may_be_kept);
            names.map(ToString::to_string).collect::<Vec<_>>()
        };
        without(&kept) == without(done)
    };
    let is_right = match ending {
        Ending::Completed(_) => is(done_by(program)),
        Ending::Failed(_) | Ending::Cancelled | _ => is(&[]),
    };
    assert!(is_right, "{case}: {ending:?}, {entries:?}");
}

/// Crashes a request of the first program and has the second one go on; returns whether it crashed, and whether it
/// was paused.
async fn changes(
    change: &Change,
    (first, second): (&'static str, &'static str),
    crash: Crash,
) -> (bool, bool) {
    let case = format!("{first} -> {second}, {crash:?}");
    let bank = Bank::new(order).process(first, None);
    let journal = bank.journal();
    let uid = bank.submit(&journal, Options::default()).await;
    if let Some(ending) = bank.crash(&journal, uid, crash).await {
        check(&bank, &ending, (first, &case));
        return (false, false);
    }
    if let Some(ending) = ended(&bank, &journal, uid).await {
        check(&bank, &ending, (first, &case));
        return (true, false);
    }
    let (before, next) = (bank.entries(), bank.process(second, None));
    let divergence = checked(&next, &journal).await;
    let reason = match next.replay(&journal, uid).await {
        End::Ended(ending) => {
            assert_eq!(divergence, None, "{case}");
            check(&bank, &ending, (second, &case));
            return (true, false);
        }
        End::Paused(reason) => reason,
    };
    assert!(!change.reason.is_empty(), "{case}: {reason}");
    assert!(reason.contains(change.reason), "{case}: {reason}");
    assert!(reason.contains("test.bank:1:order/"), "{case}: {reason}");
    assert_eq!(divergence, Some(reason), "{case}");
    assert_eq!(bank.entries(), before, "{case}: something ran");
    resume(&bank, &journal, uid).await;
    match bank.replay(&journal, uid).await {
        End::Ended(ending) => check(&bank, &ending, (first, &case)),
        End::Paused(reason) => panic!("{case}, resumed: {reason}"),
    }
    (true, true)
}

/// How the request ended, if the crash came behind that.
async fn ended(bank: &Bank, journal: &Memory, uid: Uid) -> Option<Ending> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (durable, _) = bank.serve(journal.clone());
    durable.status(uid).await.expect("it is known").ending
}

/// What the check of open requests says of the only one, or of none.
async fn checked(bank: &Bank, journal: &Memory) -> Option<String> {
    let (durable, _) = bank.serve(journal.clone());
    let dump = durable.dump().await.expect("the journal is there");
    let checked = durable.replay_check(&dump);
    checked.into_iter().find_map(|request| request.divergence)
}

async fn resume(bank: &Bank, journal: &Memory, uid: Uid) {
    let (durable, _) = bank.serve(journal.clone());
    durable.resume(uid, Resume::Continue).await.expect("it is paused");
}

/// Makes the change wherever a request can crash, also while it is undone.
fn make(change: &'static Change) {
    run(async {
        let (mut crashes, mut paused) = (0, 0);
        for (first, second) in [(0, 0), (0, 1), (1, 1)] {
            for append in 1.. {
                let mut is_over = true;
                for kind in [Kind::BeforeStored, Kind::AfterStored] {
                    let programs = (change.first[first], change.second[second]);
                    let crash = Crash { append, kind };
                    let (crashed, was_paused) = changes(change, programs, crash).await;
                    (crashes, paused) =
                        (crashes + usize::from(crashed), paused + usize::from(was_paused));
                    is_over &= !crashed;
                }
                if is_over {
                    break;
                }
            }
        }
        assert!(crashes >= 12, "{crashes} crashes");
        assert!(paused >= change.least, "paused {paused} times");
    });
}

#[test]
fn a_step_that_is_renamed_without_its_old_name_pauses_the_request() {
    make(&change!("recorded" -> "renamed", "is recorded, and the program has only", 6));
}

#[test]
fn a_step_that_is_renamed_with_its_old_name_is_done_once() {
    make(&change!("recorded" -> "was", "", 0));
}

#[test]
fn a_step_that_is_removed_pauses_the_request() {
    make(&change!("recorded" -> "removed", "is recorded, and the program has only", 6));
}

#[test]
fn a_step_that_is_retired_with_an_undo_is_undone() {
    make(&change!("recorded" -> "retired", "", 0));
}

#[test]
fn a_new_step_in_front_of_a_recorded_one_pauses_the_request() {
    make(&change!("recorded" -> "in front", "in front of test.bank:1:order/charge, which is", 6));
}

#[test]
fn a_new_step_behind_the_recorded_ones_runs() {
    // unless the one behind it has failed
    make(&change!("recorded" -> "behind", "in front of test.bank:1:order/end, which is", 1));
}

#[test]
fn a_new_branch_of_a_step_that_has_ended_pauses_the_request() {
    make(&change!("join" -> "three", "in front of test.bank:1:order/end, which is", 1));
}

#[test]
fn a_body_that_becomes_steps_pauses_the_request() {
    make(&change!("recorded" -> "nested", "order/charge is recorded as one body", 6));
}

#[test]
fn steps_that_become_a_body_pause_the_request() {
    make(&change!("nested" -> "recorded", "charge is recorded as a step with sub-steps", 6));
}

#[test]
fn a_body_that_began_to_run_once_does_so_in_a_program_that_would_repeat_it() {
    make(&change!("once" -> "recorded", "", 0));
}

#[test]
fn a_body_that_is_done_and_becomes_repeatable_pauses_the_request() {
    make(&change!("plain" -> "repeatable", "is done, and the program would repeat it", 3));
}

#[test]
fn branches_that_become_items_pause_the_request() {
    make(&change!("join" -> "each", "and the program has a step with items", 6));
}

#[test]
fn an_undo_that_is_removed_pauses_the_request() {
    make(&change!("recorded" -> "plain", "charge began with an undo, and the program has none", 6));
}

#[test]
fn an_undo_that_is_added_is_no_reason_to_pause() {
    make(&change!("plain" -> "recorded", "", 0));
}

#[test]
fn a_result_of_another_type_pauses_the_request() {
    make(&change!("recorded" -> "receipt", "its result cannot be read", 6));
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Seats {
    #[serde(rename = "seats")]
    _seats: u32,
}

/// The steps of a function, whatever its parameters are.
fn takes<P: 'static>(steps: &Steps<Lab, P>) -> Returns<()> {
    let take = steps.run("take", async |cx, ()| {
        cx.count("taken");
        Ok(())
    });
    take.once().then_wait_signal("end").returns()
}

#[test]
fn parameters_that_the_program_cannot_read_pause_the_request() {
    run(async {
        let lab = Lab::with_programs(|program, durable, functions| {
            _ = match program {
                1 => durable.on(functions, "take", takes::<Nothing>),
                _ => durable.on(functions, "take", takes::<Seats>),
            };
        });
        let journal = lab.journal();
        let uid = lab.submit(&journal, "take", Options::default()).await;
        let (durable, executor) = lab.process(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(1)).await;
        node.stop().await;
        durable.cancel(uid, "ann").await.expect("it is known");

        let (durable, executor) = lab.clone().with_program(2).process(journal);
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let status = durable.status(uid).await.expect("it is known");
        let reason = status.flow.reason.unwrap_or_default();
        assert!(reason.contains("test.lab:1:take: the parameters cannot be read"), "{reason}");
        assert_eq!((status.ending, lab.counted("taken")), (None, 1));
        node.stop().await;
    });
}

/// Stages that only the value knows; each program has others.
fn stages(steps: &Steps<Bank, Nothing>, bank: &Bank) -> Returns<String> {
    let program = bank.program;
    steps
        .run("count", async |cx, ()| {
            deals(cx, ()).await?;
            Ok(2)
        })
        .recorded()
        .dynamic("stages", move |steps, count| match program {
            "panics" => panic!("no {count} stages"),
            "other" => stage(steps, ["three", "four"]),
            _ => stage(steps, ["one", if count == 2 { "two" } else { "three" }]),
        })
        .then("end", async |_, _| Ok("done".to_owned()))
        .recorded()
        .returns()
}

fn stage(steps: &Steps<Bank, Nothing>, names: [&'static str; 2]) -> Returns<()> {
    let [first, second] = names;
    let first = steps.run(first, deals).recorded().undo(undoes);
    first.then(second, deals).recorded().undo(undoes).returns()
}

#[test]
fn dynamic_steps_are_defined_from_their_value_to_be_compared() {
    run(async {
        let reasons = [
            ("", ""),
            ("other", "/stages/one is recorded, and the program has only"),
            ("panics", "its steps cannot be defined again"),
        ];
        for (program, expected) in reasons {
            let mut paused = 0;
            for append in 1..6 {
                let bank = Bank::new(stages);
                let journal = bank.journal();
                let uid = bank.submit(&journal, Options::default()).await;
                let crash = Crash { append, kind: Kind::AfterStored };
                if bank.crash(&journal, uid, crash).await.is_some()
                    || ended(&bank, &journal, uid).await.is_some()
                {
                    break;
                }
                let divergence = checked(&bank.process(program, None), &journal).await;
                let (durable, _) = bank.serve(journal.clone());
                let records = durable.records(uid).await.expect("it is known");
                let is_stage = |path: &str| path.contains("/stages/");
                let has_stages = records.iter().any(|it| is_stage(it.record.path.as_str()));
                let is_recorded = has_stages && !expected.is_empty();
                let reason = divergence.unwrap_or_default();
                assert_eq!(is_recorded, !reason.is_empty(), "{program}, {crash:?}: {reason}");
                assert!(reason.contains(expected) || !is_recorded, "{program}: {reason}");
                if !is_recorded {
                    continue;
                }
                let end = bank.process(program, None).replay(&journal, uid).await;
                assert!(matches!(&end, End::Paused(why) if *why == reason), "{end:?}");
                paused += 1;
                resume(&bank, &journal, uid).await;
                let end = bank.replay(&journal, uid).await;
                assert!(matches!(end, End::Ended(Ending::Completed(_))), "{end:?}");
                assert_eq!(bank.kept(), ["order-count", "order-stages/one", "order-stages/two"]);
            }
            assert!(expected.is_empty() || paused >= 2, "{program} was paused {paused} times");
        }
    });
}
