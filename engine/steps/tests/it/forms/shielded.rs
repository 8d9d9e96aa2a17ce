//! Steps that nothing outside cancels (FTN12 §1.3).

use std::task::Waker;

use asyncsteps_core::sync::{Limiter, Mutex, limiter};
use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{
    AsyncSteps, Error, Flow, Progress, Retry, RunContext, StepError, Template, Time, Undo, codes,
    sim,
};

use crate::forms::support::{Log, ms, now, pause, run, tool};

/// What ends a step from outside, 50 ms after it began.
const ENDINGS: [&str; 5] = ["cancel", "drop", "timeout", "hard timeout", "branch"];

/// Runs a flow of these steps, ends it so after 50 ms, and lets all that is left run to its end. `ended` is logged at
/// its end, with its code.
fn end_outside(
    ending: &'static str,
    (tool, log): (&Manual, &Log),
    steps: impl FnOnce(&mut AsyncSteps) + 'static,
) {
    let mut flow = Flow::new();
    if ending == "branch" {
        flow.parallel(move |branches| {
            branches.add(|asi, ()| steps(asi));
            branches.add(|asi, ()| {
                asi.sleep(ms(50));
                asi.error_step(Error::new("Fails"));
            });
        });
    } else {
        let added = &mut flow.add(move |asi, ()| {
            if ending == "timeout" {
                asi.set_timeout(ms(50));
            }
            steps(asi);
        });
        if ending == "hard timeout" {
            added.timeout(ms(50));
        }
    }
    let mut promise = flow.promise::<(), _>(tool);
    let canceller = promise.canceller();
    let (clock, ended) = (tool.clone(), log.clone());
    let task = tool.spawn(async move {
        if let Err(error) = promise.await {
            ended.add(format_args!("{}:{}", now(&clock), error.code()));
        }
    });
    let stop = tool.clone();
    tool.deferred(ms(50), move || match ending {
        "cancel" => canceller.cancel(),
        "drop" => stop.cancel(&task),
        _ => {}
    });
    let clock = tool.clone();
    let _ = tool.complete(Box::pin(async move { pause(&clock, ms(1000)).await }));
}

/// How a flow that is ended so is logged.
fn end_of(ending: &str, at: u32) -> String {
    let code = match ending {
        "drop" => return String::new(),
        "branch" => "Fails",
        "cancel" => codes::INTERNAL_ERROR,
        _ => codes::TIMEOUT,
    };
    format!("{at}:{code}")
}

/// A body that takes 100 ms, and notes its begin and its end.
fn body(
    (tool, log): (&Manual, &Log),
    name: &'static str,
) -> impl AsyncFn(()) -> Result<(), StepError> + 'static {
    let (clock, log) = (tool.clone(), log.clone());
    async move |()| {
        log.add(format_args!("{}>{name}", now(&clock)));
        pause(&clock, ms(100)).await;
        log.add(format_args!("{}<{name}", now(&clock)));
        Ok(())
    }
}

#[derive(Clone)]
enum Held {
    Lock(Mutex),
    /// A lock of the step around.
    Outer(Mutex),
    Section(Mutex),
    Place(Limiter),
    /// A place for an attempt, of which there may be several.
    Tried(Limiter),
}

/// Adds a shielded step that is held so.
fn add_held(asi: &mut AsyncSteps, held: &Held, context: (&Manual, &Log), name: &'static str) {
    let body = body(context, name);
    match held.clone() {
        Held::Lock(lock) => _ = asi.run(body).shielded().locked(&lock),
        Held::Place(limiter) => _ = asi.run(body).shielded().limited(&limiter),
        Held::Outer(lock) => {
            asi.add(move |asi, ()| {
                asi.add(move |asi, ()| {
                    asi.run(body).shielded();
                });
            })
            .locked(&lock);
        }
        Held::Section(lock) => {
            asi.sync(&lock, move |asi, ()| {
                asi.run(body).shielded();
            });
        }
        Held::Tried(limiter) => {
            asi.run(body).shielded().limited(&limiter).retry(Retry::attempts(2));
        }
    }
}

#[test]
fn what_a_shielded_step_holds_is_held_until_its_body_has_ended() {
    for ending in ENDINGS {
        let limits = limiter::Options { max_queue: None, rate: 9, ..Default::default() };
        let places = || Limiter::new(limits);
        for held in [
            Held::Lock(Mutex::default()),
            Held::Outer(Mutex::default()),
            Held::Section(Mutex::default()),
            Held::Place(places()),
            Held::Tried(places()),
        ] {
            let (tool, log) = (tool(), Log::default());
            let (clock, books, held_by_other) = (tool.clone(), log.clone(), held.clone());
            let mut second = Flow::new();
            second.add(move |asi, ()| {
                asi.sleep(ms(10));
                asi.add(move |asi, ()| add_held(asi, &held_by_other, (&clock, &books), "b"));
            });
            let second = second.promise::<(), _>(&tool);
            tool.spawn(async move { second.await.expect("the second one enters") });
            let (clock, books) = (tool.clone(), log.clone());
            end_outside(ending, (&tool, &log), move |asi| {
                add_held(asi, &held, (&clock, &books), "a");
            });
            let end = end_of(ending, 50);
            let expected = format!("0>a {end} 100<a 100>b 200<b").replace("  ", " ");
            assert_eq!(log.take(), expected, "{ending}");
        }
    }
}

