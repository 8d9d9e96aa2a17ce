//! A loop that is driven by hand (FTN12 §2.6) and used again from inside: by polls, by callbacks that panic,
//! and by destructors of wakers.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{Flow, Time};

#[derive(Default)]
struct Host(AtomicU32);

impl Wake for Host {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn host() -> (Arc<Host>, Waker) {
    let host = Arc::<Host>::default();
    (Arc::clone(&host), Waker::from(host))
}

fn settle(tool: &Manual) {
    while tool.iterate(Time::ZERO, Waker::noop()).is_some() {}
}

fn panics(tool: &Manual, waker: &Waker) {
    assert!(catch_unwind(AssertUnwindSafe(|| tool.iterate(Time::ZERO, waker))).is_err());
}

#[test]
fn a_future_that_is_woken_by_a_round_inside_of_its_poll_is_polled_again() {
    let (tool, polls) = (Manual::new(Time::ZERO), Rc::new(Cell::new(0)));
    let (counted, inner) = (Rc::clone(&polls), tool.clone());
    tool.spawn(poll_fn(move |cx| {
        counted.set(counted.get() + 1);
        if counted.get() == 2 {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        inner.spawn(async move { waker.wake() });
        inner.iterate(Time::ZERO, Waker::noop());
        inner.iterate(Time::ZERO, Waker::noop());
        Poll::Pending
    }));
    settle(&tool);
    assert_eq!(polls.get(), 2);
}

#[test]
fn what_a_round_inside_leaves_when_it_panics_runs_in_the_next() {
    let (tool, ran) = (Manual::new(Time::ZERO), Arc::new(AtomicU32::new(0)));
    let (counted, inner) = (Arc::clone(&ran), tool.clone());
    tool.immediate(move || {
        inner.remote().immediate(|_| panic!("on purpose"));
        inner.remote().immediate(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        panics(&inner, Waker::noop());
    });
    settle(&tool);
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    assert!(tool.is_empty());
}

#[test]
fn a_host_that_waits_after_a_panic_is_woken_by_a_spawn() {
    let (tool, (host, waker)) = (Manual::new(Time::ZERO), host());
    assert_eq!(tool.iterate(Time::ZERO, &waker), None);
    tool.immediate(|| panic!("on purpose"));
    panics(&tool, &waker);
    let before = host.0.load(Ordering::Relaxed);
    tool.spawn(async {});
    assert_eq!(host.0.load(Ordering::Relaxed), before + 1);
}

thread_local! {
    static LOOP: RefCell<Option<Manual>> = const { RefCell::new(None) };
}

/// A waker whose destructor spawns.
struct Spawns;

impl Wake for Spawns {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Spawns {
    fn drop(&mut self) {
        let tool = LOOP.with_borrow_mut(Option::take);
        if let Some(tool) = tool {
            tool.spawn(async {});
        }
    }
}

#[test]
fn the_destructor_of_a_waker_may_spawn() {
    for is_nested in [false, true] {
        let tool = Manual::new(Time::ZERO);
        LOOP.set(Some(tool.clone()));
        let inner = tool.clone();
        let round = move || {
            inner.iterate(Time::ZERO, &Waker::from(Arc::new(Spawns)));
        };
        if is_nested {
            tool.immediate(round);
        } else {
            round();
        }
        let (_, waker) = host();
        assert_eq!(tool.iterate(Time::ZERO, &waker), Some(Time::ZERO), "nested: {is_nested}");
        assert_eq!(tool.iterate(Time::ZERO, &waker), None);
        assert!(tool.is_empty());
    }
}

#[test]
fn a_loop_that_was_cleared_polls_new_futures_once() {
    let (tool, log) = (Manual::new(Time::ZERO), Rc::new(RefCell::new(String::new())));
    tool.spawn(async {});
    tool.spawn(async {});
    tool.clear();
    for name in ["a", "b"] {
        let log = Rc::clone(&log);
        tool.spawn(poll_fn(move |_| {
            log.borrow_mut().push_str(name);
            Poll::<()>::Pending
        }));
    }
    settle(&tool);
    assert_eq!(*log.borrow(), "ab");
    tool.clear();
}

#[test]
fn the_time_that_a_round_gives_is_not_before_that_of_a_round_inside() {
    let tool = Manual::new(Time::ZERO);
    let (inner, later) = (tool.clone(), Time::ZERO + Duration::from_secs(1));
    tool.immediate(move || {
        inner.deferred(Duration::from_millis(1), || {});
        inner.deferred(Duration::from_secs(2), || {});
        inner.iterate(later, Waker::noop());
        inner.spawn(async {});
    });
    assert_eq!(tool.iterate(Time::ZERO, Waker::noop()), Some(later));
    assert_eq!(tool.iterate(later, Waker::noop()), Some(later + Duration::from_secs(1)));
    tool.clear();
}

#[test]
fn the_end_by_a_panic_of_another_flow_is_told() {
    let tool = Manual::new(Time::ZERO);
    let mut flow = Flow::new();
    flow.await_(async {
        let mut other = Flow::new();
        other.add(|_, ()| panic!("elsewhere"));
        asyncsteps_core::run_to_end::<()>(other)
    });
    flow.execute_on(&tool);
    settle(&tool);
    let unseen = tool.take_unreported_errors();
    assert_eq!(
        unseen.iter().filter_map(|error| error.panic_message()).collect::<Vec<_>>(),
        ["elsewhere"]
    );
}
