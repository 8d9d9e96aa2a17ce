//! Completing a step from outside: once, from any thread, and never too late.

use std::any::Any;
use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use asyncsteps_core::{
    Completion, Error, Flow, Foreign, ForeignArgs, Outcome, Progress, Scalar, Stale, codes,
};

use crate::flows::support::{Dropped, Log, at, end, run, wait};

type Slot = Rc<RefCell<Option<Completion>>>;

/// A flow whose only step gives away its handle and waits.
fn waiting() -> (Flow, Slot) {
    let slot = Slot::default();
    let given = Rc::clone(&slot);
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        given.replace(Some(asi.wait_external()));
    });
    (flow, slot)
}

fn take(slot: &Slot) -> Completion {
    slot.borrow_mut().take().expect("the step waits")
}

#[test]
fn a_step_is_completed_once() {
    let (flow, slot) = waiting();
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    let handle = take(&slot);
    assert!(handle.is_valid());
    assert_eq!(handle.success(1), Ok(()));
    assert_eq!(handle.success(2), Err(Stale));
    assert_eq!(handle.error("MyError", ()), Err(Stale));
    assert!(!handle.is_valid());
    assert_eq!(end::<i32>(&mut execution, 0).expect("the first one counts"), 1);
    assert_eq!(handle.success(3), Err(Stale));
}

/// A foreign value that calls a function when it is converted.
struct Converts<F>(F);

impl<F: Fn() + Send + 'static> ForeignArgs for Converts<F> {
    fn len(&self) -> usize {
        1
    }

    fn scalar(&self) -> Option<Scalar> {
        (self.0)();
        None
    }

    fn give(self, to: &mut dyn FnMut(Box<dyn Any>)) {
        to(Box::new(1));
    }

    fn take(_: &mut dyn Iterator<Item = Box<dyn Any>>) -> Self {
        unreachable!("no step takes it")
    }
}

#[test]
fn a_handle_is_used_when_its_result_was_converted() {
    let (flow, slot) = waiting();
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    let handle = Arc::new(take(&slot));
    let inner = Arc::clone(&handle);
    let late = Foreign(Converts(move || assert_eq!(inner.success(5), Ok(()))));
    assert!(handle.try_success(late).is_err(), "its conversion completed the step");
    assert_eq!(end::<i32>(&mut execution, 0).expect("the first one counts"), 5);
}

#[test]
fn a_handle_whose_result_panics_when_it_is_converted_is_lost_with_it() {
    let ways: [fn(&Completion); 2] = [
        |handle| assert_eq!(handle.success(Foreign(Converts(|| panic!("on purpose")))), Ok(())),
        |handle| drop(handle.try_success(Foreign(Converts(|| panic!("on purpose"))))),
    ];
    for way in ways {
        let (flow, slot) = waiting();
        let mut execution = flow.execute();
        wait(&mut execution, 0);
        let handle = take(&slot);
        catch_unwind(AssertUnwindSafe(|| way(&handle))).expect_err("it panics");
        assert!(handle.is_valid());
        drop(handle);
        let error = end::<()>(&mut execution, 0).expect_err("it is abandoned");
        assert_eq!(error.code(), codes::INTERNAL_ERROR);
    }
}

#[test]
fn an_external_error_keeps_its_code_and_info() {
    let (flow, slot) = waiting();
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    assert_eq!(take(&slot).error("MyError", "why"), Ok(()));
    let error = end::<()>(&mut execution, 0).expect_err("it failed");
    assert_eq!((error.code(), error.info()), ("MyError", Some("why")));
}

#[test]
fn a_handle_is_stale_after_timeout_cancel_and_drop() {
    for how in ["timeout", "cancel", "drop"] {
        let slot = Slot::default();
        let given = Rc::clone(&slot);
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            given.replace(Some(asi.completion()));
            asi.set_timeout(Duration::from_millis(10));
        });
        let mut execution = flow.execute();
        wait(&mut execution, 0);
        match how {
            "timeout" => drop(end::<()>(&mut execution, 10)),
            "cancel" => execution.cancel(),
            _ => drop(execution),
        }
        assert_eq!(take(&slot).success(()), Err(Stale), "{how}");
    }
}

#[test]
fn a_handle_of_an_earlier_step_does_not_complete_a_later_one() {
    let (mut flow, first) = waiting();
    let second = Slot::default();
    let given = Rc::clone(&second);
    flow.add(move |asi, ()| {
        given.replace(Some(asi.wait_external()));
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    let old = take(&first);
    assert_eq!(old.success(()), Ok(()));
    wait(&mut execution, 0);
    assert_eq!(old.success(()), Err(Stale));
    wait(&mut execution, 0);
    assert_eq!(take(&second).success(()), Ok(()));
    assert!(end::<()>(&mut execution, 0).is_ok());
}

#[test]
fn losing_the_last_handle_fails_the_step() {
    let (flow, slot) = waiting();
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    let handle = take(&slot);
    let clone = handle.clone();
    drop(handle);
    wait(&mut execution, 0);
    std::thread::spawn(move || drop(clone)).join().expect("no panic");
    let error = end::<()>(&mut execution, 0).expect_err("nobody can complete it");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
    assert!(error.info().is_some_and(|info| info.starts_with("abandoned: ")), "{error}");
}

#[test]
fn a_handle_lost_while_the_body_runs_fails_the_step() {
    let lose: [fn(Completion); 3] = [
        drop,
        |handle| std::thread::spawn(move || drop(handle)).join().expect("no panic"),
        |handle| {
            let (sender, receiver) = std::sync::mpsc::channel();
            drop(receiver);
            // the error gives the handle back, which is dropped with the error
            let _ = sender.send(handle);
        },
    ];
    for lose in lose {
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            lose(asi.wait_external());
            asi.set_timeout(Duration::from_millis(5));
        })
        .named("lost");
        let error = end::<()>(&mut flow.execute(), 0).expect_err("it cannot be completed");
        assert!(error.info().is_some_and(|info| info.starts_with("abandoned: ")), "{error}");
        assert_eq!(error.location().and_then(|place| place.name()), Some("lost"));
    }
}

