//! AsyncTool (FTN12 §2.6) driven by hand, and flows as promises on it (§2.2.3).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{Completion, Error, Flow, Time};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(after: u64) -> Time {
    Time::from_epoch(ms(after))
}

/// Iterates until nothing is left to do; gives the time of the last iteration.
fn run(tool: &Manual) -> Time {
    while let Some(next) = tool.iterate(tool.now(), Waker::noop()) {
        tool.iterate(next, Waker::noop());
    }
    tool.now()
}

#[test]
fn time_limits_of_zero_expire_one_after_the_other() {
    let tool = Manual::new(Time::ZERO);
    let mut flow = Flow::new();
    for limit in [5, 0, 0] {
        flow.add(move |asi, ()| asi.set_timeout(ms(limit))).on_error(|asi, _| asi.success(()));
    }
    let result = tool.complete(flow.promise::<(), _>(&tool));
    assert!(matches!(result, Some(Ok(()))), "{result:?}");
    assert_eq!(tool.now(), at(5));
}

#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<&'static str>>>);

impl Log {
    fn adds(&self, line: &'static str) -> impl FnOnce() + use<> {
        let log = self.clone();
        move || log.0.borrow_mut().push(line)
    }

    fn take(&self) -> String {
        self.0.take().join(" ")
    }
}

#[test]
fn callbacks_run_by_time_and_then_in_the_order_scheduled() {
    let (tool, log) = (Manual::new(at(5)), Log::default());
    tool.deferred(ms(20), log.adds("late"));
    tool.deferred(ms(10), log.adds("early"));
    tool.immediate(log.adds("a"));
    tool.deferred(Duration::ZERO, log.adds("b"));
    assert_eq!(log.take(), "", "not inside of the call");
    assert_eq!(tool.iterate(at(5), Waker::noop()), Some(at(15)));
    assert_eq!(log.take(), "a b");
    assert_eq!(tool.iterate(at(14), Waker::noop()), Some(at(15)));
    assert_eq!(log.take(), "");
    assert_eq!(tool.iterate(at(100), Waker::noop()), None);
    assert_eq!(log.take(), "early late");
    assert!(tool.is_empty());
}

#[test]
fn a_callback_that_schedules_itself_leaves_its_owner_a_turn() {
    let tool = Manual::new(at(0));
    fn again(tool: Manual) {
        let next = tool.clone();
        tool.immediate(move || again(next));
    }
    again(tool.clone());
    for _ in 0..3 {
        assert_eq!(tool.iterate(at(7), Waker::noop()), Some(at(7)));
    }
}

#[test]
fn time_does_not_go_backwards() {
    let tool = Manual::new(at(10));
    tool.iterate(at(3), Waker::noop());
    assert_eq!(tool.now(), at(10));
}

#[test]
fn a_cancelled_callback_is_not_called_and_dropped_at_once() {
    let (tool, log) = (Manual::new(at(0)), Log::default());
    let captured = Rc::new(());
    let kept = Rc::clone(&captured);
    let handle = tool.deferred(ms(10), move || drop(kept));
    let other = tool.immediate(log.adds("ran"));
    assert!(tool.is_valid(&handle) && tool.is_valid(&other));
    tool.cancel(&handle);
    tool.cancel(&handle);
    assert_eq!(Rc::strong_count(&captured), 1);
    assert!(!tool.is_valid(&handle));
    assert_eq!(tool.iterate(at(0), Waker::noop()), None);
    assert_eq!(log.take(), "ran");
    assert!(!tool.is_valid(&other), "it ran");
    tool.cancel(&other);
    assert!(tool.is_same_thread());
}

#[test]
fn a_handle_of_another_loop_does_nothing() {
    let (one, two) = (Manual::new(at(0)), Manual::new(at(0)));
    let handle = one.immediate(|| {});
    two.immediate(|| {});
    two.cancel(&handle);
    assert!(one.is_valid(&handle) && !two.is_valid(&handle));
    assert!(!two.is_empty());
}

