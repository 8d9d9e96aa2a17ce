//! The promise: a request has one deadline. Whatever is done for it ends then: lock waits, futures,
//! flows that its flow starts, and requests that its flow makes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use asyncsteps_actors::flow::{DeadlineSteps, IntoFlow, blocking, start_flow};
use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::{Error, Flow, Template, codes};
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{Executor, Incoming, Reply};
use asyncsteps_support::client::message;
use asyncsteps_support::jobs::{self, Jobs};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_secs(10);

/// Says how late it is when it is dropped.
struct OnDrop(Rc<RefCell<Vec<u64>>>, Instant);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.borrow_mut().push(self.1.elapsed().as_secs());
    }
}

#[derive(Clone)]
struct Ends(Rc<RefCell<Vec<u64>>>, Instant);

impl Ends {
    fn new() -> Self {
        tokio::time::pause();
        Self(Rc::default(), Instant::now())
    }

    fn guard(&self) -> OnDrop {
        OnDrop(Rc::clone(&self.0), self.1)
    }

    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.0.borrow_mut())
    }
}

async fn for_ever(_guard: OnDrop) -> Result<(), Error> {
    std::future::pending().await
}

#[actix::test]
async fn a_deadline_ends_what_a_flow_waits_for_and_no_handler_sees_it() {
    let ends = Ends::new();
    let mut flow = Flow::new();
    flow.await_(for_ever(ends.guard())).on_error(|asi, _| asi.success(()));
    let error = start_flow::<()>(flow.within(LIMIT)).await.expect_err("it takes too long");
    assert_eq!(error.code(), codes::TIMEOUT);
    assert_eq!(ends.take(), [10]);
}

#[actix::test]
async fn a_deadline_that_has_passed_lets_nothing_begin() {
    let ends = Ends::new();
    let mut flow = Flow::new();
    let guard = ends.guard();
    flow.add(move |_, ()| {
        let _guard = guard;
        unreachable!("it does not run");
    });
    let error = start_flow::<()>(flow.within(Duration::ZERO)).await.expect_err("it is late");
    assert_eq!(error.code(), codes::TIMEOUT);
    assert_eq!(ends.take(), [0]);
}

#[actix::test]
async fn steps_see_what_is_left() {
    let ends = Ends::new();
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        assert_eq!(asi.remaining(), Some(LIMIT));
        asi.sleep(LIMIT / 5);
    });
    flow.add(|asi, ()| {
        let left = asi.remaining().expect("a deadline");
        assert_eq!(asi.deadline(), Some(asi.now() + left));
        asi.success(left.as_secs_f64().round())
    });
    let limited = flow.within(LIMIT * 2).within(LIMIT);
    assert_eq!(start_flow::<f64>(limited).await.expect("in time"), 8.0);
    assert_eq!(ends.1.elapsed().as_secs(), 2);
    let mut free = Flow::new();
    free.add(|asi, ()| asi.success(asi.remaining().is_none() && asi.deadline().is_none()));
    assert!(start_flow::<bool>(free).await.expect("no limit"));
}

#[actix::test]
async fn a_lock_wait_ends_with_its_flow_and_leaves_the_queue() {
    let ends = Ends::new();
    let lock = Mutex::new(Default::default());
    let (inside, waits) = (ends.guard(), lock.clone());
    let mut holder = Flow::new();
    holder.sync(&lock, |asi, ()| {
        asi.await_(for_ever(inside));
    });
    let holder = start_flow::<()>(holder.within(LIMIT * 2));
    let mut waiter = Flow::new();
    waiter.sync(&waits, |_, ()| unreachable!("the lock is taken"));
    assert!(start_flow::<()>(waiter.within(LIMIT)).await.is_err());
    assert_eq!(ends.1.elapsed().as_secs(), 10);
    assert!(holder.await.is_err());
    assert_eq!(ends.take(), [20]);
    let mut free = Flow::new();
    free.sync(&lock, |asi, ()| asi.success(1));
    assert_eq!(start_flow::<i32>(free).await.expect("no flow is left"), 1);
}

#[actix::test]
async fn flows_that_a_flow_starts_end_no_later() {
    let ends = Ends::new();
    let (started, longer) = (ends.guard(), ends.guard());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        let mut other = Flow::new();
        other.await_(for_ever(started));
        start_flow::<()>(other.within(LIMIT / 2)).detach();
        let mut third = Flow::new();
        third.await_(for_ever(longer));
        asi.await_(start_flow::<()>(third.within(LIMIT * 2)));
    });
    let error = start_flow::<()>(flow.within(LIMIT)).await.expect_err("it takes too long");
    assert_eq!(error.code(), codes::TIMEOUT);
    // all are over when the arbiter had its turn
    tokio::task::yield_now().await;
    assert_eq!(ends.take(), [5, 10]);
}

