//! The mutex actor: order, limits, keys, and release on every way out.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use actix::Arbiter;
use asyncsteps::sync::mutex::Options;
use asyncsteps::{Completion, Flow, Template, codes};
use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::Mutex;
use asyncsteps_actors::sync::mutex::Load;
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

/// Waits until the actor has handled everything that was sent to it.
async fn load(mutex: &Mutex) -> Load {
    mutex.load().await.expect("the actor lives")
}

/// Lets flows that were told of a lock enter.
async fn settle(mutex: &Mutex) -> Load {
    for _ in 0..4 {
        load(mutex).await;
    }
    load(mutex).await
}

#[actix::test]
async fn owners_enter_one_after_the_other_in_order() {
    let (mutex, inside) = (Mutex::start(Options::default()), Sections::default());
    let flows: Vec<FlowHandle> =
        (0..3).map(|number| start_flow(holder(&mutex, number, &inside))).collect();
    for number in 0..3 {
        let busy = settle(&mutex).await;
        assert_eq!((busy.holders, busy.queued), (1, 2 - number));
        let (entered, done) = inside.borrow_mut().pop().expect("somebody is inside");
        assert_eq!(entered, number);
        done.success(()).expect("it waits");
    }
    for flow in flows {
        flow.await.expect("each gets its turn");
    }
    assert_eq!(load(&mutex).await, Load::default());
}

#[actix::test]
async fn arguments_pass_in_and_results_pass_out() {
    let mutex = Mutex::start(Options::default());
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
    let mutex = Mutex::start(Options::default());
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
        assert_eq!(load(&mutex).await, Load::default());
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
    let (mutex, inside) = (Mutex::start(Options::default()), Sections::default());
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
    assert_eq!(load(&mutex).await, Load::default());
}

#[actix::test]
async fn a_full_queue_rejects_past_the_handler_of_the_section() {
    let mutex = Mutex::start(Options { max: 1, max_queue: Some(0) });
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
    let (mutex, inside) = (Mutex::start(Options::default()), Sections::default());
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
async fn an_actor_that_died_fails_the_waiting_step() {
    let arbiter = Arbiter::new();
    let mutex = Mutex::start_on(&arbiter.handle(), Options::default());
    load(&mutex).await;
    arbiter.stop();
    arbiter.join().expect("no panic");
    let mut flow = Flow::new();
    flow.sync(&mutex, |_, ()| {});
    let error = start_flow::<()>(flow).await.expect_err("nobody grants the lock");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
}

#[test]
fn locks_of_an_arbiter_that_ends_come_free() {
    actix_rt::System::new().block_on(async {
        let mutex = Mutex::start(Options::default());
        let arbiter = Arbiter::new();
        let (tell, told) = oneshot::channel();
        let lock = mutex.clone();
        arbiter.spawn_fn(move || {
            let mut flow = Flow::new();
            flow.sync(&lock, move |asi, ()| {
                drop(asi.wait_external());
                // the test may have failed meanwhile
                let _ = tell.send(());
            });
            start_flow::<()>(flow).detach();
        });
        told.await.expect("the other arbiter holds the lock");
        assert_eq!(load(&mutex).await.holders, 1);
        arbiter.stop();
        arbiter.join().expect("no panic");
        let mut flow = Flow::new();
        flow.sync(&mutex, |asi, ()| asi.success(1));
        assert_eq!(start_flow::<i32>(flow).await.expect("the lock is free"), 1);
    });
}
