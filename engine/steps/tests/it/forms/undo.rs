//! Undoing steps (FTN12 §1.2, §1.3): a saga of three steps, ended in every way at every step.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;

use asyncsteps_core::replay::NotUndone;
use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{
    Arg, AsyncSteps, Error, Flow, Progress, Retry, StepError, Template, Time, Undo, UndoPolicy,
};

use crate::forms::support::{Log, ms, now, pause, tool};

/// What the step with this number does instead of succeeding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Fails,
    Hangs,
    Panics,
}

/// Adds a step that takes 10 ms, and its undo, which takes 5 ms.
fn book(asi: &mut AsyncSteps, (tool, log): (&Manual, &Log), number: u32, ending: Option<Ending>) {
    let (clock, books) = (tool.clone(), log.clone());
    let (undo_clock, undoes) = (tool.clone(), log.clone());
    asi.run(async move |()| {
        books.add(format_args!("+{number}"));
        pause(&clock, ms(10)).await;
        match ending {
            None => Ok(number),
            Some(Ending::Fails) => Err(Error::new("SoldOut").into()),
            Some(Ending::Hangs) => pending().await,
            Some(Ending::Panics) => panic!("a bug"),
        }
    })
    .undo(async move |outcome: Undo<&u32>| {
        pause(&undo_clock, ms(5)).await;
        match outcome {
            Undo::Done(number) => undoes.add(format_args!("-{number}")),
            Undo::Unknown => undoes.add(format_args!("?{number}")),
        }
        Ok(())
    });
    asi.add(|_, _: u32| {});
}

/// Three bookings; the one with the number `at` ends otherwise.
fn trip(tool: &Manual, log: &Log, at: u32, ending: Ending) -> Flow {
    let mut flow = Flow::new();
    for number in 1..=3 {
        let ending = (number == at).then_some(ending);
        book(flow.steps(), (tool, log), number, ending);
    }
    flow
}

