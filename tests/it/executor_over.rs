//! The promise: each request is over once, and its hook gets the function, the user, the outcome and
//! the times.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_core::{Arg, Template};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::Request;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::{Executor, Hooks, Incoming, RequestOver};
use asyncsteps_support::client::message;
use asyncsteps_support::jobs::{Jobs, definition};
use serde_json::{Value, json};

const WAIT: &str = "test.jobs:1.0:wait";

/// A line for each request that is over.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<String>>>);

impl Hooks for Ends {
    fn over(&self, request: &RequestOver<'_>) {
        let RequestOver { function, outcome, queued, total, .. } = request;
        let user = request.user.map_or("-", User::local_id);
        let [queued, total] = [*queued, *total].map(|time| time.as_secs());
        let line = format!("{function} {user} {} {queued}s {total}s", outcome.as_str());
        self.0.lock().expect("no panic").push(line);
    }
}

impl Ends {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

fn executor(ends: &Ends) -> (Jobs, Executor) {
    tokio::time::pause();
    let builder = Executor::builder().max_requests(1).hooks(ends.clone());
    let (jobs, builder) = Jobs::add(builder);
    (jobs, builder.build().expect("a right configuration"))
}

fn incoming(function: &str) -> Incoming {
    let request = Request::parse(&message(function, &json!({ "n": 1 }))).expect("a request");
    Incoming::new(request, Channel::new(ChannelKind::Http))
}

#[actix::test]
async fn a_success_and_a_refusal_are_over_once() {
    let ends = Ends::default();
    let (mut jobs, executor) = executor(&ends);
    let ann = User::new("ann", SecurityLevel::Info);
    let call = actix_rt::spawn(executor.call_for::<Value>(&ann, WAIT, json!({ "n": 1 })));
    let job = jobs.started().await;
    tokio::time::advance(Duration::from_secs(2)).await;
    executor.dispatch(incoming(WAIT)).await;
    assert_eq!(ends.take(), [format!("{WAIT} - DefenseRejected 0s 0s")]);
    job.finish();
    assert!(call.await.expect("no panic").is_ok());
    assert_eq!(ends.take(), [format!("{WAIT} ann success 0s 2s")]);
    executor.dispatch(incoming("no.such:1.0:f")).await;
    assert_eq!(ends.take(), ["no.such:1.0:f - UnknownInterface 0s 0s"]);
}

#[actix::test]
async fn a_timeout_and_a_caller_that_left_are_over_once() {
    let ends = Ends::default();
    let (mut jobs, executor) = executor(&ends);
    let serving = executor.clone();
    executor.dispatch(incoming(WAIT)).await;
    assert_eq!(ends.take(), [format!("{WAIT} - InternalError 0s 5s")]);
    let left = actix_rt::spawn(async move { serving.dispatch(incoming(WAIT)).await });
    let _jobs = [jobs.started().await, jobs.started().await];
    left.abort();
    assert_eq!([jobs.cancelled().await, jobs.cancelled().await], [1, 1]);
    assert_eq!(ends.take(), [format!("{WAIT} - disconnected 0s 0s")]);
}

#[actix::test]
async fn the_time_in_the_queue_is_reported() {
    use asyncsteps_actors::budget::{Budget, Limits};

    let ends = Ends::default();
    tokio::time::pause();
    let budget = Budget::new(Limits { concurrent: 1, queued: 1, ..Limits::default() });
    let (mut jobs, builder) = Jobs::add(Executor::builder().budget(budget).hooks(ends.clone()));
    let executor = builder.build().expect("a right configuration");
    let calls =
        [1, 2].map(|n| actix_rt::spawn(executor.call_as_system::<Value>(WAIT, json!({ "n": n }))));
    let first = jobs.started().await;
    tokio::time::advance(Duration::from_secs(1)).await;
    first.finish();
    jobs.started().await.finish();
    for call in calls {
        assert!(call.await.expect("no panic").is_ok());
    }
    let expected =
        [format!("{WAIT} -internal success 0s 1s"), format!("{WAIT} -internal success 1s 1s")];
    assert_eq!(ends.take(), expected);
}

/// Hooks that count the requests that are over, and panic each time.
#[derive(Clone, Default)]
struct Rude(Arc<AtomicUsize>);

impl Hooks for Rude {
    fn over(&self, _: &RequestOver<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("the hook");
    }
}

#[actix::test]
async fn a_hook_that_panics_neither_counts_a_request_twice_nor_leaves_it_unanswered() {
    tokio::time::pause();
    let over = Rude::default();
    let (mut jobs, builder) = Jobs::add(Executor::builder().hooks(over.clone()));
    let executor = builder.build().expect("a right configuration");
    let call = actix_rt::spawn(executor.call_as_system::<Value>(WAIT, json!({ "n": 1 })));
    jobs.started().await.finish();
    assert!(call.await.expect("no panic").is_ok());
    assert_eq!(over.0.load(Ordering::SeqCst), 1);
    let refused = executor.dispatch(incoming("no.such:1.0:f")).await.into_bytes();
    assert!(refused.is_some());
    assert_eq!((over.0.load(Ordering::SeqCst), executor.in_flight_count()), (2, 0));
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "the bomb");
    }
}

impl Arg for Bomb {}

#[actix::test]
async fn a_result_that_panics_is_answered_and_over_once() {
    tokio::time::pause();
    for waits in [false, true] {
        let ends = Ends::default();
        let steps = Template::build(move |asi| {
            asi.add(move |asi, ()| {
                if waits {
                    asi.sleep(Duration::from_millis(1));
                }
            });
            asi.add(|asi, ()| asi.success((1, Bomb)));
        });
        let builder = Executor::builder().hooks(ends.clone());
        let builder = builder.interface(definition(), |functions| {
            functions.others_not_implemented();
            functions.add("wait", &steps);
        });
        let executor = builder.build().expect("a right configuration");
        let answer = executor.dispatch(incoming(WAIT)).await.into_bytes().expect("a message");
        assert!(String::from_utf8_lossy(&answer).contains("InternalError"));
        assert_eq!(ends.take(), [format!("{WAIT} - InternalError 0s 0s")]);
        assert_eq!(executor.in_flight_count(), 0);
    }
}

#[actix::test]
async fn a_caller_that_left_the_queue_is_over_once() {
    use asyncsteps_actors::budget::{Budget, Limits};

    tokio::time::pause();
    let ends = Ends::default();
    let budget = Budget::new(Limits { concurrent: 1, queued: 1, ..Limits::default() });
    let (mut jobs, builder) = Jobs::add(Executor::builder().budget(budget).hooks(ends.clone()));
    let executor = builder.build().expect("a right configuration");
    let call = actix_rt::spawn(executor.call_as_system::<Value>(WAIT, json!({ "n": 1 })));
    let job = jobs.started().await;
    let serving = executor.clone();
    let queued = actix_rt::spawn(async move { serving.dispatch(incoming(WAIT)).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    queued.abort();
    assert!(queued.await.is_err());
    assert_eq!(ends.take(), [format!("{WAIT} - disconnected 1s 1s")]);
    job.finish();
    assert!(call.await.expect("no panic").is_ok());
    assert_eq!(ends.take(), [format!("{WAIT} -internal success 0s 1s")]);
    // a dispatch that never began is no request
    drop(executor.dispatch(incoming(WAIT)));
    assert_eq!(ends.take(), [""; 0]);
}