#[test]
fn a_shielded_step_gives_its_result_and_its_error() {
    let template = Template::build(|asi| {
        asi.run_with(async |cx: RunContext, n: i32| {
            if cx.attempt < 3 {
                Err(Error::new("Flaky"))?;
            }
            Ok((n, cx.attempt))
        })
        .shielded()
        .retry(Retry::attempts(3).backoff(ms(10)).factor(1).on_code("Flaky"));
    });
    let mut flow = template.flow();
    flow.pass(7);
    let (result, took) = run::<(i32, u32)>(flow);
    assert_eq!((result.expect("the third time"), took), ((7, 3), 20));
}

#[test]
fn what_ends_the_step_from_outside_does_not_cut_its_body() {
    for ending in ["cancel", "drop", "timeout", "branch"] {
        let (tool, log) = (tool(), Log::default());
        let (clock, ends) = (tool.clone(), log.clone());
        let mut flow = Flow::new();
        let body = async move |()| {
            pause(&clock, ms(100)).await;
            ends.add("done");
            Ok(())
        };
        if ending == "branch" {
            flow.parallel(move |p| {
                p.run(body).shielded();
                p.add(|asi, ()| {
                    asi.sleep(ms(10));
                    asi.error_step(Error::new("Fails"));
                });
            });
        } else {
            flow.add(move |asi, ()| {
                asi.run(body).shielded();
            })
            .timeout(ms(if ending == "timeout" { 10 } else { 1000 }));
        }
        let mut promise = flow.promise::<(), _>(&tool);
        let canceller = promise.canceller();
        let (clock, ended) = (tool.clone(), log.clone());
        let task = tool.spawn(async move {
            let failed = promise.await.is_err();
            ended.add(format_args!("{}:{failed}", now(&clock)));
        });
        let stop = tool.clone();
        tool.deferred(ms(10), move || match ending {
            "cancel" => canceller.cancel(),
            "drop" => stop.cancel(&task),
            _ => {}
        });
        let clock = tool.clone();
        let _ = tool.complete(Box::pin(async move { pause(&clock, ms(500)).await }));
        let expected = if ending == "drop" { "done" } else { "10:true done" };
        assert_eq!(log.take(), expected, "{ending}");
    }
}

#[test]
fn the_next_step_of_its_flow_waits_for_a_body_that_holds_something() {
    for is_held in [true, false] {
        let (tool, log, mutex) = (tool(), Log::default(), Mutex::default());
        let (first, second) = (body((&tool, &log), "a"), body((&tool, &log), "b"));
        let mut flow = Flow::new();
        let lock = mutex.clone();
        flow.add(move |asi, ()| {
            let mut step = asi.run(first);
            step.shielded();
            if is_held {
                step.locked(&lock);
            }
        })
        .timeout(ms(50))
        .on_error(|asi, _| asi.success(()));
        flow.run(second).locked(&mutex);
        let promise = flow.promise::<(), _>(&tool);
        tool.complete(promise).expect("it ends").expect("it recovers");
        let expected = if is_held { "0>a 100<a 100>b 200<b" } else { "0>a 50>b 100<a 150<b" };
        assert_eq!(log.take(), expected);
    }
}

#[test]
fn a_step_that_ends_well_holds_its_lock_until_the_bodies_inside_have_ended() {
    let (tool, log, mutex) = (tool(), Log::default(), Mutex::default());
    let inside = body((&tool, &log), "a");
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.add(move |asi, ()| {
            asi.run(inside).shielded();
        })
        .timeout(ms(50))
        .on_error(|asi, _| asi.success(7));
    })
    .locked(&mutex);
    flow.add(|asi, n: i32| asi.success(n));
    let clock = tool.clone();
    let lock = mutex.clone();
    let books = log.clone();
    let other = body((&tool, &log), "b");
    flow.add(move |_, n: i32| books.add(format_args!("{}:{n}:{}", now(&clock), lock.holders())));
    let mut second = Flow::new();
    second.add(move |asi, ()| {
        asi.sleep(ms(10));
        asi.run(other).locked(&mutex);
    });
    let second = second.promise::<(), _>(&tool);
    let task = tool.spawn(async move { second.await.expect("it enters") });
    let promise = flow.promise::<(), _>(&tool);
    tool.complete(promise).expect("it ends").expect("it recovers");
    let clock = tool.clone();
    let _ = tool.complete(Box::pin(async move { pause(&clock, ms(500)).await }));
    drop(task);
    assert_eq!(log.take(), "0>a 100<a 100:7:1 100>b 200<b");
}

