//! Steps that do several things at once: what is done is not done again.

use std::time::Duration;

use asyncsteps_durable::{Options, Recorded};
use asyncsteps_executor::{Returns, Steps};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::FlowState;
use asyncsteps_journal::{Event, Journal};

use crate::lab::{Lab, Nothing, at_each_record, result, soon};
use crate::node::{Crash, Kind, Until, run, run_until};

fn lab() -> Lab {
    Lab::new(|durable, functions| {
        durable.on(functions, "keyed", keyed);
        durable.on(functions, "twice", twice);
        durable.on(functions, "join", join);
        durable.on(functions, "race", race);
    })
}

/// The second program has the items in another order, the third one other items.
fn keyed(asi: &mut Steps<Lab, Nothing>) -> Returns<Vec<String>> {
    let items = match asi.cx().program {
        1 => ["apple", "pear", "plum"],
        2 => ["plum", "apple", "pear"],
        _ => ["plum", "apple", "cherry"],
    };
    asi.each_by("item", items, ToString::to_string, 1, async |cx, item: &str| {
        soon().await;
        cx.count(cx.key().rsplit('-').next().unwrap_or_default());
        Ok(item.to_owned())
    })
    .recorded()
    .into()
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
            assert_eq!(lab.counted(&format!("item#{item}")), 1, "{item}");
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
        assert_eq!(lab.counted("item#cherry"), 0);
    });
}

fn twice(asi: &mut Steps<Lab, Nothing>) -> Returns<Vec<i32>> {
    asi.each_by("item", ["a", "b", "a"], ToString::to_string, 3, async |cx, _: &str| {
        cx.count("item");
        Ok(1)
    })
    .recorded()
    .recover(async |cx, error| {
        cx.count(error.info().unwrap_or_default());
        Ok(Vec::new())
    })
    .into()
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

fn join(asi: &mut Steps<Lab, Nothing>) -> Returns<String> {
    asi.join3(
        "book",
        async |cx| {
            soon().await;
            cx.count("flight");
            Ok(1)
        },
        async |cx| {
            tokio::time::sleep(Duration::from_millis(50)).await;
            cx.count("hotel");
            Ok("hotel".to_owned())
        },
        async |cx| {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cx.count("car");
            Ok(())
        },
    )
    .recorded()
    .then("after", async |_, (flight, hotel, ())| Ok(format!("{flight} {hotel}")))
    .recorded()
    .into()
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

fn race(asi: &mut Steps<Lab, Nothing>) -> Returns<String> {
    asi.race("ask", ["slow", "fast", "last"], async |cx, name: &str| {
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
    })
    .recorded()
    .then("after", async |cx, winner: String| {
        soon().await;
        cx.count(format!("effect of {winner}"));
        Ok(winner)
    })
    .recorded()
    .into()
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
        let expected = ["ask@1", "ask", "after"].map(|step| format!("test.lab:1:race/{step}"));
        assert_eq!(paths, expected);
    });
}
