//! Steps that do several things at once: what is done is not done again.

use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::Options;
use asyncsteps_executor::{Cx, Returns, Steps};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::FlowState;
use asyncsteps_journal::{Event, Journal};

use crate::bank::{Bank, End, Planned, deals, undoes};
use crate::lab::{Lab, Nothing, at_each_record, result, soon};
use crate::node::{Crash, Kind, Until, run, run_until};

fn lab() -> Lab {
    Lab::with_programs(|program, durable, functions| {
        durable.on(functions, "keyed", move |steps: &Steps<_, _>| keyed(steps, program));
        durable.on(functions, "twice", twice);
        durable.on(functions, "join", join);
        durable.on(functions, "race", race);
    })
}

/// The second program has the items in another order, the third one other items.
fn keyed(steps: &Steps<Lab, Nothing>, program: u32) -> Returns<Vec<String>> {
    steps
        .each_by(
            "item",
            move |_, ()| items(program),
            ToString::to_string,
            |item| {
                item.run("count", async |cx, item| {
                    soon().await;
                    cx.count(cx.key().rsplit('-').next().unwrap_or_default());
                    Ok(item.to_owned())
                })
                .recorded()
                .returns()
            },
        )
        .at_once(1)
        .returns()
}

fn items(program: u32) -> Vec<&'static str> {
    match program {
        1 => vec!["apple", "pear", "plum"],
        2 => vec!["plum", "apple", "pear"],
        _ => vec!["plum", "apple", "cherry"],
    }
}

/// A process with the first program crashes behind the second item.
async fn interrupted(lab: &Lab) -> (asyncsteps_journal::memory::Memory, asyncsteps_journal::Uid) {
    let journal = lab.journal();
    let uid = lab.submit(&journal, "keyed", Options::default()).await;
    let crash = Some(Crash { append: 3, kind: Kind::AfterStored });
    let crashed = run_until(&journal, |journal| lab.process(journal), uid, crash).await;
    assert!(matches!(crashed, Until::Crashed));
    (journal, uid)
}

#[test]
fn items_are_known_by_their_keys_in_whatever_order_they_come() {
    run(async {
        let lab = lab();
        let (journal, uid) = interrupted(&lab).await;
        let (ending, _) = lab.clone().with_program(2).ended(&journal, uid, &[]).await;
        assert_eq!(result::<Vec<String>>(&ending), ["apple", "pear", "plum"]);
        for item in ["apple", "pear", "plum"] {
            assert_eq!(lab.counted(&format!("item#{item}/count")), 1, "{item}");
        }
    });
}

#[test]
fn other_items_than_those_that_were_recorded_pause_the_request() {
    run(async {
        let lab = lab();
        let (journal, uid) = interrupted(&lab).await;
        let (durable, executor) = lab.clone().with_program(3).process(journal);
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let flow = durable.status(uid).await.expect("it is known").flow;
        assert_eq!(flow.state, FlowState::Paused);
        let reason = flow.reason.unwrap_or_default();
        assert!(reason.contains("[pear] are recorded, [cherry] are new"), "{reason}");
        assert_eq!(lab.counted("item#cherry/count"), 0);
    });
}

fn twice(steps: &Steps<Lab, Nothing>) -> Returns<Vec<i32>> {
    steps
        .each_by(
            "item",
            |_, ()| vec!["a", "b", "a"],
            ToString::to_string,
            |item| {
                item.run("count", async |cx, _| {
                    cx.count("item");
                    Ok(1)
                })
                .recorded()
                .returns()
            },
        )
        .recover(async |cx, error| {
            cx.count(error.info().unwrap_or_default());
            Ok(Vec::new())
        })
        .returns()
}

#[test]
fn a_key_that_comes_twice_is_an_error_with_both_places() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "twice", Options::default()).await;
        let (ending, _) = lab.ended(&journal, uid, &[]).await;
        assert!(result::<Vec<i32>>(&ending).is_empty());
        assert_eq!(lab.counted("the items 0 and 2 have the same key `a`"), 1);
        assert_eq!(lab.counted("item"), 0);
    });
}

fn join(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    steps
        .join("book", |all| {
            let flight = all.run("flight", async |cx, ()| {
                soon().await;
                cx.count("flight");
                Ok(1)
            });
            let hotel = all.run("hotel", async |cx, ()| {
                tokio::time::sleep(Duration::from_millis(50)).await;
                cx.count("hotel");
                Ok("hotel".to_owned())
            });
            let car = all.run("car", async |cx, ()| {
                tokio::time::sleep(Duration::from_millis(100)).await;
                cx.count("car");
                Ok(())
            });
            (flight.recorded(), hotel.recorded(), car.recorded())
        })
        .then("after", async |_, (flight, hotel, ())| Ok(format!("{flight} {hotel}")))
        .recorded()
        .returns()
}