#[test]
fn another_lock_is_not_held_for_a_body_outside_of_its_step() {
    let (tool, log, mutex) = (tool(), Log::default(), Mutex::default());
    let first = body((&tool, &log), "a");
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.run(first).shielded();
    })
    .timeout(ms(50))
    .on_error(|asi, _| asi.success(()));
    flow.add(|asi, ()| {
        asi.sleep(ms(10));
    })
    .locked(&mutex);
    let promise = flow.promise::<(), _>(&tool);
    tool.complete(promise).expect("it ends").expect("it recovers");
    assert_eq!((now(&tool), mutex.holders()), (60, 0));
    assert_eq!(log.take(), "0>a");
}

#[test]
fn a_body_keeps_the_lock_also_if_the_host_drops_the_flow_that_undoes_it() {
    let (tool, log, mutex) = (tool(), Log::default(), Mutex::default());
    let mut flow = Flow::new();
    flow.run(body((&tool, &log), "a")).shielded().locked(&mutex).undo(async |_| Ok(()));
    let mut execution = flow.execute();
    assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting));
    let mut body = execution.take_launched().into_iter().map(Flow::execute).collect::<Vec<_>>();
    assert!(matches!(body[0].run(Time::ZERO, Waker::noop()), Progress::Waiting));
    execution.cancel();
    let undo = execution.take_launched();
    drop(execution);
    assert_eq!((undo.len(), mutex.holders()), (1, 1));
    drop(undo);
    assert_eq!(mutex.holders(), 1);
    drop(body);
    assert_eq!(mutex.holders(), 0);
}

#[test]
fn a_shielded_step_is_undone_behind_the_end_of_its_body() {
    let unknown = || Error::new("Fails").outcome_unknown();
    for ending in ENDINGS {
        for (result, undone) in [
            (Ok(7), "100:Done(7)"),
            (Err(Error::new("Fails")), ""),
            (Err(unknown()), "100:Unknown"),
        ] {
            let (tool, log) = (tool(), Log::default());
            let (clock, charges) = (tool.clone(), log.clone());
            let (of_undo, refunds) = (tool.clone(), log.clone());
            let has_undo = !undone.is_empty();
            end_outside(ending, (&tool, &log), move |asi| {
                asi.run(async move |()| {
                    pause(&clock, ms(100)).await;
                    charges.add("charge");
                    result.clone().map_err(StepError::from)
                })
                .shielded()
                .undo(async move |outcome: Undo<&i32>| {
                    refunds.add(format_args!("{}:{outcome:?}", now(&of_undo)));
                    Ok(())
                });
                asi.add(|asi, _: i32| asi.success(()));
            });
            let at = if ending == "cancel" { 50 } else { 100 };
            let end = end_of(ending, at);
            let expected = if ending == "cancel" {
                format!("{end} charge {undone}")
            } else {
                format!("charge {undone} {end}")
            };
            let expected = expected.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(log.take(), expected, "{ending} {has_undo}");
        }
    }
}

#[test]
fn its_own_limit_cuts_it_and_there_always_is_one() {
    for (limit, expected) in [(Some(ms(20)), 20), (None, 30_000)] {
        let mut flow = Flow::new();
        let mut step = flow.run(async |()| std::future::pending::<Result<(), _>>().await);
        step.shielded();
        if let Some(limit) = limit {
            step.timeout(limit);
        }
        let (result, took) = run::<()>(flow);
        assert_eq!((result.expect_err("cut").code(), took), (codes::TIMEOUT, expected));
    }
}

#[test]
fn a_shielded_step_can_be_undone() {
    let (tool, log) = (tool(), Log::default());
    let undoes = log.clone();
    let mut flow = Flow::new();
    flow.run(async |()| Ok(7)).shielded().undo(async move |outcome: Undo<&i32>| {
        undoes.add(format_args!("{outcome:?}"));
        Ok(())
    });
    flow.error_step(Error::new("Fails"));
    let promise = flow.promise::<(), _>(&tool);
    assert!(tool.complete(promise).expect("it ends").is_err());
    assert_eq!(log.take(), "Done(7)");
}

#[test]
fn a_shielded_step_that_is_cut_before_its_flow_begins_is_undone() {
    sim::check(0..20, |sim| {
        let (of_body, of_undo) = (Log::default(), Log::default());
        let (body, undoes) = (of_body.clone(), of_undo.clone());
        let mut flow = Flow::new();
        flow.parallel(move |branches| {
            branches
                .run(async move |()| {
                    body.add("charge");
                    Ok(())
                })
                .shielded()
                .undo(async move |_: Undo<&()>| {
                    undoes.add("refund");
                    Ok(())
                });
            branches.run(async |()| Err::<(), _>(Error::new("Declined").into()));
        });
        let started = sim.start(flow);
        sim.run();
        started.assert_error("Declined");
        assert_eq!(of_body.take().is_empty(), of_undo.take().is_empty());
    });
}
