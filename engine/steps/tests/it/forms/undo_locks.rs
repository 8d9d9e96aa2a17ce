//! What is held until a step is undone (FTN12 §1.11.3), on every way out of it.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;

use asyncsteps_core::sync::{Mutex, mutex};
use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{AsyncSteps, Error, Execution, Flow, Identity, Progress, StepError, Time};

use crate::forms::support::{Dropped, Log, ms, pause, tool};

/// How a flow ends that has charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Error,
    Limit,
    HardLimit,
    Branch,
    Cancel,
    Drop,
}

const WAYS: [Way; 6] =
    [Way::Error, Way::Limit, Way::HardLimit, Way::Branch, Way::Cancel, Way::Drop];

/// What happens after the charge.
#[derive(Clone, Copy)]
enum Step {
    Succeeds,
    Fails,
    Hangs,
}

/// Charges, then does something else; the undo of the charge takes 50 ms.
fn charge(asi: &mut AsyncSteps, (tool, log): (&Manual, &Log), then: Step) {
    let (clock, refunds) = (tool.clone(), log.clone());
    asi.run(async |()| Ok(())).undo(async move |_| {
        pause(&clock, ms(50)).await;
        refunds.add("refund");
        Ok(())
    });
    asi.run(async move |()| match then {
        Step::Succeeds => Ok(()),
        Step::Fails => Err::<(), StepError>(Error::new("Fails").into()),
        Step::Hangs => pending().await,
    });
}

/// Runs a flow that charges inside of what `around` adds, ends it this way after 10 ms, and has
/// another one wait for the lock.
fn run<F>(way: Way, lock: &Mutex, around: F) -> String
where
    F: FnOnce(&mut AsyncSteps, Box<dyn FnOnce(&mut AsyncSteps)>) + 'static,
{
    let (tool, log) = (tool(), Log::default());
    let (clock, books) = (tool.clone(), log.clone());
    let logic = Box::new(move |asi: &mut AsyncSteps| {
        let then = if way == Way::Error { Step::Fails } else { Step::Hangs };
        charge(asi, (&clock, &books), then);
    });
    let mut flow = Flow::new();
    if way == Way::Branch {
        flow.parallel(|branches| {
            branches.add(|asi, ()| around(asi, logic));
            branches.add(|asi, ()| {
                asi.sleep(ms(10));
                asi.error_step(Error::new("Fails"));
            });
        });
    } else {
        let added = &mut flow.add(move |asi, ()| {
            if way == Way::Limit {
                asi.set_timeout(ms(10));
            }
            around(asi, logic);
        });
        if way == Way::HardLimit {
            added.timeout(ms(10));
        }
    }
    let mut promise = flow.promise::<(), _>(&tool);
    let canceller = promise.canceller();
    let task = tool.spawn(async move { drop(promise.await) });
    let stop = tool.clone();
    tool.deferred(ms(10), move || match way {
        Way::Cancel => canceller.cancel(),
        Way::Drop => stop.cancel(&task),
        Way::Error | Way::Limit | Way::HardLimit | Way::Branch => {}
    });
    let mut next = Flow::new();
    let entered = log.clone();
    next.steps().sleep(ms(5));
    next.sync(lock, move |_, ()| entered.add("next"));
    let next = next.promise::<(), _>(&tool);
    tool.complete(next).expect("the lock comes free").expect("it ends");
    let clock = tool.clone();
    tool.complete(async move { pause(&clock, ms(500)).await });
    assert_eq!((lock.holders(), lock.queued()), (0, 0));
    log.take()
}

#[test]
fn a_lock_is_held_until_what_is_inside_is_undone() {
    for way in WAYS {
        let lock = Mutex::default();
        let object = lock.clone();
        let locked = run(way, &lock, move |asi, logic| {
            asi.add(|asi, ()| logic(asi)).locked(&object);
        });
        assert_eq!(locked, "refund next", "locked {way:?}");
        let object = lock.clone();
        let synced = run(way, &lock, move |asi, logic| {
            asi.sync(&object, |asi, ()| logic(asi));
        });
        assert_eq!(synced, "refund next", "sync {way:?}");
    }
}

#[test]
fn a_place_of_an_attempt_is_free_before_anything_is_undone() {
    for way in WAYS {
        let place = Mutex::default();
        let object = place.clone();
        let limited = run(way, &place, move |asi, logic| {
            asi.add(|asi, ()| logic(asi)).limited(&object);
        });
        assert_eq!(limited, "next refund", "{way:?}");
    }
}

#[test]
fn locks_are_released_from_the_innermost_outwards() {
    let (tool, log) = (tool(), Log::default());
    let mut flow = Flow::new();
    let (clock, books) = (tool.clone(), log.clone());
    flow.add(move |asi, ()| {
        asi.hold(Dropped(books.clone(), "outer"));
        charge(asi, (&clock, &books), Step::Succeeds);
        asi.parallel(move |branches| {
            branches.add(move |asi, ()| {
                asi.hold(Dropped(books.clone(), "inner"));
                asi.stack(Dropped(books.clone(), "value"));
                charge(asi, (&clock, &books), Step::Hangs);
            });
        });
    });
    let promise = flow.promise::<(), _>(&tool);
    let task = tool.spawn(async move { drop(promise.await) });
    let stop = tool.clone();
    tool.deferred(ms(10), move || stop.cancel(&task));
    let clock = tool.clone();
    tool.complete(async move { pause(&clock, ms(500)).await });
    assert_eq!(log.take(), "-value refund -inner refund -outer");
}

#[test]
fn a_queue_is_left_at_once() {
    let lock = Mutex::new(mutex::Options { max: 1, max_queue: Some(1) });
    let mut holder = Flow::new();
    holder.sync(&lock, |asi, ()| asi.wait_only());
    let mut waiter = Flow::new();
    waiter.run(async |()| Ok(())).locked(&lock).undo(async |_| Ok(()));
    let (mut holder, mut waiter) = (holder.execute(), waiter.execute());
    let turn = |flow: &mut Execution| flow.run(Time::ZERO, std::task::Waker::noop());
    assert!(matches!(turn(&mut holder), Progress::Waiting));
    assert!(matches!(turn(&mut waiter), Progress::Waiting));
    assert_eq!(lock.queued(), 1);
    waiter.cancel();
    assert_eq!((lock.holders(), lock.queued(), waiter.take_launched().len()), (1, 0, 0));
}

#[test]
fn an_undo_knows_the_branch_whose_step_it_undoes() {
    let seen = Rc::new(Cell::new(None));
    let (undone, tool) = (Rc::clone(&seen), tool());
    let mut flow = Flow::new();
    flow.run(async |()| Ok(())).undo(async move |_| {
        undone.set(Identity::undone());
        Ok(())
    });
    let flow_id = flow.id();
    flow.error_step(Error::new("Fails"));
    tool.complete(flow.promise::<(), _>(&tool)).expect("it ends").expect_err("it fails");
    assert_eq!(seen.get(), Some(Identity { flow: flow_id, branch: 0 }));
    assert_eq!(Identity::undone(), None);
}