/// The bookings up to `at`, then their undos: the last one as `last` says.
fn expected(at: u32, last: &str) -> String {
    let begun = (1..=at).map(|number| format!("+{number}"));
    let unknown = (!last.is_empty()).then(|| format!("{last}{at}"));
    let done = (1..at).rev().map(|number| format!("-{number}"));
    begun.chain(unknown).chain(done).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_was_done_is_undone_when_a_later_step_fails_and_the_error_goes_on() {
    for at in 1..=3 {
        let (tool, log) = (tool(), Log::default());
        let promise = trip(&tool, &log, at, Ending::Fails).promise::<(), _>(&tool);
        let error = tool.complete(promise).expect("it ends").expect_err("it fails");
        assert_eq!(error.code(), "SoldOut");
        assert_eq!(log.take(), expected(at, ""));
        // the flow has waited for its undos
        assert_eq!(now(&tool), u128::from(at * 10 + (at - 1) * 5));
    }
}

#[test]
fn a_body_that_was_cut_is_unknown() {
    for at in 1..=3 {
        for (ending, code) in [(Ending::Panics, "InternalError"), (Ending::Hangs, "Timeout")] {
            let (tool, log) = (tool(), Log::default());
            let (clock, books) = (tool.clone(), log.clone());
            let mut flow = Flow::new();
            flow.add(move |asi, ()| {
                asi.set_timeout(ms(100));
                asi.append(trip(&clock, &books, at, ending));
            });
            let promise = flow.promise::<(), _>(&tool);
            let error = tool.complete(promise).expect("it ends").expect_err("it fails");
            assert_eq!((error.code(), log.take()), (code, expected(at, "?")), "{ending:?}");
        }
    }
}

#[test]
fn a_hard_limit_undoes_before_the_handler_of_its_step() {
    for at in 1..=3 {
        let (tool, log) = (tool(), Log::default());
        let (clock, books, handles) = (tool.clone(), log.clone(), log.clone());
        let mut flow = Flow::new();
        flow.add(move |asi, ()| asi.append(trip(&clock, &books, at, Ending::Hangs)))
            .timeout(ms(100))
            .on_error(move |asi, error| {
                handles.add(error.code());
                asi.success(())
            });
        let promise = flow.promise::<(), _>(&tool);
        tool.complete(promise).expect("it ends").expect("it recovers");
        assert_eq!(log.take(), format!("{} Timeout", expected(at, "?")));
    }
}

#[test]
fn a_flow_that_is_cancelled_or_dropped_is_undone_by_its_host() {
    for at in 1..=3 {
        for drops in [false, true] {
            let (tool, log) = (tool(), Log::default());
            let flow = trip(&tool, &log, at, Ending::Hangs);
            let mut promise = flow.promise::<(), _>(&tool);
            let canceller = promise.canceller();
            let ended = Rc::new(Cell::new(0));
            let (end, clock) = (Rc::clone(&ended), tool.clone());
            let task = tool.spawn(async move {
                let _ = promise.await;
                end.set(now(&clock));
            });
            let stop = tool.clone();
            tool.deferred(ms(100), move || match drops {
                true => stop.cancel(&task),
                false => canceller.cancel(),
            });
            let clock = tool.clone();
            let _ = tool.complete(Box::pin(async move { pause(&clock, ms(500)).await }));
            assert_eq!(log.take(), expected(at, "?"), "dropped: {drops}");
            // nothing waits for the undos
            assert_eq!(ended.get(), if drops { 0 } else { 100 });
        }
    }
}

#[test]
fn the_failure_of_a_branch_undoes_its_siblings() {
    let (tool, log) = (tool(), Log::default());
    let mut flow = Flow::new();
    let (clock, books) = (tool.clone(), log.clone());
    flow.parallel(move |p| {
        for number in 1..=2 {
            let (clock, books) = (clock.clone(), books.clone());
            p.add(move |asi, ()| book(asi, (&clock, &books), number, None));
        }
        let (hanging, hangs) = (clock.clone(), books.clone());
        p.add(move |asi, ()| book(asi, (&hanging, &hangs), 3, Some(Ending::Hangs)));
        p.add(move |asi, ()| {
            asi.sleep(ms(50));
            asi.error_step(Error::new("Late"));
        });
    });
    let promise = flow.promise::<(), _>(&tool);
    let error = tool.complete(promise).expect("it ends").expect_err("a branch fails");
    assert_eq!((error.code(), &*log.take()), ("Late", "+1 +2 +3 ?3 -2 -1"));
}

#[test]
fn what_an_inner_step_did_is_undone_when_a_later_outer_step_fails() {
    let (tool, log) = (tool(), Log::default());
    let mut flow = Flow::new();
    let (clock, books) = (tool.clone(), log.clone());
    flow.add(move |asi, ()| {
        let (clock, books) = (clock.clone(), books.clone());
        asi.add(move |asi, ()| {
            book(asi, (&clock, &books), 1, None);
            let (clock, books) = (clock.clone(), books.clone());
            asi.parallel(move |p| {
                p.add(move |asi, ()| book(asi, (&clock, &books), 2, None));
            });
        });
    });
    book(flow.steps(), (&tool, &log), 3, Some(Ending::Fails));
    let promise = flow.promise::<(), _>(&tool);
    assert!(tool.complete(promise).expect("it ends").is_err());
    assert_eq!(log.take(), "+1 +2 +3 -2 -1");
}

#[test]
fn a_step_that_recovers_undoes_only_what_was_inside() {
    let (tool, log) = (tool(), Log::default());
    let mut flow = Flow::new();
    book(flow.steps(), (&tool, &log), 1, None);
    let (clock, books) = (tool.clone(), log.clone());
    flow.add(move |asi, ()| {
        book(asi, (&clock, &books), 2, None);
        book(asi, (&clock, &books), 3, Some(Ending::Fails));
    })
    .on_error(|asi, _| asi.success(()));
    book(flow.steps(), (&tool, &log), 4, None);
    let promise = flow.promise::<(), _>(&tool);
    tool.complete(promise).expect("it ends").expect("it recovers");
    assert_eq!(log.take(), "+1 +2 +3 -2 +4");
}

#[test]
fn the_normal_end_of_a_scope_is_final_and_others_are_not() {
    let (tool, log) = (tool(), Log::default());
    let mut flow = Flow::new();
    let (clock, books) = (tool.clone(), log.clone());
    flow.steps().repeat(3, move |asi, i| {
        let (clock, books) = (clock.clone(), books.clone());
        let number = u32::try_from(i).expect("few") + 1;
        asi.scope(move |asi, ()| {
            book(asi, (&clock, &books), number * 10, None);
            let ending = (number == 3).then_some(Ending::Fails);
            book(asi, (&clock, &books), number * 10 + 1, ending);
        });
    });
    let promise = flow.promise::<(), _>(&tool);
    assert!(tool.complete(promise).expect("it ends").is_err());
    assert_eq!(log.take(), "+10 +11 +20 +21 +30 +31 -30");
}

#[test]
fn a_loop_that_is_left_keeps_what_was_done_and_undoes_cancelled_branches() {
    let (tool, log) = (tool(), Log::default());
    let mut flow = Flow::new();
    let (clock, books) = (tool.clone(), log.clone());
    flow.steps().make_loop(move |asi| {
        book(asi, (&clock, &books), 1, None);
        let (clock, books) = (clock.clone(), books.clone());
        asi.parallel(move |p| {
            let (hanging, hangs) = (clock.clone(), books.clone());
            p.add(move |asi, ()| book(asi, (&hanging, &hangs), 2, Some(Ending::Hangs)));
            p.add(move |asi, ()| {
                book(asi, (&clock, &books), 3, None);
                asi.sleep(ms(20));
                asi.add(|asi, ()| asi.break_loop(None));
            });
        });
    });
    flow.add(|asi, ()| {
        asi.sleep(ms(50));
    });
    book(flow.steps(), (&tool, &log), 4, Some(Ending::Fails));
    let promise = flow.promise::<(), _>(&tool);
    assert!(tool.complete(promise).expect("it ends").is_err());
    assert_eq!(log.take(), "+1 +2 +3 ?2 +4 -3 -1");
}

#[test]
fn an_undo_in_progress_is_not_cut_by_what_ends_the_flow() {
    // the step fails after 20 ms, and its two undos take until 30 ms
    for end in [22, 27] {
        for hard in [false, true] {
            let (tool, log) = (tool(), Log::default());
            let (clock, books) = (tool.clone(), log.clone());
            let mut flow = Flow::new();
            book(flow.steps(), (&tool, &log), 1, None);
            flow.add(move |asi, ()| {
                asi.add(move |asi, ()| {
                    book(asi, (&clock, &books), 2, None);
                    asi.error_step(Error::new("Fails"));
                })
                .on_error(|asi, _| asi.success(()));
            });
            let mut promise = flow.promise::<(), _>(&tool);
            let canceller = promise.canceller();
            let stop = tool.clone();
            let task = tool.spawn(async move { drop(promise.await) });
            tool.deferred(ms(end), move || match hard {
                true => stop.cancel(&task),
                false => canceller.cancel(),
            });
            let clock = tool.clone();
            let _ = tool.complete(Box::pin(async move { pause(&clock, ms(500)).await }));
            let expected = match end {
                // the running undo goes on, and the older one follows it
                22 => "+1 +2 -2 -1",
                // it had ended, and its step had recovered: the flow was over
                _ => "+1 +2 -2",
            };
            assert_eq!(log.take(), expected, "{end} {hard}");
        }
    }
}

#[test]
fn older_undos_follow_those_that_go_on_without_their_step() {
    let (tool, log) = (tool(), Log::default());
    let (clock, books) = (tool.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        book(asi, (&clock, &books), 1, None);
        asi.add(move |asi, ()| {
            book(asi, (&clock, &books), 2, None);
            book(asi, (&clock, &books), 3, None);
            asi.error_step(Error::new("Fails"));
        });
    })
    .timeout(ms(32)); // within the undo of the third step, which takes from 30 ms to 35 ms
    let promise = flow.promise::<(), _>(&tool);
    let error = tool.complete(promise).expect("it ends").expect_err("it fails");
    assert_eq!((error.code(), now(&tool)), ("Timeout", 45));
    assert_eq!(log.take(), "+1 +2 +3 -3 -2 -1");
}