#[actix::test]
async fn a_flow_that_is_launched_has_its_own_time() {
    let ends = Ends::new();
    let (tell, told) = oneshot::channel();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        let mut child = asi.new_instance();
        child.steps().sleep(LIMIT * 2);
        child.add(move |asi, ()| tell.send(asi.remaining()).expect("the test waits"));
        asi.launch(child);
    });
    flow.await_(for_ever(ends.guard()));
    assert!(start_flow::<()>(flow.within(LIMIT)).await.is_err());
    assert_eq!(told.await.expect("it runs to its end"), None);
    assert_eq!(ends.1.elapsed().as_secs(), 20);
    assert_eq!(ends.take(), [10]);
}

fn local() -> Channel {
    Channel::local()
}

async fn dispatch(executor: &Executor, function: &str) -> Reply {
    let request = Request::parse(&message(function, &json!({}))).expect("a request");
    executor.dispatch(Incoming::new(request, local())).await
}

#[actix::test]
async fn a_request_made_by_a_request_has_no_more_time_than_that() {
    tokio::time::pause();
    let begin = Instant::now();
    let (mut jobs, builder) = Jobs::add(Executor::builder().heavy_timeout(LIMIT * 6));
    let inner = builder.build().expect("a right configuration");
    let calls = {
        let inner = inner.clone();
        Template::build(move |asi| {
            asi.add(move |asi, ()| {
                let inner = inner.clone();
                asi.await_(async move {
                    let reply = dispatch(&inner, "test.jobs:1.0:waitHeavy").await;
                    let bytes = reply.into_bytes().unwrap_or_default();
                    let answer: Value = serde_json::from_slice(&bytes)?;
                    Ok::<_, serde_json::Error>((answer,))
                });
            });
        })
    };
    let outer = Executor::builder().request_timeout(LIMIT);
    let outer = outer.interface(jobs::definition(), |functions| {
        functions.others_not_implemented();
        functions.add("wait", &calls);
    });
    let outer = outer.build().expect("a right configuration");
    let reply = dispatch(&outer, "test.jobs:1.0:wait").await.into_bytes().expect("an answer");
    assert_eq!(
        serde_json::from_slice::<Value>(&reply).expect("JSON"),
        json!({ "e": "InternalError" })
    );
    let _stuck = jobs.started().await;
    jobs.cancelled().await;
    assert_eq!(begin.elapsed().as_secs(), LIMIT.as_secs());
    assert_eq!((inner.in_flight_count(), outer.in_flight_count()), (0, 0));
}

#[actix::test]
async fn blocking_work_gives_its_result_its_error_or_its_panic() {
    let mut flow = Flow::new();
    flow.await_(blocking(|| Ok::<_, Error>((std::thread::current().id(),))));
    flow.add(|asi, (there,): (ThreadId,)| asi.success(there != std::thread::current().id()));
    assert!(start_flow::<bool>(flow).await.expect("it succeeds"));

    let mut flow = Flow::new();
    flow.await_(blocking(|| Err::<(), _>(Error::with_info("Full", "no space"))));
    let error = start_flow::<()>(flow).await.expect_err("it fails");
    assert_eq!((error.code(), error.info()), ("Full", Some("no space")));

    let mut flow = Flow::new();
    flow.await_(blocking(|| -> Result<(), Error> { panic!("in the pool") }));
    let error = start_flow::<()>(flow).await.expect_err("it panics");
    assert_eq!((error.code(), error.panic_message()), (codes::INTERNAL_ERROR, Some("in the pool")));
}

#[actix::test]
async fn blocking_work_is_not_begun_before_its_step_and_not_waited_for_after() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (told, tells) = oneshot::channel();
    let begun = Arc::new(AtomicBool::new(false));
    let (begins, before) = (Arc::clone(&begun), Arc::clone(&begun));
    let mut flow = Flow::new();
    flow.add(move |_, ()| assert!(!before.load(Ordering::SeqCst)));
    flow.await_(blocking(move || {
        begins.store(true, Ordering::SeqCst);
        let _ = told.send(());
        // until the test has seen the flow end
        let _ = released.recv();
        Ok::<_, Error>(())
    }));
    let handle = start_flow::<()>(flow);
    tells.await.expect("it begins");
    handle.cancel();
    assert!(handle.await.is_err());
    assert!(begun.load(Ordering::SeqCst));
    release.send(()).expect("the work still runs");
}
