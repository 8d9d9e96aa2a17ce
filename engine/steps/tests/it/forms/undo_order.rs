//! The order of undos when something else ends a step that waits for its undo (FTN12 §1.2, §1.3).

use std::time::Duration;

use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{AsyncSteps, Error, Flow, Undo};

use crate::forms::support::{Log, ms, pause, tool};

/// Adds a step that is done after 10 ms, and its undo, which takes `undo`.
fn book(asi: &mut AsyncSteps, (tool, log): (&Manual, &Log), number: u32, undo: Duration) {
    let (clock, books) = (tool.clone(), log.clone());
    let (undo_clock, undoes) = (tool.clone(), log.clone());
    asi.run(async move |()| {
        books.add(format_args!("+{number}"));
        pause(&clock, ms(10)).await;
        Ok(number)
    })
    .undo(async move |_: Undo<&u32>| {
        undoes.add(format_args!("[{number}"));
        pause(&undo_clock, undo).await;
        undoes.add(format_args!("-{number}"));
        Ok(())
    });
    asi.add(|_, _: u32| {});
}

/// Adds a step that books and fails; its handler recovers.
fn fail(asi: &mut AsyncSteps, (tool, log): (&Manual, &Log), number: u32, undo: Duration) {
    let (clock, books, handles) = (tool.clone(), log.clone(), log.clone());
    asi.add(move |asi, ()| {
        book(asi, (&clock, &books), number, undo);
        asi.error_step(Error::new("Fails"));
    })
    .on_error(move |asi, error| {
        handles.add(error.code());
        asi.success(())
    });
}

/// The log of a flow that is run to its end, and that of its undos; it may be cancelled.
fn run(tool: &Manual, log: &Log, flow: Flow, cancel: Option<Duration>) -> String {
    let mut promise = flow.promise::<(), _>(tool);
    let canceller = promise.canceller();
    if let Some(at) = cancel {
        tool.deferred(at, move || canceller.cancel());
    }
    let ended = tool.complete(promise).expect("it ends");
    log.add(ended.as_ref().map_or_else(Error::code, |()| "ok"));
    let clock = tool.clone();
    let _ = tool.complete(Box::pin(async move { pause(&clock, ms(2000)).await }));
    log.take()
}

#[test]
fn a_limit_waits_for_the_undo_that_it_interrupts() {
    for (hard, expected) in [(false, "+1 +2 [2 -2 Timeout ok"), (true, "+1 +2 [2 -2 [1 -1 Timeout")]
    {
        let (tool, log) = (tool(), Log::default());
        let mut flow = Flow::new();
        book(flow.steps(), (&tool, &log), 1, ms(5));
        let (clock, books) = (tool.clone(), log.clone());
        let mut step = flow.add(move |asi, ()| {
            if !hard {
                asi.set_timeout(ms(50));
            }
            fail(asi, (&clock, &books), 2, ms(200));
        });
        if hard {
            step.timeout(ms(50));
        }
        assert_eq!(run(&tool, &log, flow, None), expected);
    }
}

#[test]
fn the_handler_of_a_limited_step_follows_the_undo_inside() {
    let (tool, log) = (tool(), Log::default());
    let (clock, books, handles) = (tool.clone(), log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| fail(asi, (&clock, &books), 2, ms(200))).timeout(ms(50)).on_error(
        move |asi, error| {
            handles.add(error.code());
            asi.success(())
        },
    );
    assert_eq!(run(&tool, &log, flow, None), "+2 [2 -2 Timeout ok");
}

#[test]
fn undos_of_two_branches_run_beside_each_other_before_older_ones() {
    for (first, second, ends) in [(60, 200, "-2 -3"), (200, 60, "-3 -2")] {
        let (tool, log) = (tool(), Log::default());
        let mut flow = Flow::new();
        book(flow.steps(), (&tool, &log), 1, ms(5));
        let (clock, books) = (tool.clone(), log.clone());
        flow.parallel(move |p| {
            for (number, undo) in [(2, first), (3, second)] {
                let (clock, books) = (clock.clone(), books.clone());
                p.add(move |asi, ()| fail(asi, (&clock, &books), number, ms(undo)));
            }
        });
        let expected = format!("+1 +2 +3 [2 [3 InternalError {ends} [1 -1");
        assert_eq!(run(&tool, &log, flow, Some(ms(40))), expected);
    }
}

#[test]
fn a_sibling_that_ends_a_branch_waits_for_its_undo() {
    for (breaks, expected) in [(false, "+1 +2 [2 -2 [1 -1 Late"), (true, "+1 +2 [2 -2 [1 -1 End")] {
        let (tool, log) = (tool(), Log::default());
        let mut flow = Flow::new();
        book(flow.steps(), (&tool, &log), 1, ms(5));
        let (clock, books) = (tool.clone(), log.clone());
        flow.steps().make_loop(move |asi| {
            let (clock, books) = (clock.clone(), books.clone());
            asi.parallel(move |p| {
                p.add(move |asi, ()| fail(asi, (&clock, &books), 2, ms(200)));
                p.add(move |asi, ()| {
                    asi.sleep(ms(50));
                    asi.add(
                        move |asi, ()| {
                            if breaks { asi.break_loop(None) } else { asi.error("Late", ()) }
                        },
                    );
                });
            });
        });
        flow.error_step(Error::new("End"));
        assert_eq!(run(&tool, &log, flow, None), expected);
    }
}

#[test]
fn no_cut_reaches_an_undo_that_runs() {
    for (cut, expected) in [
        ("limit of a step", "+1 +2 [2 -2 [1 -1 Timeout"),
        ("limit of the flow", "+1 +2 [2 Timeout -2 [1 -1"),
        ("cancel", "+1 +2 [2 -2 [1 -1"),
        ("drop", "+1 +2 [2 -2 [1 -1"),
    ] {
        let (tool, log) = (tool(), Log::default());
        let (clock, books) = (tool.clone(), log.clone());
        let mut flow = Flow::new();
        let mut whole = flow.add(move |asi, ()| {
            book(asi, (&clock, &books), 1, ms(5));
            let (clock, books) = (clock.clone(), books.clone());
            // the undo inside takes from 30 ms to 230 ms
            asi.add(move |asi, ()| fail(asi, (&clock, &books), 2, ms(200)));
        });
        match cut {
            "limit of a step" => _ = whole.timeout(ms(100)),
            "limit of the flow" => _ = whole.ends_flow_after(ms(100)),
            _ => {}
        }
        let mut promise = flow.promise::<(), _>(&tool);
        let canceller = promise.canceller();
        let (stop, books) = (tool.clone(), log.clone());
        let task = tool.spawn(async move {
            if let Err(error) = promise.await
                && error.code() == "Timeout"
            {
                books.add("Timeout");
            }
        });
        tool.deferred(ms(100), move || match cut {
            "cancel" => canceller.cancel(),
            "drop" => stop.cancel(&task),
            _ => {}
        });
        let clock = tool.clone();
        let _ = tool.complete(Box::pin(async move { pause(&clock, ms(2_000)).await }));
        assert_eq!(log.take(), expected, "{cut}");
    }
}