#[test]
fn an_attempt_that_was_cut_stays_unknown_unless_a_later_one_succeeds() {
    let run = |last: Option<Ending>| {
        let (tool, log) = (tool(), Log::default());
        let undoes = log.clone();
        let mut flow = Flow::new();
        flow.run_with(async move |cx: asyncsteps_core::RunContext, ()| match (cx.attempt, last) {
            (2, None) => Ok(7u32),
            (2, Some(_)) => Err(Error::new("SoldOut").into()),
            _ => pending::<Result<_, StepError>>().await,
        })
        .timeout(ms(10))
        .retry(Retry::attempts(2))
        .undo(async move |outcome| {
            undoes.add(format_args!("{outcome:?}"));
            Ok(())
        });
        flow.add(|asi, _: u32| asi.error("Fails", ()));
        let promise = flow.promise::<(), _>(&tool);
        let error = tool.complete(promise).expect("it ends").expect_err("it fails");
        format!("{} {}", error.code(), log.take())
    };
    assert_eq!(run(None), "Fails Done(7)");
    assert_eq!(run(Some(Ending::Fails)), "SoldOut Unknown");
}

#[test]
fn each_attempt_undoes_its_inner_steps_before_the_next() {
    let (tool, log) = (tool(), Log::default());
    let (clock, books) = (std::sync::Arc::new(std::sync::Mutex::new(0)), log.clone());
    let template = {
        let counter = std::sync::Arc::clone(&clock);
        Template::build(move |asi| {
            asi.add(move |asi, ()| {
                let counter = std::sync::Arc::clone(&counter);
                asi.run(async |()| Ok(1u32)).undo(async move |_| {
                    *counter.lock().expect("not poisoned") += 1;
                    Ok(())
                });
                asi.error_step(Error::new("Flaky"));
            })
            .retry(Retry::attempts(3).on_code("Flaky"));
        })
    };
    let promise = template.flow().promise::<(), _>(&tool);
    assert!(tool.complete(promise).expect("it ends").is_err());
    books.add(*clock.lock().expect("not poisoned"));
    assert_eq!(log.take(), "3");
}

