//! Loops whose iterations survive a crash.

use std::ops::ControlFlow;
use std::time::Duration;

use asyncsteps_core::{BodyResult, Retry, Undo};
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Either, Executor, Returns, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::{Event, Journal, Limits, TokioClock};

use crate::lab::{Lab, Nothing, at_each_record, result, soon};
use crate::node::{Crash, Kind, Until, run, run_until};

fn lab() -> Lab {
    Lab::new(|durable, functions| {
        durable.on(functions, "sum", sum);
        durable.on(functions, "long", long);
        durable.on(functions, "saga", saga);
        durable.on(functions, "dynamic", dynamic);
        durable.on(functions, "fails", fails);
        durable.on(functions, "scopes", scopes);
        durable.on(functions, "again", again);
    })
}

type Turn<B> = ControlFlow<B, i32>;

/// Where a loop begins.
async fn zero(_: &Cx<Lab, Nothing>, (): ()) -> BodyResult<i32> {
    Ok(0)
}

/// Adds up 0 to 4: each number is counted by a step, and handed on by another one.
fn sum(steps: &Steps<Lab, Nothing>) -> Returns<i32> {
    steps
        .run("begin", async |_, ()| Ok((0, 0)))
        .repeatable()
        .then_repeat("loop", |turn| {
            turn.run("count", async |cx, (number, sum): (i32, i32)| {
                soon().await;
                cx.count(format!("count {number}"));
                cx.count(cx.key().rsplit('-').next().unwrap_or_default());
                Ok((number, sum))
            })
            .recorded()
            .then("add", async |_, (number, sum)| {
                soon().await;
                Ok((number + 1, sum + number))
            })
            .recorded()
            .then("next", async |_, (number, sum)| {
                Ok(match number {
                    5 => ControlFlow::Break(sum),
                    _ => ControlFlow::Continue((number, sum)),
                })
            })
            .repeatable()
            .returns()
        })
        .recorded_with_input()
        .then("after", async |cx, sum| {
            cx.count("after");
            Ok(sum)
        })
        .recorded()
        .returns()
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

fn long(steps: &Steps<Lab, Nothing>) -> Returns<i32> {
    steps
        .run("begin", zero)
        .repeatable()
        .then_repeat("loop", |turn| {
            turn.run("count", async |_, number| Ok(number + 1))
                .recorded()
                .then("next", async |_, number| Ok(until(iterations(), number)))
                .repeatable()
                .returns()
        })
        .recorded_with_input()
        .returns()
}

/// The loop ends with the last number.
const fn until(last: i32, number: i32) -> Turn<i32> {
    if number == last { ControlFlow::Break(number) } else { ControlFlow::Continue(number) }
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
fn saga(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    steps
        .run("begin", zero)
        .repeatable()
        .then_repeat("loop", |turn| {
            // only the first and the third one can be undone
            turn.run("way", async |_, number| {
                Ok(if number == 0 || number == 2 { Either::A(number) } else { Either::B(number) })
            })
            .recorded()
            .either(
                "either",
                |one| {
                    one.run("take", takes).recorded_with_input().undo_taking(gives_back).returns()
                },
                |other| other.run("take", takes).recorded().returns(),
            )
            .then("next", async |_, number| Ok(until(4, number + 1)))
            .repeatable()
            .returns()
        })
        .recorded_with_input()
        .then("fail", async |_, _| {
            soon().await;
            Err::<String, _>("it fails".into())
        })
        .recorded()
        .returns()
}

async fn takes(cx: &Cx<Lab, Nothing>, number: i32) -> BodyResult<i32> {
    soon().await;
    cx.count(format!("take {number}"));
    Ok(number)
}

/// Its undo.
async fn gives_back(cx: &Cx<Lab, Nothing>, number: &i32, _: Undo<&i32>) -> BodyResult<()> {
    soon().await;
    cx.count(format!("undo {number}"));
    soon().await;
    Ok(())
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

/// The same with steps that only a value knows.
fn dynamic(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    steps
        .run("begin", zero)
        .repeatable()
        .then_repeat("loop", |turn| {
            turn.run("which", async |_, number| Ok(number))
                .recorded()
                .dynamic("take", |steps, number| {
                    let take = steps.run("take", async move |cx, ()| takes(cx, number).await);
                    take.recorded().undo(async move |cx, _| {
                        cx.count(format!("undo {number}"));
                        soon().await;
                        Ok(())
                    })
                })
                .then("next", async |_, number| Ok(until(2, number + 1)))
                .repeatable()
                .returns()
        })
        .recorded_with_input()
        .then("fail", async |_, _| Err::<String, _>("it fails".into()))
        .recorded()
        .returns()
}

#[test]
fn what_dynamic_steps_of_iterations_did_is_undone_when_a_later_step_fails() {
    run(at_each_record(
        lab,
        "dynamic",
        async |_, _| {},
        |lab, ending, crash| {
            assert!(matches!(ending, Ending::Failed(_)), "{ending:?}: {crash:?}");
            for number in 0..2 {
                assert!(lab.counted(&format!("take {number}")) >= 1, "{crash:?}");
                let undone = lab.counted(&format!("undo {number}"));
                assert!((1..=2).contains(&undone), "{number} undone {undone} times: {crash:?}");
            }
        },
    ));
}

/// The third iteration fails in its second step, twice; the loop is tried again as a whole.
fn fails(steps: &Steps<Lab, Nothing>) -> Returns<i32> {
    let retry = Retry::attempts(5).backoff(Duration::from_millis(50)).on_code("InternalError");
    steps
        .run("begin", zero)
        .repeatable()
        .then_repeat("loop", |turn| {
            turn.run("take", takes)
                .recorded_with_input()
                .undo_taking(gives_back)
                .then("check", async |cx, number| {
                    soon().await;
                    cx.count(format!("check {number}"));
                    match number {
                        2 if cx.counted("check 2") < 3 => Err("not yet".into()),
                        _ => Ok(number),
                    }
                })
                .recorded()
                .then("next", async |_, number| {
                    Ok(match number {
                        3 => Turn::Break(number),
                        _ => Turn::Continue(number + 1),
                    })
                })
                .repeatable()
                .returns()
        })
        .retry(retry)
        .recorded_with_input()
        .returns()
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
fn scopes(steps: &Steps<Lab, Nothing>) -> Returns<()> {
    let whole = |turn: &Steps<_, _, _>| {
        turn.run("take", async |_, number| Ok(number))
            .recorded()
            .undo(async |_, _| Ok(()))
            .then("count", async |_, number| Ok(number + 1))
            .recorded()
            .returns()
    };
    steps
        .run("begin", zero)
        .repeatable()
        .then_repeat("loop", |turn| {
            turn.scope("whole", whole)
                .then("next", async |_, number| Ok(until(100, number)))
                .repeatable()
                .returns()
        })
        .recorded_with_input()
        .then("after", async |cx, _| {
            cx.count("after");
            std::future::pending().await
        })
        .recorded()
        .returns()
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
fn again(steps: &Steps<Lab, Nothing>) -> Returns<i32> {
    steps
        .run("begin", zero)
        .repeatable()
        .then_repeat("outer", |turn| {
            turn.run("first", async |_, outer| Ok((outer, 0)))
                .repeatable()
                .then_repeat("inner", |turn| {
                    turn.run("count", async |cx, (outer, inner): (i32, i32)| {
                        soon().await;
                        cx.count(format!("{outer} {inner}"));
                        Ok((outer, inner + 1))
                    })
                    .recorded()
                    .then("next", async |_, (outer, inner)| {
                        Ok(match inner {
                            3 => ControlFlow::Break(outer + 1),
                            _ => ControlFlow::Continue((outer, inner)),
                        })
                    })
                    .repeatable()
                    .returns()
                })
                .recorded_with_input()
                .then("next", async |_, next| Ok(until(3, next)))
                .repeatable()
                .returns()
        })
        .recorded_with_input()
        .returns()
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

#[test]
fn a_loop_says_that_its_state_is_recorded() {
    let vague = |steps: &Steps<(), Nothing>| {
        steps
            .run("begin", async |_, ()| Ok(0))
            .repeatable()
            .then_repeat("loop", |turn| {
                turn.run("end", async |_, number| Ok(Turn::Break(number))).repeatable().returns()
            })
            .returns()
    };
    let durable = Durable::new(Memory::new(TokioClock::start()));
    let interface = Interface::new("test.vague:1.0".parse().expect("it is a name"));
    let executor = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "vague", vague);
    });
    let mistake = executor.build().expect_err("the loop does not say it").to_string();
    let needs = "`loop` does not say what a crash does to it: `recorded_with_input()`";
    assert!(mistake.contains(needs), "{mistake}");
}