#[test]
fn a_panic_comes_out_and_removes_only_its_callback_or_future() {
    let (tool, log) = (Manual::new(at(0)), Log::default());
    tool.immediate(|| panic!("task"));
    tool.immediate(log.adds("task"));
    let broken = tool.spawn(async { panic!("future") });
    let add = log.adds("future");
    tool.spawn(async move { add() });
    for _ in 0..2 {
        assert!(catch_unwind(AssertUnwindSafe(|| tool.iterate(at(0), Waker::noop()))).is_err());
    }
    assert!(!tool.is_valid(&broken));
    run(&tool);
    assert_eq!(log.take(), "task future");
    assert!(tool.is_empty());
}

struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn other_threads_post_callbacks_and_wake_the_host() {
    let tool = Manual::new(at(0));
    let woken = Arc::new(Woken(AtomicU32::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    assert_eq!(tool.iterate(at(0), &waker), None);
    let remote = tool.remote();
    assert!(remote.is_same_thread());
    let elsewhere = thread::spawn(move || {
        assert!(!remote.is_same_thread());
        remote.immediate(|tool| {
            tool.deferred(ms(5), || {});
        });
        remote.immediate(|_| {});
    });
    elsewhere.join().expect("no panic");
    assert_eq!(woken.0.load(Ordering::Relaxed), 1, "once");
    assert_eq!(tool.iterate(at(1), &waker), Some(at(6)));
}

#[test]
fn a_cancelled_future_is_dropped_also_in_its_own_poll() {
    let tool = Manual::new(at(0));
    let parked = tool.spawn(std::future::pending());
    tool.cancel(&parked);
    let own = Rc::new(RefCell::new(None));
    let (inner, handle) = (tool.clone(), Rc::clone(&own));
    *own.borrow_mut() = Some(tool.spawn(async move {
        let handle = handle.borrow_mut().take().expect("set before the first poll");
        inner.cancel(&handle);
        std::future::pending::<()>().await;
    }));
    run(&tool);
    assert!(tool.is_empty());
}

#[test]
fn a_promise_is_polled_when_its_flow_has_something_to_do() {
    let tool = Manual::new(at(0));
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.set_timeout(ms(100));
        asi.sleep(ms(10));
        asi.repeat(1000, |_, _| {});
        asi.success_step(("done", 7));
    });
    let promise = flow.promise::<(String, u64), Manual>(&tool);
    let result = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&result);
    tool.spawn(async move { *seen.borrow_mut() = Some(promise.await) });
    assert_eq!(run(&tool), at(10));
    let result = result.take().expect("it is over").expect("nothing fails");
    assert_eq!(result, ("done".to_owned(), 7));
    assert!(tool.is_empty(), "the limit is off");
}

#[test]
fn a_flow_awaits_the_promise_of_another_with_its_error() {
    let tool = Manual::new(at(0));
    let mut inner = Flow::new();
    inner.add(|asi, ()| asi.set_timeout(ms(30)));
    let mut outer = Flow::new();
    outer.await_(inner.promise::<(), _>(&tool)).on_error(|asi, error| {
        let code = error.code().to_owned();
        asi.success(code)
    });
    let code = Rc::new(Cell::new(None));
    let (seen, promise) = (Rc::clone(&code), outer.promise::<String, _>(&tool));
    tool.spawn(async move { seen.set(promise.await.ok()) });
    assert_eq!(run(&tool), at(30));
    assert_eq!(code.take().as_deref(), Some("Timeout"));
}

#[test]
fn a_completion_from_another_thread_resumes_a_promise() {
    let tool = Manual::new(at(0));
    let mut flow = Flow::new();
    let (sender, receiver) = std::sync::mpsc::channel::<Completion>();
    flow.add(move |asi, ()| sender.send(asi.wait_external()).expect("somebody listens"));
    flow.add(|asi, n: u32| asi.success(n * 2));
    let result = Rc::new(Cell::new(None));
    let (seen, promise) = (Rc::clone(&result), flow.promise::<u32, _>(&tool));
    tool.spawn(async move { seen.set(promise.await.ok()) });
    run(&tool);
    let thread = thread::spawn(move || receiver.recv().expect("sent").success(21u32));
    thread.join().expect("no panic").expect("it waits");
    run(&tool);
    assert_eq!(result.take(), Some(42));
}

