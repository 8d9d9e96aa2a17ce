//! The mutex: order, limits, keys, and release on every way out.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use actix::Arbiter;
use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::mutex::Locking;
use asyncsteps_actors::sync::{Limiter, Load, Lock, Mutex};
use asyncsteps_core::sync::limiter;
use asyncsteps_core::sync::mutex::Options;
use asyncsteps_core::{Completion, Flow, Template, codes};
use tokio::sync::oneshot;

type Sections = Rc<RefCell<Vec<(usize, Completion)>>>;

/// A flow whose section waits until the test completes it.
fn holder(mutex: &Mutex, number: usize, inside: &Sections) -> Flow {
    let inside = Rc::clone(inside);
    let mut flow = Flow::new();
    flow.sync(mutex, move |asi, ()| {
        let done = asi.wait_external();
        inside.borrow_mut().push((number, done));
    });
    flow
}

/// Whether a future has to wait longer.
fn is_pending(future: &mut Pin<Box<Locking>>) -> bool {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// Lets flows that were told of a lock enter.
async fn settle(mutex: &Mutex) -> Load {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    mutex.load()
}

#[actix::test]
async fn owners_enter_one_after_the_other_in_order() {
    let (mutex, inside) = (Mutex::new(Options::default()), Sections::default());
    let flows: Vec<FlowHandle> =
        (0..3).map(|number| start_flow(holder(&mutex, number, &inside))).collect();
    for number in 0..3 {
        let busy = settle(&mutex).await;
        assert_eq!((busy.holders, busy.queued), (1, 2 - number));
        let (entered, done) = inside.borrow_mut().pop().expect("one is inside");
        assert_eq!(entered, number);
        done.success(()).expect("it waits");
    }
    for flow in flows {
        flow.await.expect("each gets its turn");
    }
    assert_eq!(mutex.load(), Load::default());
}

#[actix::test]
async fn arguments_pass_in_and_results_pass_out() {
    let mutex = Mutex::new(Options::default());
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.success((20, "text".to_owned())));
        asi.sync(&mutex, |asi, (n, text): (i32, String)| asi.success((text, n + 1)));
    });
    let result = start_flow::<(String, i32)>(template.flow()).await;
    assert_eq!(result.expect("it succeeds"), ("text".to_owned(), 21));
}

#[actix::test]
async fn every_way_out_releases() {
    tokio::time::pause();
    let mutex = Mutex::new(Options::default());
    let mut flows: Vec<Flow> = Vec::new();
    let mut with = |add: fn(&mut Flow, &Mutex)| {
        let mut flow = Flow::new();
        add(&mut flow, &mutex);
        flows.push(flow);
    };
    with(|flow, mutex| {
        flow.sync(mutex, |_, ()| {});
    });
    with(|flow, mutex| {
        flow.sync(mutex, |asi, ()| asi.error("Failed", ()));
    });
    with(|flow, mutex| {
        flow.sync(mutex, |_, ()| panic!("inside"));
    });
    with(|flow, mutex| {
        flow.sync(mutex, |asi, ()| asi.set_timeout(Duration::from_secs(1)));
    });
    for flow in flows {
        // how it ended is not the question here
        let _ = start_flow::<()>(flow).await;
        assert_eq!(mutex.load(), Load::default());
    }
    let inside = Sections::default();
    let dropped: FlowHandle = start_flow(holder(&mutex, 0, &inside));
    assert_eq!(settle(&mutex).await.holders, 1);
    drop(dropped);
    assert_eq!(settle(&mutex).await, Load::default());
}

#[actix::test]
async fn a_waiter_that_is_cancelled_or_times_out_leaves_the_queue() {
    tokio::time::pause();
    let (mutex, inside) = (Mutex::new(Options::default()), Sections::default());
    let owner: FlowHandle = start_flow(holder(&mutex, 0, &inside));
    let cancelled: FlowHandle = start_flow(holder(&mutex, 1, &inside));
    let (lock, mut flow) = (mutex.clone(), Flow::new());
    flow.add(move |asi, ()| {
        asi.set_timeout(Duration::from_secs(1));
        asi.sync(&lock, |_, ()| {});
    });
    let late: FlowHandle = start_flow(flow);
    let last: FlowHandle = start_flow(holder(&mutex, 3, &inside));
    assert_eq!(settle(&mutex).await.queued, 3);
    cancelled.cancel();
    assert!(cancelled.await.is_err());
    assert_eq!(late.await.expect_err("the owner stays inside").code(), codes::TIMEOUT);
    assert_eq!(settle(&mutex).await.queued, 1);
    inside.borrow_mut().remove(0).1.success(()).expect("it waits");
    owner.await.expect("it leaves");
    settle(&mutex).await;
    let (entered, done) = inside.borrow_mut().pop().expect("the last one is inside");
    assert_eq!(entered, 3);
    done.success(()).expect("it waits");
    last.await.expect("it leaves");
    assert_eq!(mutex.load(), Load::default());
}

