//! Loops whose iterations survive a crash.

use std::time::Duration;

use asyncsteps_core::Retry;
use asyncsteps_durable::{Options, Recorded, Repeatable};
use asyncsteps_executor::{Cx, Next, Returns, Steps};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::{Event, Journal, Limits};

use crate::lab::{Lab, Nothing, at_each_record, result, soon};
use crate::node::{Crash, Kind, Until, run, run_until};

fn lab() -> Lab {
    Lab::new(|durable, functions| {
        durable.on(functions, "sum", sum);
        durable.on(functions, "long", long);
        durable.on(functions, "saga", saga);
        durable.on(functions, "fails", fails);
        durable.on(functions, "scopes", scopes);
        durable.on(functions, "again", again);
        durable.on(functions, "vague", vague);
    })
}

/// Adds up 0 to 4: each number is counted by a step, and handed on by another one.
fn sum(asi: &mut Steps<Lab, Nothing>) -> Returns<i32> {
    asi.repeat("loop", (0, 0), |asi, (number, sum): (i32, i32)| {
        asi.run("count", async move |cx, ()| {
            soon().await;
            cx.count(format!("count {number}"));
            cx.count(cx.key().rsplit('-').next().unwrap_or_default());
            Ok(number)
        })
        .recorded()
        .then("add", async move |_, number| {
            soon().await;
            let sum = sum + number;
            Ok(if number == 4 { Next::Break(sum) } else { Next::Continue((number + 1, sum)) })
        })
        .recorded()
        .into()
    })
    .recorded()
    .then("after", async |cx, sum| {
        cx.count("after");
        Ok(sum)
    })
    .recorded()
    .into()
}

#[test]
fn an_iteration_that_ended_is_not_done_again() {
    run(at_each_record(
        lab,
        "sum",
        async |_, _| {},
        |lab, ending, crash| {
            assert_eq!(result::<i32>(ending), 10, "{crash:?}");
            let counts = (0..5).map(|number| lab.counted(&format!("count {number}")));
            let (done, again) = (counts.clone().filter(|count| *count > 0), counts);
            assert_eq!(done.count(), 5, "{crash:?}");
            assert!(again.sum::<u32>() <= 6, "only the step whose record was lost: {crash:?}");
            assert!(lab.counted("loop#3/count") >= 1, "a key has the iteration: {crash:?}");
        },
    ));
}

/// 100,000 in the long run of the tests.
fn iterations() -> i32 {
    if std::env::var_os("LONG_TESTS").is_some() { 100_000 } else { 2_000 }
}

fn long(asi: &mut Steps<Lab, Nothing>) -> Returns<i32> {
    asi.repeat("loop", 0, |asi, number: i32| {
        asi.run("count", async move |_, ()| Ok(number + 1)).recorded();
        asi.run("next", async move |_, number: i32| {
            Ok(if number == iterations() { Next::Break(number) } else { Next::Continue(number) })
        })
        .repeatable()
        .into()
    })
    .recorded()
    .into()
}

#[test]
fn a_loop_has_as_many_iterations_as_it_likes_and_keeps_the_records_of_one() {
    run(async {
        let lab = lab();
        let records = Limits::default().records.min(u64::from(iterations().unsigned_abs()) / 10);
        let journal = lab.journal().limits(Limits { records, ..Limits::default() });
        let uid = lab.submit(&journal, "long", Options::default()).await;
        let crash = Crash { append: iterations().unsigned_abs() as usize, kind: Kind::AfterStored };
        let crashed = run_until(&journal, |journal| lab.process(journal), uid, Some(crash)).await;
        assert!(matches!(crashed, Until::Crashed));
        let records = journal.load(uid).await.expect("it is known").records;
        assert!(records.len() <= 4, "{records:?}");
        let (ending, _) = lab.ended(&journal, uid, &[]).await;
        assert_eq!(result::<i32>(&ending), iterations());
    });
}

/// Each iteration takes something, which is given back when the step after the loop fails.
fn saga(asi: &mut Steps<Lab, Nothing>) -> Returns<String> {
    asi.repeat("loop", 0, |asi, number: i32| {
        // only the first and the third one can be undone
        let step = asi.run("take", async move |cx: &Cx<Lab, Nothing>, ()| {
            soon().await;
            cx.count(format!("take {number}"));
            Ok(number + 1)
        });
        let step = step.recorded();
        let step = match number {
            0 | 2 => step.undo(async move |cx, _| {
                cx.count(format!("undo {number}"));
                soon().await;
                Ok(())
            }),
            _ => step,
        };
        let next = async |_: &Cx<Lab, Nothing>, number| {
            Ok(if number == 4 { Next::Break(()) } else { Next::Continue(number) })
        };
        step.then("next", next).repeatable().into()
    })
    .recorded();
    asi.run("fail", async |_, ()| {
        soon().await;
        Err::<String, _>("it fails".into())
    })
    .recorded()
    .into()
}