#[test]
fn a_handle_that_a_step_does_not_need_may_be_lost() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        drop(asi.wait_external());
        asi.success(1)
    });
    flow.add(|asi, one: i32| {
        drop(asi.wait_external());
        asi.add(move |asi, ()| asi.success(one + 1));
    });
    assert_eq!(end::<i32>(&mut flow.execute(), 0).expect("nothing waits"), 2);
}

#[test]
fn a_handle_may_be_taken_after_wait_only() {
    let slot = Slot::default();
    let given = Rc::clone(&slot);
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.wait_only();
        given.replace(Some(asi.completion()));
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    assert_eq!(take(&slot).success(7), Ok(()));
    assert_eq!(end::<i32>(&mut execution, 0).expect("completed"), 7);
}

#[test]
fn a_step_can_wait_for_its_time_limit_only() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.wait_only();
        asi.set_timeout(Duration::from_millis(5));
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    wait(&mut execution, 4);
    assert_eq!(end::<()>(&mut execution, 5).expect_err("late").code(), codes::TIMEOUT);
}

#[test]
fn losing_the_handle_of_a_step_with_sub_steps_does_not_matter() {
    let slot = Slot::default();
    let given = Rc::clone(&slot);
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        given.replace(Some(asi.completion()));
        asi.sleep(Duration::from_millis(5));
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    drop(take(&slot));
    wait(&mut execution, 0);
    assert!(end::<()>(&mut execution, 5).is_ok());
}

#[test]
fn completing_a_step_with_sub_steps_breaks_a_rule() {
    let slot = Slot::default();
    let given = Rc::clone(&slot);
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        given.replace(Some(asi.completion()));
        asi.parallel(|p| {
            p.add(|asi, ()| asi.wait_only()).named("culprit");
        });
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    assert_eq!(take(&slot).success(()), Ok(()), "the handle cannot know");
    let error = end::<()>(&mut execution, 0).expect_err("a rule was broken");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
    let info = error.info().unwrap_or_default();
    assert!(
        info.starts_with("external completion of a step with sub-steps, in the step "),
        "{info}"
    );
}

/// Counts how often a host was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_host_is_woken_at_most_once_per_turn() {
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let handles = Rc::new(RefCell::new(Vec::new()));
    let given = Rc::clone(&handles);
    let mut flow = Flow::new();
    flow.parallel(|p| {
        for _ in 0..3 {
            let given = Rc::clone(&given);
            p.add(move |asi, ()| given.borrow_mut().push(asi.wait_external()));
        }
    });
    let mut execution = flow.execute();
    assert!(matches!(execution.run(at(0), &waker), Progress::Waiting));
    for handle in handles.take() {
        std::thread::spawn(move || handle.success(())).join().expect("no panic").expect("in time");
    }
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert!(matches!(execution.run(at(0), &waker), Progress::Done(Outcome::Success(_))));
}

#[test]
fn an_event_within_the_turn_is_received_without_a_wake_up() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        let handle = asi.wait_external();
        handle.success("at once").expect("the step waits");
    });
    assert_eq!(end::<String>(&mut flow.execute(), 0).expect("completed"), "at once");
}

#[test]
fn a_future_is_woken_from_another_thread() {
    let shared = Arc::new(Mutex::new((None::<Waker>, None::<u32>)));
    let inside = Arc::clone(&shared);
    let mut flow = Flow::new();
    flow.await_(poll_fn(move |context| {
        let mut shared = inside.lock().expect("no panic");
        shared.0 = Some(context.waker().clone());
        shared.1.map_or(Poll::Pending, |value| Poll::Ready(Ok::<_, Error>(value)))
    }));
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    let (waker, _) = shared.lock().expect("no panic").clone();
    let waker = waker.expect("it was polled");
    waker.wake_by_ref();
    wait(&mut execution, 0);
    shared.lock().expect("no panic").1 = Some(42);
    let late = waker.clone();
    std::thread::spawn(move || waker.wake()).join().expect("no panic");
    assert_eq!(end::<u32>(&mut execution, 0).expect("it is ready"), 42);
    late.wake();
}

#[test]
fn errors_of_futures_keep_their_code_or_become_internal() {
    let mut flow = Flow::new();
    flow.await_(async { Err::<(), _>(Error::with_info("MyError", "why")) });
    let error = end::<()>(&mut flow.execute(), 0).expect_err("it failed");
    assert_eq!((error.code(), error.info()), ("MyError", Some("why")));
    let mut flow = Flow::new();
    flow.await_(async { "x".parse::<u8>() });
    let error = end::<()>(&mut flow.execute(), 0).expect_err("not a number");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn timeout_and_cancel_drop_the_future() {
    for timeout in [true, false] {
        let log = Log::default();
        let dropped = Dropped(log.clone(), "future");
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            asi.set_timeout(Duration::from_millis(10));
            asi.await_(async move {
                let _dropped = dropped;
                pending::<Result<(), Error>>().await
            });
        });
        let mut execution = flow.execute();
        wait(&mut execution, 0);
        if timeout {
            assert!(matches!(run(&mut execution, 10), Progress::Done(Outcome::Error(_))));
        } else {
            execution.cancel();
        }
        assert_eq!(log.take(), "-future");
    }
}