#[actix::test]
async fn a_full_queue_rejects_past_the_handler_of_the_section() {
    let mutex = Mutex::new(Options { max: 1, max_queue: Some(0) });
    let inside = Sections::default();
    let _owner: FlowHandle = start_flow(holder(&mutex, 0, &inside));
    settle(&mutex).await;
    let (lock, mut flow) = (mutex.clone(), Flow::new());
    flow.add(move |asi, ()| {
        asi.sync(&lock, |_, ()| {}).on_error(|asi, _| asi.error("SeenByTheSection", ()));
    });
    let error = start_flow::<()>(flow).await.expect_err("it is rejected");
    assert_eq!(error.code(), codes::DEFENSE_REJECTED);
    assert_eq!(error.info(), Some("Mutex queue limit"));
}

#[actix::test]
async fn keys_are_locked_on_their_own_and_take_no_memory_when_free() {
    let (mutex, inside) = (Mutex::new(Options::default()), Sections::default());
    let flows: Vec<FlowHandle> = ["a", "b", "a"]
        .into_iter()
        .enumerate()
        .map(|(number, key)| start_flow(holder(&mutex.key(key), number, &inside)))
        .collect();
    assert_eq!(settle(&mutex).await, Load { keys: 2, holders: 2, queued: 1 });
    drop(flows);
    assert_eq!(settle(&mutex).await, Load::default());
}

#[actix::test]
async fn flows_and_calls_stand_in_one_queue() {
    let (mutex, inside) = (Mutex::new(Options::default()), Sections::default());
    let first = mutex.try_lock().expect("it is free");
    let flow: FlowHandle = start_flow(holder(&mutex, 0, &inside));
    settle(&mutex).await;
    let mut second = Box::pin(mutex.lock());
    assert!(is_pending(&mut second));
    assert!(mutex.try_lock().is_none());
    drop(first);
    assert_eq!(settle(&mutex).await, Load { keys: 1, holders: 1, queued: 1 });
    assert!(is_pending(&mut second), "the flow came first");
    inside.borrow_mut().remove(0).1.success(()).expect("it waits");
    flow.await.expect("it was inside");
    let guard = second.await.expect("its turn");
    assert_eq!(mutex.load().holders, 1);
    drop(guard);
    assert_eq!(mutex.load(), Load::NONE);
}

#[actix::test]
async fn a_call_that_is_dropped_gives_up_its_place_or_passes_the_turn_on() {
    let mutex = Mutex::new(Options { max: 1, max_queue: Some(2) });
    let guard = mutex.lock().await.expect("it is free");
    let [mut second, mut third] = [mutex.lock(), mutex.lock()].map(Box::pin);
    assert!(is_pending(&mut second));
    assert!(is_pending(&mut third));
    let error = mutex.lock().await.expect_err("two wait");
    assert_eq!((error.code(), error.info()), (codes::DEFENSE_REJECTED, Some("Mutex queue limit")));
    drop(guard);
    drop(second);
    let guard = third.await.expect("the second one did not take its turn");
    drop(guard);
    assert_eq!(mutex.load(), Load::NONE);
}

#[actix::test]
async fn an_actor_locks_by_message_and_unlocks_by_drop() {
    let mutex = Mutex::new(Options { max: 1, max_queue: Some(1) });
    let address = mutex.address();
    let guard = address.send(Lock::key("a")).await.expect("it runs").expect("it is free");
    let other = address.send(Lock::key("b")).await.expect("it runs").expect("it is free");
    let waiting = actix::spawn(address.send(Lock::key("a")));
    let key = mutex.key("a");
    while key.load().queued == 0 {
        tokio::task::yield_now().await;
    }
    let rejected = address.send(Lock::key("a")).await.expect("it runs");
    assert_eq!(rejected.expect_err("one waits").code(), codes::DEFENSE_REJECTED);
    drop((guard, other));
    let guard = waiting.await.expect("no panic").expect("it runs").expect("its turn");
    drop(address);
    assert_eq!(settle(&mutex).await, Load { keys: 1, holders: 1, queued: 0 });
    drop(guard);
    assert_eq!(mutex.load(), Load::NONE);
}

#[actix::test]
async fn a_request_that_is_dropped_gives_up_its_place() {
    let mutex = Mutex::new(Options::default());
    let address = mutex.address();
    let guard = address.send(Lock::default()).await.expect("it runs").expect("it is free");
    let waiting = actix::spawn(address.send(Lock::default()));
    while mutex.load().queued == 0 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    while mutex.load().queued == 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(mutex.load(), Load { keys: 1, holders: 1, queued: 0 });
    drop(guard);
    assert_eq!(mutex.load(), Load::NONE);
}