#[test]
fn an_undo_is_limited_and_tried_again_and_its_failure_is_reported() {
    let (tool, log) = (tool(), Log::default());
    let (good, bad, flaky) = (log.clone(), log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.run(async |()| Ok(1)).undo(async move |_| {
        good.add("good");
        Ok(())
    });
    flow.run(async |_: i32| Ok(2)).named("bad").undo(async move |_| {
        bad.add("bad");
        pending().await
    });
    let policy =
        UndoPolicy::default().timeout(ms(100)).retry(Retry::attempts(3).backoff(ms(10)).factor(1));
    flow.run(async |_: i32| Ok(3)).undo_with(policy, async move |_| {
        flaky.add("flaky");
        pending().await
    });
    flow.error_step(Error::new("Fails"));
    let mut execution = flow.execute();
    let waker = std::task::Waker::noop();
    let _ = execution.run(tool.now(), waker);
    let undo = execution.take_launched().pop().expect("its undo");
    assert!(undo.is_undo());
    let mut undo = undo.execute();
    let mut time = Time::ZERO;
    let mut failures = Vec::new();
    loop {
        let progress = undo.run(time, waker);
        for error in undo.take_unreported_errors() {
            let name = error.location().and_then(|place| place.name());
            failures.push((error.code().to_owned(), name, error.failed_undo(), error.attempts()));
        }
        match progress {
            Progress::Done(_) => break,
            Progress::Waiting | Progress::Ready => {
                time = undo.deadline().unwrap_or(time);
            }
        }
    }
    assert_eq!(log.take(), "flaky flaky flaky bad good");
    assert_eq!(time.since_epoch(), ms(320) + std::time::Duration::from_secs(30));
    let done = Some(Undo::Done(()));
    assert_eq!(
        failures,
        [
            ("Timeout".to_owned(), None, done, Some(3)),
            ("Timeout".to_owned(), Some("bad"), done, None)
        ]
    );
    let Progress::Done(outcome) = execution.run(time, waker) else {
        unreachable!("its undo has ended")
    };
    assert_eq!(outcome.into_result::<()>().expect_err("it fails").code(), "Fails");
}

#[test]
fn an_undo_that_is_cancelled_reports_what_is_left() {
    let waker = std::task::Waker::noop();
    for turns in 0..2 {
        let mut flow = Flow::new();
        flow.run(async |()| Ok(1)).named("one").undo(async |_| Ok(()));
        flow.run(async |_: i32| pending::<Result<i32, _>>().await)
            .named("two")
            .undo(async |_| pending().await);
        let mut execution = flow.execute();
        let _ = execution.run(Time::ZERO, waker);
        execution.cancel();
        let mut undo = execution.take_launched().pop().expect("its undo").execute();
        for _ in 0..turns {
            let _ = undo.run(Time::ZERO, waker);
        }
        undo.cancel();
        let left: Vec<_> = undo.take_unreported_errors().iter().map(describe).collect();
        assert_eq!(left, ["two Some(Unknown)", "one Some(Done(()))"]);
    }
}

fn describe(error: &Error) -> String {
    let name = error.location().and_then(|place| place.name());
    format!("{} {:?}", name.unwrap_or("-"), error.failed_undo())
}

#[test]
fn an_execution_that_is_dropped_with_what_it_launched_undoes_nothing() {
    let (tool, log) = (tool(), Log::default());
    let mut execution = trip(&tool, &log, 1, Ending::Hangs).execute();
    let _ = execution.run(tool.now(), std::task::Waker::noop());
    drop(execution);
    assert_eq!(log.take(), "+1");
}

#[test]
fn a_flow_that_waits_for_its_undo_says_so() {
    let mut failing = Flow::new();
    failing.run(async |()| Ok(1)).undo(async |_| pending().await);
    failing.add(|asi, _: i32| asi.error("Fails", ())).named("last");
    let mut failing = failing.execute();
    let _ = failing.run(Time::ZERO, std::task::Waker::noop());
    let waits = failing.waits();
    assert_eq!(waits[0].reason, asyncsteps_core::WaitReason::Undo);
}

#[test]
fn a_simulation_undoes_flows_wherever_they_are_cancelled() {
    let options = asyncsteps_core::sim::Options {
        cancel_one_in: 2,
        cancel_within: ms(60),
        ..asyncsteps_core::sim::Options::default()
    };
    asyncsteps_core::sim::check_with(&options, 0..300, |sim| {
        let booked = Rc::new(Cell::new(0i32));
        let mut started = Vec::new();
        for _ in 0..3 {
            let mut flow = Flow::new();
            for _ in 0..3 {
                let (books, undoes) = (Rc::clone(&booked), Rc::clone(&booked));
                flow.run(async move |()| {
                    books.set(books.get() + 1);
                    Ok(())
                })
                .undo(async move |_| {
                    undoes.set(undoes.get() - 1);
                    Ok(())
                });
                flow.add(|asi, ()| {
                    asi.sleep(ms(20));
                });
            }
            started.push(sim.start_within(ms(5), flow));
        }
        sim.run();
        let ends = started.iter().filter_map(asyncsteps_core::sim::Started::take_outcome);
        let succeeded =
            ends.filter(|end| matches!(end, asyncsteps_core::Outcome::Success(_))).count();
        assert_eq!(booked.get(), i32::try_from(succeeded * 3).expect("few"));
    });
}

/// Panics when it is dropped after it was armed.
#[derive(Clone)]
struct Bomb(Rc<Cell<bool>>);

impl Arg for Bomb {}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.0.take(), "a destructor panics");
    }
}