#[test]
fn dropping_or_cancelling_a_promise_cancels_its_flow() {
    let tool = Manual::new(at(0));
    let log = Log::default();
    let waiting = |name| {
        let add = log.adds(name);
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            asi.set_timeout(ms(1000));
            asi.set_cancel(move |_| add());
        });
        flow.promise::<(), _>(&tool)
    };
    let (dropped, mut cancelled) = (waiting("dropped"), waiting("cancelled"));
    let canceller = cancelled.canceller();
    let handle = tool.spawn(async move { drop(dropped.await) });
    let failed: Rc<RefCell<Option<Error>>> = Rc::default();
    let seen = Rc::clone(&failed);
    tool.spawn(async move { *seen.borrow_mut() = cancelled.await.err() });
    run_at(&tool, 0);
    tool.cancel(&handle);
    assert_eq!(log.take(), "dropped");
    canceller.cancel();
    run_at(&tool, 0);
    assert_eq!(log.take(), "cancelled");
    assert_eq!(failed.take().expect("it fails").info(), Some("cancelled"));
    assert!(tool.is_empty(), "no timer is left");
}

/// Iterates as long as there is something to do at this time.
fn run_at(tool: &Manual, now: u64) {
    while tool.iterate(at(now), Waker::noop()) == Some(at(now)) {}
}

#[test]
fn a_flow_is_executed_on_a_loop_that_is_told_of_its_error() {
    let (tool, log) = (Manual::new(at(0)), Log::default());
    let (add, undone) = (log.adds("ran"), log.adds("cancelled"));
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.sleep(ms(5));
        asi.add(move |_, ()| add());
    });
    flow.execute_on(&tool);
    assert_eq!(log.take(), "", "not inside of the call");
    assert_eq!(run(&tool), at(5));
    assert_eq!(log.take(), "ran");
    assert!(tool.is_empty() && tool.take_unreported_errors().is_empty());

    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.error("Broken", "on purpose"));
    flow.execute_on(&tool);
    run(&tool);
    let unseen = tool.take_unreported_errors();
    assert_eq!(unseen.iter().map(Error::code).collect::<Vec<_>>(), ["Broken"]);

    let mut flow = Flow::new();
    flow.add(|_, ()| panic!("on purpose"));
    flow.execute_on(&tool);
    run(&tool);
    let unseen = tool.take_unreported_errors();
    assert!(unseen.iter().all(|error| error.panic_message().is_some()), "{unseen:?}");
    assert_eq!(unseen.len(), 2, "the panic, and the error that ends the flow");

    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.wait_only();
        asi.set_cancel(move |_| undone());
    });
    let handle = flow.execute_on(&tool);
    run(&tool);
    assert!(tool.is_valid(&handle));
    tool.cancel(&handle);
    assert_eq!(log.take(), "cancelled");
    assert!(tool.is_empty() && tool.take_unreported_errors().is_empty());
}

#[test]
fn futures_are_polled_in_the_order_in_which_they_were_spawned_and_woken() {
    let (tool, log) = (Manual::new(at(0)), Log::default());
    let waker: Rc<RefCell<Option<Waker>>> = Rc::default();
    let (keeps, lines) = (Rc::clone(&waker), log.clone());
    tool.spawn(poll_fn(move |cx| {
        lines.adds("woken")();
        keeps.replace(Some(cx.waker().clone()));
        Poll::<()>::Pending
    }));
    run(&tool);
    log.take();
    let future = |line| {
        let add = log.adds(line);
        async move { add() }
    };
    tool.spawn(future("first"));
    let gone = tool.spawn(future("gone"));
    waker.take().expect("it waits").wake();
    tool.cancel(&gone);
    tool.spawn(future("second"));
    run(&tool);
    assert_eq!(
        log.take(),
        "first second woken",
        "the second one has the slot of the one that is gone"
    );
    waker.take().expect("it waits").wake();
    tool.spawn(future("third"));
    run(&tool);
    assert_eq!(log.take(), "woken third");
    tool.clear();
}