#[test]
fn what_iterations_did_is_undone_when_a_later_step_fails() {
    run(at_each_record(
        lab,
        "saga",
        async |_, _| {},
        |lab, ending, crash| {
            assert!(matches!(ending, Ending::Failed(_)), "{ending:?}: {crash:?}");
            for number in 0..4 {
                assert!(lab.counted(&format!("take {number}")) >= 1, "{crash:?}");
                let undone = lab.counted(&format!("undo {number}"));
                let expected = if number % 2 == 0 { 1..=2 } else { 0..=0 };
                assert!(expected.contains(&undone), "{number} undone {undone} times: {crash:?}");
            }
        },
    ));
}

/// The third iteration fails in its second step, twice; the loop is tried again as a whole.
fn fails(asi: &mut Steps<Lab, Nothing>) -> Returns<i32> {
    asi.repeat("loop", 0, |asi, number: i32| {
        asi.run("take", async move |cx: &Cx<Lab, Nothing>, ()| {
            soon().await;
            cx.count(format!("take {number}"));
            Ok(())
        })
        .recorded()
        .undo(async move |cx, _| {
            soon().await;
            cx.count(format!("undo {number}"));
            Ok(())
        });
        asi.run("check", async move |cx: &Cx<Lab, Nothing>, ()| {
            soon().await;
            cx.count(format!("check {number}"));
            match number {
                2 if cx.counted("check 2") < 3 => Err("not yet".into()),
                3 => Ok(Next::Break(number)),
                _ => Ok(Next::Continue(number + 1)),
            }
        })
        .recorded()
        .into()
    })
    .retry(Retry::attempts(5).backoff(Duration::from_millis(50)).on_code("InternalError"))
    .recorded()
    .into()
}

#[test]
fn a_loop_that_is_tried_again_begins_anew_after_its_iterations_were_undone() {
    run(at_each_record(
        lab,
        "fails",
        async |_, _| {},
        |lab, ending, crash| {
            assert_eq!(result::<i32>(ending), 3, "{crash:?}");
            for number in 0..4 {
                let (taken, undone) = (
                    lab.counted(&format!("take {number}")),
                    lab.counted(&format!("undo {number}")),
                );
                assert!(taken > 0, "{crash:?}");
                // a step or an undo whose record was lost is done again
                assert!(taken.abs_diff(undone) <= 2, "{number}: {taken} - {undone}: {crash:?}");
            }
        },
    ));
}

/// Iterations with undo inside of a scope, whose end is final.
fn scopes(asi: &mut Steps<Lab, Nothing>) -> Returns<()> {
    asi.repeat("loop", 0, |asi, number: i32| {
        asi.scope("whole", move |asi, ()| {
            asi.run("take", async |_, ()| Ok(())).recorded().undo(async |_, _| Ok(()));
            asi.run("next", async move |_, ()| {
                Ok(if number == 99 { Next::Break(()) } else { Next::Continue(number + 1) })
            })
            .recorded()
            .into()
        })
        .into()
    })
    .recorded();
    asi.run("after", async |cx, ()| {
        cx.count("after");
        std::future::pending().await
    })
    .recorded()
    .into()
}

#[test]
fn a_scope_that_ended_leaves_no_records_of_an_iteration() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "scopes", Options::default()).await;
        let (durable, executor) = lab.process(journal.clone());
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        while lab.counted("after") == 0 {
            soon().await;
        }
        let records = journal.load(uid).await.expect("it is known").records;
        let events: Vec<&Event> = records.iter().map(|stored| &stored.record.event).collect();
        assert!(matches!(events[..], [Event::Started(_), Event::Outcome(_)]), "{events:?}");
    });
}

/// A loop in a loop.
fn again(asi: &mut Steps<Lab, Nothing>) -> Returns<i32> {
    asi.repeat("outer", 0, |asi, outer: i32| {
        asi.repeat("inner", 0, move |asi, inner: i32| {
            asi.run("count", async move |cx, ()| {
                soon().await;
                cx.count(format!("{outer} {inner}"));
                Ok(if inner == 2 { Next::Break(outer + 1) } else { Next::Continue(inner + 1) })
            })
            .recorded()
            .into()
        })
        .recorded()
        .then("next", async |_, next| {
            Ok(if next == 3 { Next::Break(next) } else { Next::Continue(next) })
        })
        .repeatable()
        .into()
    })
    .recorded()
    .into()
}

#[test]
fn a_loop_in_a_loop_goes_on_in_both() {
    run(at_each_record(
        lab,
        "again",
        async |_, _| {},
        |lab, ending, crash| {
            assert_eq!(result::<i32>(ending), 3, "{crash:?}");
            let pairs = (0..9).map(|pair| lab.counted(&format!("{} {}", pair / 3, pair % 3)));
            assert!(pairs.clone().all(|count| count > 0), "{crash:?}");
            assert!(pairs.sum::<u32>() <= 10, "{crash:?}");
        },
    ));
}

fn vague(asi: &mut Steps<Lab, Nothing>) -> Returns<i32> {
    asi.repeat("loop", 0, |asi, number: i32| {
        asi.run("end", async move |_, ()| Ok(Next::Break(number))).recorded().into()
    })
    .into()
}

#[test]
fn a_loop_says_that_its_state_is_recorded() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "vague", Options::default()).await;
        let (ending, _) = lab.ended(&journal, uid, &[]).await;
        let Ending::Failed(failure) = ending else { panic!("{ending:?}") };
        assert_eq!(failure.code, "InternalError");
    });
}