#[test]
fn parts_of_a_join_that_ended_are_not_done_again() {
    run(at_each_record(
        lab,
        "join",
        async |_, _| {},
        |lab, ending, crash| {
            assert_eq!(result::<String>(ending), "1 hotel", "{crash:?}");
            let parts = ["flight", "hotel", "car"].map(|part| lab.counted(part));
            assert!(parts.iter().all(|count| *count >= 1), "{parts:?}: {crash:?}");
            // no more than the one whose record was lost
            assert!(parts.iter().sum::<u32>() <= 4, "{parts:?}: {crash:?}");
        },
    ));
}

fn race(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    steps
        .race(
            "ask",
            |_, ()| vec!["slow", "fast", "last"],
            |item| item.run("answer", answers).recorded(),
        )
        .then("after", async |cx, mut winners| {
            soon().await;
            let winner = winners.remove(0);
            cx.count(format!("effect of {winner}"));
            Ok(winner)
        })
        .recorded()
        .returns()
}

async fn answers(cx: &Cx<Lab, Nothing>, name: &'static str) -> BodyResult<String> {
    let pause = match name {
        "fast" => 20,
        "slow" => 40,
        _ => 60,
    };
    cx.count(format!("asked {name}"));
    // the second process answers the other way round
    let pause = if cx.counted("won") == 0 { pause } else { 100 - pause };
    tokio::time::sleep(Duration::from_millis(pause)).await;
    cx.count("won");
    Ok(name.to_owned())
}

#[test]
fn a_race_that_was_decided_stays_so() {
    run(at_each_record(
        lab,
        "race",
        async |_, _| {},
        |lab, ending, crash| {
            let winner: String = result(ending);
            let effects = ["slow", "fast", "last"].map(|name| {
                let effects = lab.counted(&format!("effect of {name}"));
                (effects > 0) == (name == winner)
            });
            assert_eq!(effects, [true; 3], "one winner has effects: {crash:?}");
        },
    ));
}

#[test]
fn the_winner_of_a_race_is_recorded_with_its_place() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "race", Options::default()).await;
        let (ending, _) = lab.ended(&journal, uid, &[]).await;
        assert!(matches!(ending, Ending::Completed(_)), "{ending:?}");
        let records = journal.load(uid).await.expect("it is known").records;
        let done = records.iter().filter(|stored| matches!(stored.record.event, Event::Done(_)));
        let paths: Vec<_> = done.map(|stored| stored.record.path.to_string()).collect();
        let expected = ["ask@1/answer", "after"].map(|step| format!("test.lab:1:race/{step}"));
        assert_eq!(paths, expected);
    });
}

/// A supplier reserves something, and confirms it after this time.
fn offer(supplier: &Steps<Bank, Nothing, u64>) -> Returns<u64> {
    supplier
        .run("reserve", deals)
        .recorded()
        .undo(undoes)
        .then("confirm", async |_, millis| {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Ok(millis)
        })
        .recorded()
        .returns()
}

async fn ends(cx: &Cx<Bank, Nothing>, winners: Vec<u64>) -> BodyResult<String> {
    soon().await;
    if cx.program == "fails" { Err("NoEnd".into()) } else { Ok(format!("{winners:?}")) }
}

fn first(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let race = steps.race("ask", |_, ()| vec![300, 100, 100_000_000], offer);
    race.then("end", ends).recorded().returns()
}

fn in_time(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let race = steps.race("ask", |_, ()| vec![300, 100, 100_000_000], offer);
    let race = race.first(3).within(Duration::from_secs(100));
    race.then("end", ends).recorded().returns()
}

#[test]
fn those_that_lose_a_race_are_undone_whatever_crashes() {
    run(async {
        let races: [(Planned, &str, &[&str]); 3] = [
            (first, "", &["order-ask#1/reserve"]),
            (in_time, "", &["order-ask#0/reserve", "order-ask#1/reserve"]),
            (in_time, "fails", &[]),
        ];
        for (race, program, expected) in races {
            let mut crashes = 0;
            for kind in [Kind::BeforeStored, Kind::AfterStored] {
                for append in 1.. {
                    let bank = Bank::new(race).process(program, None);
                    let journal = bank.journal();
                    let uid = bank.submit(&journal, Options::default()).await;
                    let crash = Crash { append, kind };
                    if bank.crash(&journal, uid, crash).await.is_some() {
                        break;
                    }
                    crashes += 1;
                    let end = bank.replay(&journal, uid).await;
                    let entries = bank.entries();
                    assert!(matches!(end, End::Ended(_)), "{crash:?}: {end:?}, {entries:?}");
                    assert_eq!(bank.kept(), expected, "{crash:?}: {end:?}, {entries:?}");
                }
            }
            assert!(crashes >= 10, "{crashes} crashes");
        }
    });
}