#[test]
fn what_is_added_between_rounds_wakes_the_host_once() {
    let (tool, host) = (Manual::new(at(0)), Arc::new(Woken(AtomicU32::new(0))));
    let waker = Waker::from(Arc::clone(&host));
    tool.spawn(async {});
    assert_eq!(host.0.load(Ordering::Relaxed), 0, "there was no round");
    assert_eq!(tool.iterate(at(0), &waker), None);
    for rounds in 1..=3 {
        tool.spawn(async {});
        tool.spawn(async {});
        assert_eq!(host.0.load(Ordering::Relaxed), rounds);
        assert_eq!(tool.iterate(at(0), &waker), None);
    }
    tool.immediate(|| {});
    tool.deferred(ms(1), || {});
    assert_eq!(host.0.load(Ordering::Relaxed), 4);
    assert_eq!(tool.iterate(at(0), &waker), Some(at(1)));
    let inner = tool.clone();
    tool.immediate(move || drop(inner.spawn(async {})));
    assert_eq!(host.0.load(Ordering::Relaxed), 5);
    assert_eq!(tool.iterate(at(0), &waker), Some(at(0)), "it is told by the result");
    assert_eq!(tool.iterate(at(1), &waker), None);
    assert_eq!(host.0.load(Ordering::Relaxed), 5);
}

#[test]
fn no_wake_up_of_another_thread_is_lost() {
    const ROUNDS: u32 = 20_000;
    let (tool, shared) =
        (Manual::new(at(0)), Arc::new((AtomicU32::new(0), Mutex::new(None::<Waker>))));
    let (told, is_over) = (Arc::clone(&shared), Rc::new(Cell::new(false)));
    let over = Rc::clone(&is_over);
    tool.spawn(poll_fn(move |cx| {
        told.1.lock().expect("no panic").get_or_insert_with(|| cx.waker().clone());
        if told.0.load(Ordering::Acquire) < ROUNDS {
            return Poll::Pending;
        }
        over.set(true);
        Poll::Ready(())
    }));
    tool.iterate(at(0), Waker::noop());
    let thread = thread::spawn(move || {
        let waker = shared.1.lock().expect("no panic").take().expect("it was polled");
        for _ in 0..ROUNDS {
            shared.0.fetch_add(1, Ordering::Release);
            waker.wake_by_ref();
        }
    });
    let host = Waker::from(Arc::new(Unpark(thread::current())));
    while !is_over.get() {
        if tool.iterate(at(0), &host).is_none() && !is_over.get() {
            thread::park();
        }
    }
    thread.join().expect("no panic");
}

/// Wakes a thread that is parked.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn launched_flows_of_a_promise_run_on_the_same_loop() {
    let (tool, log) = (Manual::new(at(0)), Log::default());
    let add = log.adds("launched");
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        let mut child = asi.new_instance();
        child.add(move |asi, ()| {
            asi.sleep(ms(5));
            asi.add(move |_, ()| add());
        });
        asi.launch(child);
    });
    let promise = flow.promise::<(), _>(&tool);
    tool.spawn(async move { promise.await.expect("nothing fails") });
    assert_eq!(run(&tool), at(5));
    assert_eq!(log.take(), "launched");
}

#[test]
fn a_loop_completes_a_future_in_virtual_time_or_gives_none() {
    let tool = Manual::new(at(3));
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.sleep(ms(7));
        asi.success_step(1);
    });
    tool.deferred(ms(100), || unreachable!("after the end"));
    let promise = flow.promise::<i32, _>(&tool);
    assert_eq!(tool.complete(promise).expect("it ends").expect("nothing fails"), 1);
    assert_eq!(tool.now(), at(10));
    let idle = Manual::new(at(0));
    assert_eq!(idle.complete(std::future::pending::<()>()), None);
    assert!(idle.is_empty());
}

#[test]
fn clearing_a_loop_drops_its_tasks_and_those_they_schedule() {
    struct Scheduler(Manual, Rc<Cell<u32>>);
    impl Drop for Scheduler {
        fn drop(&mut self) {
            self.1.set(self.1.get() + 1);
            let counted = Rc::clone(&self.1);
            self.0.immediate(move || counted.set(100));
        }
    }
    let tool = Manual::new(Time::ZERO);
    let drops = Rc::new(Cell::new(0));
    let held = Scheduler(tool.clone(), Rc::clone(&drops));
    tool.deferred(ms(1000), move || drop(held));
    let held = Scheduler(tool.clone(), Rc::clone(&drops));
    tool.spawn(async move {
        std::future::pending::<()>().await;
        drop(held);
    });
    tool.clear();
    assert_eq!((drops.get(), tool.is_empty()), (2, true));
    tool.iterate(at(1000), Waker::noop());
    assert_eq!(drops.get(), 2);
}