#[test]
fn a_destructor_that_panics_inside_of_an_undo_loses_no_other_undo() {
    let (tool, log) = (tool(), Log::default());
    let mut flow = Flow::new();
    book(flow.steps(), (&tool, &log), 1, None);
    let armed = Rc::new(Cell::new(false));
    flow.run(async move |()| Ok(Bomb(Rc::clone(&armed)))).undo(async |bomb: Undo<&Bomb>| {
        if let Undo::Done(Bomb(armed)) = bomb {
            armed.set(true);
        }
        Ok(())
    });
    flow.add(|asi, _: Bomb| asi.error("Fails", ()));
    let error =
        tool.complete(flow.promise::<(), _>(&tool)).expect("it ends").expect_err("it fails");
    assert_eq!((error.code(), &*log.take()), ("Fails", "+1 -1"));
}

#[test]
fn the_host_is_told_of_steps_that_were_undone() {
    let mut flow = Flow::new();
    flow.run(async |()| Ok(())).named("bank").undo(async |_| Ok(()));
    flow.error_step(Error::new("LedgerDown"));
    let mut execution = flow.execute();
    let waker = std::task::Waker::noop();
    assert!(matches!(execution.run(Time::ZERO, waker), Progress::Waiting));
    let undo = execution.take_launched().pop().expect("it is undone");
    let mut undo = undo.execute();
    assert!(matches!(undo.run(Time::ZERO, waker), Progress::Done(_)));
    let undone = undo.take_undone();
    let [bank] = &undone[..] else { panic!("one step was undone: {undone:?}") };
    let why = bank.why.as_ref().map(Error::code);
    assert_eq!(
        (bank.step.name(), bank.outcome, why),
        (Some("bank"), Undo::Done(()), Some("LedgerDown"))
    );
}