#[test]
fn a_request_to_an_arbiter_that_ends_gives_up_its_place() {
    actix_rt::System::new().block_on(async {
        let (arbiter, mutex) = (Arbiter::new(), Mutex::new(Options::default()));
        let (tell, told) = oneshot::channel();
        let served = mutex.clone();
        arbiter.spawn_fn(move || drop(tell.send(served.address())));
        let address = told.await.expect("it starts there");
        let guard = address.send(Lock::default()).await.expect("it runs").expect("it is free");
        let waiting = actix::spawn(address.send(Lock::default()));
        while mutex.load().queued == 0 {
            tokio::task::yield_now().await;
        }
        arbiter.stop();
        arbiter.join().expect("no panic");
        assert!(waiting.await.expect("no panic").is_err(), "its actor is gone");
        assert_eq!(mutex.load(), Load { keys: 1, holders: 1, queued: 0 });
        drop(guard);
        assert_eq!(mutex.load(), Load::NONE);
    });
}

#[test]
fn locks_of_an_arbiter_that_ends_come_free() {
    actix_rt::System::new().block_on(async {
        let mutex = Mutex::new(Options::default());
        let arbiter = Arbiter::new();
        let (tell, told) = oneshot::channel();
        let lock = mutex.clone();
        arbiter.spawn_fn(move || {
            let mut flow = Flow::new();
            flow.sync(&lock, move |asi, ()| {
                asi.wait_only();
                // the test may have failed meanwhile
                let _ = tell.send(());
            });
            start_flow::<()>(flow).detach();
        });
        told.await.expect("the other arbiter holds the lock");
        assert_eq!(mutex.load().holders, 1);
        arbiter.stop();
        arbiter.join().expect("no panic");
        let mut flow = Flow::new();
        flow.sync(&mutex, |asi, ()| asi.success(1));
        assert_eq!(start_flow::<i32>(flow).await.expect("the lock is free"), 1);
    });
}

#[test]
fn owners_on_several_threads_are_never_inside_together_and_leave_nothing() {
    const VISITS: usize = 20_000;
    let mutex = Mutex::new(Options::default());
    let (inside, visits) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (mutex, inside, visits) = (&mutex, &inside, &visits);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                runtime.expect("a runtime").block_on(async {
                    for visit in 0..VISITS {
                        // some wait, and some go away if they would have to
                        let guard = match (visit + number) % 3 {
                            0 => Some(mutex.lock().await.expect("no limit")),
                            1 => mutex.try_lock(),
                            _ => {
                                let mut lock = Box::pin(mutex.lock());
                                let noop = &mut Context::from_waker(Waker::noop());
                                match lock.as_mut().poll(noop) {
                                    Poll::Ready(guard) => Some(guard.expect("no limit")),
                                    Poll::Pending => None,
                                }
                            }
                        };
                        if guard.is_some() {
                            visits.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                            inside.fetch_sub(1, Ordering::Relaxed);
                        }
                    }
                });
            });
        }
    });
    assert!(visits.into_inner() > 4 * VISITS / 3);
    assert_eq!(mutex.load(), Load::NONE);
}

#[actix::test]
async fn a_flow_says_which_lock_it_waits_for_and_where_in_the_queue_it_is() {
    let shelf = Mutex::named("shelf", Options::default()).key("apple");
    let held = shelf.try_lock().expect("it is free");
    let waits = || {
        let mut flow = Flow::new();
        flow.sync(&shelf, |_, ()| {});
        start_flow::<()>(flow)
    };
    let (first, second) = (waits(), waits());
    let reason = |handle: &FlowHandle| handle.stack().waits[0].reason.to_string();
    assert_eq!(reason(&first), "mutex `shelf` key \"apple\", place 1 of 2");
    assert_eq!(reason(&second), "mutex `shelf` key \"apple\", place 2 of 2");
    first.cancel();
    first.await.expect_err("it was cancelled");
    assert_eq!(reason(&second), "mutex `shelf` key \"apple\", place 1 of 1");
    drop(held);
    second.await.expect("the lock is free");
}

#[actix::test]
async fn a_key_tells_how_busy_it_is_apart_from_the_others() {
    let (mutex, inside) = (Mutex::new(Options::default()), Sections::default());
    let _flows: Vec<FlowHandle> = ["ann", "ann", "bob"]
        .map(|key| start_flow(holder(&mutex.key(key), 0, &inside)))
        .into_iter()
        .collect();
    assert_eq!(settle(&mutex.key("ann")).await, Load { keys: 2, holders: 2, queued: 1 });
    for (key, expected) in [("ann", (1, 1)), ("bob", (1, 0)), ("eve", (0, 0))] {
        let report = mutex.key(key).key_report();
        assert_eq!((&*report.key, (report.holders, report.queued)), (key, expected));
    }
    let limiter = Limiter::new(limiter::Options::default());
    let _guard = limiter.key("ann").lock().await.expect("it is free");
    let reports = ["ann", "bob"].map(|key| limiter.key(key).key_report().holders);
    assert_eq!(reports, [1, 0]);
}
