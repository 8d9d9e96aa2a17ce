//! Steps that wait for a value under a key: each value is taken once or given back, and no entry
//! outlives its step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use asyncsteps_actors::flow::{FlowHandle, IntoFlow, start_flow};
use asyncsteps_actors::waiters::{Waiters, WaitersSteps};
use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{Error, Flow, Observer, Progress, StepEnd, StepRef, Time, codes};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

type Orders = Waiters<String, u32>;

fn orders() -> Orders {
    Waiters::named("orders", 2)
}

/// A flow that waits for this order.
fn waits(orders: &Orders, key: &'static str) -> Flow {
    let mut flow = Flow::new();
    let orders = orders.clone();
    flow.add(move |asi, ()| {
        asi.wait_for(&orders, key);
    });
    flow
}

#[actix::test]
async fn any_thread_completes_the_step_that_waits() {
    let orders = orders();
    let flow = start_flow::<u32>(waits(&orders, "7"));
    let webhook = orders.clone();
    let answered = thread::spawn(move || (webhook.complete("8", 1), webhook.complete("7", 2)));
    assert_eq!(answered.join().expect("no panic"), (Err(1), Ok(())));
    assert_eq!(flow.await.expect("it is completed"), 2);
    assert_eq!(orders.complete("7", 3), Err(3), "a value is taken once");
    assert!(orders.is_empty());
}

#[actix::test]
async fn a_value_that_comes_before_the_wait_is_given_back() {
    let orders = orders();
    assert_eq!(orders.complete("7", 1), Err(1));
    let flow = start_flow::<u32>(waits(&orders, "7"));
    assert_eq!(orders.complete("7", 2), Ok(()));
    assert_eq!(flow.await.expect("it is completed"), 2);
}

#[actix::test]
async fn a_key_is_waited_for_once_and_entries_are_limited() {
    let orders = orders();
    let first = start_flow::<u32>(waits(&orders, "7"));
    let error = start_flow::<u32>(waits(&orders, "7")).await.expect_err("it is waited for");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
    // the key is for the log, and not for a caller
    assert_eq!(error.info(), None);
    let cause = std::error::Error::source(&error).expect("it says why").to_string();
    assert_eq!(cause, "another step waits for `orders` key \"7\"");
    // its end left the entry of the first one
    let second = start_flow::<u32>(waits(&orders, "8"));
    let error = start_flow::<u32>(waits(&orders, "9")).await.expect_err("there is no room");
    assert_eq!((error.code(), error.info()), (codes::DEFENSE_REJECTED, Some("Waiters limit")));
    assert_eq!((orders.complete("7", 1), orders.complete("8", 2)), (Ok(()), Ok(())));
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (1, 2));
}

#[actix::test]
async fn an_entry_is_gone_with_its_step_on_every_way_out() {
    tokio::time::pause();
    let orders = orders();
    let limited = orders.clone();
    let mut timed = Flow::new();
    timed.add(move |asi, ()| {
        asi.wait_for(&limited, "7").timeout(ms(5)).on_error(|asi, _| asi.success(0u32));
    });
    assert_eq!(start_flow::<u32>(timed).await.expect("it recovers"), 0);
    assert!(orders.is_empty());
    let late = start_flow::<u32>(waits(&orders, "7").within(ms(5)));
    assert!(late.await.is_err() && orders.is_empty());
    let cancelled: FlowHandle<u32> = start_flow(waits(&orders, "7"));
    assert_eq!(orders.len(), 1);
    drop(cancelled);
    tokio::time::sleep(ms(1)).await;
    assert_eq!(orders.complete("7", 1), Err(1));
    assert!(orders.is_empty());
}

#[test]
fn a_value_that_was_accepted_is_the_result_whatever_comes_before_the_next_turn() {
    let waker = Waker::noop();
    let at = |time| Time::ZERO + ms(time);
    for ending in ["limit", "cancel", "drop"] {
        let (orders, taken) = (orders(), Arc::new(AtomicU32::new(0)));
        let (table, results) = (orders.clone(), Arc::clone(&taken));
        let mut flow = Flow::new();
        flow.observe(Ends(results));
        flow.add(move |asi, ()| {
            let mut step = asi.wait_for(&table, "7");
            step.named("wait");
            if ending == "limit" {
                step.timeout(ms(5));
            }
        });
        let mut execution = flow.execute();
        assert!(matches!(execution.run(at(0), waker), Progress::Waiting));
        assert_eq!(orders.complete("7", 1), Ok(()), "{ending}");
        match ending {
            "cancel" => execution.cancel(),
            "drop" => drop(execution),
            _ => match execution.run(at(10), waker) {
                Progress::Done(outcome) => assert_eq!(outcome.into_result::<u32>().unwrap(), 1),
                progress @ (Progress::Waiting | Progress::Ready) => {
                    panic!("{ending}: {progress:?}")
                }
            },
        }
        assert_eq!(taken.load(Ordering::Relaxed), 1, "{ending}: the step succeeds");
        assert_eq!(orders.complete("7", 2), Err(2), "{ending}");
    }
}

/// Counts the steps with a name that succeed.
struct Ends(Arc<AtomicU32>);

impl Observer for Ends {
    fn begin(&mut self, _: StepRef) {}
    fn enter(&mut self, _: StepRef) {}
    fn leave(&mut self, _: StepRef) {}
    fn cancel_failed(&mut self, _: StepRef, _: &Error) {}
    fn end(&mut self, step: StepRef, end: StepEnd<'_>) {
        if step.location.name().is_some() && matches!(end, StepEnd::Success) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[actix::test]
async fn a_flow_shows_what_it_waits_for() {
    let orders = orders();
    let flow = start_flow::<u32>(waits(&orders, "7"));
    let text = flow.stack().one_line();
    assert!(text.contains("waits for `orders` key \"7\""), "{text}");
}

#[actix::test]
async fn a_step_that_nothing_can_complete_fails() {
    let orders = orders();
    let flow = start_flow::<u32>(waits(&orders, "7"));
    drop(orders);
    let error = flow.await.expect_err("nothing can complete it");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
}

#[test]
fn it_works_on_other_hosts() {
    let (tool, orders) = (Manual::new(Time::ZERO), orders());
    let promise = waits(&orders, "7").promise::<u32, _>(&tool);
    tool.deferred(ms(5), move || assert_eq!(orders.complete("7", 1), Ok(())));
    assert_eq!(tool.complete(promise).expect("it ends").expect("it is completed"), 1);
}