#[test]
fn an_undo_that_the_host_does_not_let_run_is_neither_undone_nor_failed() {
    let (mut flow, tries) = (Flow::new(), Rc::new(Cell::new(0)));
    let (counts, policy) = (Rc::clone(&tries), UndoPolicy::default().retry(Retry::attempts(3)));
    flow.run(async |()| Ok(())).undo_with(policy, async move |_| {
        counts.set(counts.get() + 1);
        Err(NotUndone.into())
    });
    flow.error_step(Error::new("LedgerDown"));
    let mut execution = flow.execute();
    let waker = std::task::Waker::noop();
    assert!(matches!(execution.run(Time::ZERO, waker), Progress::Waiting));
    let undo = execution.take_launched().pop().expect("it is asked for");
    let mut undo = undo.execute();
    assert!(matches!(undo.run(Time::ZERO, waker), Progress::Done(_)));
    assert_eq!(
        (undo.take_undone().len(), undo.take_unreported_errors().len(), tries.get()),
        (0, 0, 1)
    );
}

#[test]
fn the_loop_of_a_promise_is_told_of_an_undo_that_fails() {
    let tool = tool();
    let mut flow = Flow::new();
    flow.run(async |()| Ok(())).named("bank").undo(async |_| Err(Error::new("BankDown").into()));
    flow.error_step(Error::new("LedgerDown"));
    tool.complete(flow.promise::<(), _>(&tool)).expect("it ends").expect_err("it fails");
    let unseen = tool.take_unreported_errors();
    let [failed] = &unseen[..] else { panic!("one undo failed: {unseen:?}") };
    assert_eq!((failed.code(), failed.failed_undo()), ("BankDown", Some(Undo::Done(()))));
    assert!(tool.take_unreported_errors().is_empty());
}
