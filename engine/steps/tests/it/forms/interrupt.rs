//! Steps that are ended from outside while they have sub-steps.

use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;

use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{AsyncSteps, Error, Flow, Interrupter, Retry, Stale, StepError, Time, Undo};

use crate::forms::support::{Dropped, Log, ms, pause, tool};

/// Gets the handle of a step to the code that interrupts it.
type Handle = Rc<RefCell<Option<Interrupter>>>;

/// Runs a flow with a step that `inside` fills, interrupts that step after 10 ms, and gives what was
/// logged. The step regains in 5 ms, or fails to.
fn run<F>(regains: Result<(), &'static str>, inside: F) -> (String, Result<(), Stale>)
where
    F: FnOnce(&mut AsyncSteps, &Manual, &Log) + 'static,
{
    let (tool, log, handle) = (tool(), Log::default(), Handle::default());
    let mut flow = Flow::new();
    let (clock, entries, out) = (tool.clone(), log.clone(), Rc::clone(&handle));
    let (all_clock, all) = (tool.clone(), log.clone());
    flow.add(move |asi, ()| {
        asi.hold(Dropped(entries.clone(), "lock"));
        let (regain_clock, regained) = (clock.clone(), entries.clone());
        asi.regain(async move || {
            pause(&regain_clock, ms(5)).await;
            regained.add("regained");
            regains.map_err(|code| Error::new(code).into())
        });
        let interrupter = asi.interrupter();
        out.replace(Some(interrupter));
        inside(asi, &clock, &entries);
    })
    .on_error(move |asi, error| {
        all.add(format!("{}@{}", error.code(), all_clock.now().since_epoch().as_millis()));
        asi.success(())
    });
    let (ended, interrupted) = (log.clone(), Rc::new(RefCell::new(Err(Stale))));
    flow.add(move |_, ()| ended.add("goes-on"));
    let (result, at) = (Rc::clone(&interrupted), handle);
    let interrupts = tool.deferred(ms(10), move || {
        let interrupter = at.borrow_mut().take().expect("the step has begun");
        *result.borrow_mut() = interrupter.interrupt(Error::new("LockLost"));
    });
    tool.complete(flow.promise::<(), _>(&tool)).expect("it ends").expect("it recovers");
    let clock = tool.clone();
    tool.complete(async move { pause(&clock, ms(100)).await }).expect("time passes");
    drop(interrupts);
    let interrupted = *interrupted.borrow();
    (log.take(), interrupted)
}

async fn hang(_: ()) -> Result<(), StepError> {
    pending().await
}

#[test]
fn what_is_inside_is_cancelled_and_the_step_gets_the_error() {
    let (log, interrupted) = run(Ok(()), |asi, _, log| {
        let log = log.clone();
        asi.add(move |asi, ()| {
            let (handler, cancelled) = (log.clone(), log.clone());
            asi.set_cancel(move |_| cancelled.add("cancelled"));
            asi.add(|asi, ()| asi.wait_only()).on_error(move |_, _| handler.add("never"));
        });
    });
    assert_eq!(log, "cancelled LockLost@10 -lock goes-on");
    assert_eq!(interrupted, Ok(()));
}

#[test]
fn what_was_lost_is_regained_before_what_is_inside_is_undone() {
    // an attempt that fails is made once, and nothing is left undone for it
    for regains in [Ok(()), Err("Gone")] {
        let (log, _) = run(regains, |asi, _, log| {
            for (name, undo) in [("a", "undo-a"), ("b", "undo-b")] {
                let log = log.clone();
                asi.run(async |()| Ok(())).named(name).undo(async move |_| {
                    log.add(undo);
                    Ok(())
                });
            }
            asi.run(hang);
        });
        assert_eq!(log, "regained undo-b undo-a LockLost@15 -lock goes-on");
    }
}

#[test]
fn a_body_that_is_cut_is_undone_with_what_was_regained() {
    let (log, _) = run(Ok(()), |asi, _, log| {
        let (tries, log) = (Retry::attempts(2).on_code("Again"), log.clone());
        asi.run(hang).retry(tries).undo(async move |undo| {
            log.add(format!("undo-{}", matches!(undo, Undo::Unknown)));
            Ok(())
        });
    });
    assert_eq!(log, "regained undo-true LockLost@15 -lock goes-on");
}

#[test]
fn branches_are_cancelled_together() {
    let (log, _) = run(Ok(()), |asi, _, log| {
        let logs = [log.clone(), log.clone()];
        asi.parallel(|branches| {
            for (log, undo) in logs.into_iter().zip(["undo-left", "undo-right"]) {
                branches.add(move |asi, ()| {
                    asi.run(async |()| Ok(())).undo(async move |_| {
                        log.add(undo);
                        Ok(())
                    });
                    asi.run(hang);
                });
            }
        });
    });
    assert_eq!(log, "regained undo-right undo-left LockLost@15 -lock goes-on");
}

#[test]
fn a_step_in_a_branch_is_interrupted_alone() {
    let (tool, handle, log) = (Manual::new(Time::ZERO), Handle::default(), Log::default());
    let mut flow = Flow::new();
    let (out, entries, clock) = (Rc::clone(&handle), log.clone(), tool.clone());
    flow.parallel(|branches| {
        let handled = entries.clone();
        branches
            .add(move |asi, ()| {
                out.replace(Some(asi.interrupter()));
                asi.run(hang);
            })
            .on_error(move |asi, error| {
                handled.add(error.code());
                asi.success(())
            });
        branches.add(move |asi, ()| {
            asi.run(async move |()| {
                pause(&clock, ms(20)).await;
                entries.add("the-other-one");
                Ok(())
            });
        });
    });
    let interrupts = tool.deferred(ms(10), move || {
        let interrupter = handle.borrow_mut().take().expect("the step has begun");
        interrupter.interrupt(Error::new("LockLost")).expect("it is in progress");
    });
    tool.complete(flow.promise::<(), _>(&tool)).expect("it ends").expect("it recovers");
    drop(interrupts);
    assert_eq!(log.take(), "LockLost the-other-one");
}

#[test]
fn a_step_that_is_over_is_not_interrupted() {
    let (log, interrupted) = run(Ok(()), |asi, clock, _| {
        let clock = clock.clone();
        asi.run(async move |()| {
            pause(&clock, ms(1)).await;
            Ok(())
        });
    });
    assert_eq!(log, "-lock goes-on");
    assert_eq!(interrupted, Err(Stale));
}
