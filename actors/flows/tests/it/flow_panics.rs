//! Panics of what a flow, its owner and its messages bring along: each is over once, and the arbiter,
//! the mailbox and the counts go on.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_actors::flow::{
    CompleteError, Completer, FlowEnd, FlowOwner, Inspect, IntoFlow, WaitSteps, host_flow,
    start_flow,
};
use asyncsteps_actors::pool::ArbiterPool;
use asyncsteps_core::{Arg, Awaitable, Execution, Flow, Identity, Outcome, Time, Undo, codes};
use tracing::Span;

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "the bomb");
    }
}

impl Arg for Bomb {}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An owner that counts how often it is told of an end, and panics then.
struct Rude(Rc<Cell<usize>>);

impl FlowOwner for Rude {
    fn ended(&mut self, _: &mut Execution, _: FlowEnd) -> Option<Outcome> {
        self.0.set(self.0.get() + 1);
        panic!("the owner");
    }
}

#[actix::test]
async fn an_owner_that_panics_is_told_once() {
    tokio::time::pause();
    for wait in [None, Some(ms(5))] {
        let told = Rc::new(Cell::new(0));
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            if let Some(wait) = wait {
                asi.sleep(wait);
            }
        });
        let flow = host_flow(flow, Rude(Rc::clone(&told)));
        tokio::time::sleep(ms(10)).await;
        assert_eq!(told.get(), 1);
        assert!(flow.is_none_or(|flow| !flow.is_valid()));
    }
}

/// An owner that panics when it is asked for the deadline or the span of its flow.
struct Unsure {
    has_deadline: bool,
    told: Rc<Cell<usize>>,
}

impl FlowOwner for Unsure {
    fn deadline(&self) -> Option<Time> {
        if self.has_deadline { None } else { panic!("the deadline") }
    }

    fn span(&self) -> Option<&Span> {
        panic!("the span")
    }

    fn ended(&mut self, _: &mut Execution, end: FlowEnd) -> Option<Outcome> {
        assert!(matches!(end, FlowEnd::Done(Outcome::Error(_))), "{end:?}");
        self.told.set(self.told.get() + 1);
        None
    }
}

#[actix::test]
async fn an_owner_that_panics_when_it_is_asked_ends_its_flow() {
    for has_deadline in [false, true] {
        let told = Rc::new(Cell::new(0));
        let mut flow = Flow::new();
        flow.steps().sleep(ms(5));
        let owner = Unsure { has_deadline, told: Rc::clone(&told) };
        assert!(host_flow(flow, owner).is_none());
        assert_eq!(told.get(), 1);
    }
}

/// An owner that keeps the outcome for a handle that there is not.
struct Keeps;

impl FlowOwner for Keeps {
    fn ended(&mut self, _: &mut Execution, end: FlowEnd) -> Option<Outcome> {
        Some(end.into_outcome())
    }
}

#[actix::test]
async fn an_outcome_that_panics_when_dropped_does_not_reach_the_host() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.success(Bomb));
    assert!(host_flow(flow, Keeps).is_none());
}

#[actix::test]
async fn a_pool_counts_a_flow_out_once_whose_result_panics() {
    let pool = ArbiterPool::new(NonZeroUsize::MIN);
    let rude = || {
        let mut flow = Flow::new();
        flow.add(|asi, ()| asi.success(Bomb));
        flow
    };
    assert!(pool.submit_anywhere::<()>(rude).await.is_err());
    // the arbiter has counted the flow out when it takes the next one
    assert!(pool.submit_anywhere::<()>(Flow::new).await.is_ok());
    assert_eq!(pool.load(), [Some(0)]);
    let drained = pool.shutdown(Duration::from_secs(3600)).await;
    assert_eq!(drained.cancelled, 0, "{drained:?}");
}

/// Books, then ends in a panic of a destructor.
fn booking(undone: &Arc<Mutex<Vec<u32>>>, fails: impl FnOnce(&mut Flow)) -> Flow {
    let undone = Arc::clone(undone);
    let mut flow = Flow::new();
    flow.run(async |()| Ok(1)).undo(async move |booked: Undo<&u32>| {
        let booked = if let Undo::Done(booked) = booked { *booked } else { 0 };
        undone.lock().expect("no panic").push(booked);
        Ok(())
    });
    fails(&mut flow);
    flow
}

#[actix::test]
async fn a_panic_outside_of_the_callbacks_undoes_what_the_flow_has_done() {
    tokio::time::pause();
    let undone = Arc::default();
    let fails = booking(&undone, |flow| {
        flow.add(|asi, _: u32| {
            asi.stack(Bomb);
            asi.add(|asi, ()| asi.error("Failure", ()));
        });
    });
    let hangs = booking(&undone, |flow| {
        flow.run(async |_: u32| {
            let _bomb = Bomb;
            std::future::pending::<Result<(), _>>().await
        })
        .timeout(ms(10));
    });
    for flow in [fails, hangs] {
        assert!(start_flow::<()>(flow).await.is_err());
        tokio::time::sleep(ms(10)).await;
        assert_eq!(std::mem::take(&mut *undone.lock().expect("no panic")), [1]);
    }
}

/// Panics when it is asked what it is.
struct Shy;

impl Awaitable for Shy {
    fn describe(&self, _: Identity) -> String {
        panic!("describe");
    }
}

#[actix::test]
async fn what_cannot_be_described_is_listed_and_leaves_the_mailbox_alive() {
    tokio::time::pause();
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        // only a step with an identity is described
        let _: Identity = asi.identity();
        let completion = asi.wait_external_for(Arc::new(Shy));
        asi.stack(completion);
    });
    let handle = start_flow::<()>(flow.within(ms(10)));
    let address = handle.address();
    for _ in 0..2 {
        let text = address.send(Inspect).await.expect("it answers").to_string();
        assert!(text.contains("something that panics"), "{text}");
    }
    assert_eq!(handle.stack().waits.len(), 1);
    let error = handle.await.expect_err("its deadline passed");
    assert_eq!(error.code(), codes::TIMEOUT);
}

#[actix::test]
async fn a_result_that_comes_late_and_panics_leaves_the_mailbox_alive() {
    let mut flow = Flow::new();
    for _ in 0..2 {
        flow.add(|asi, ()| asi.wait_for_message());
    }
    let handle = start_flow::<()>(flow);
    let other = start_flow::<()>({
        let mut flow = Flow::new();
        flow.add(|asi, ()| asi.wait_for_message());
        flow
    });
    let wait = handle.stack().waits[0].id.expect("it waits for a completion");
    let completer = handle.completer(wait);
    assert_eq!(completer.success(()).await, Ok(()));
    assert_eq!(completer.success(Bomb).await, Err(CompleteError::Stale));
    let foreign = Completer::new(other.address(), wait);
    assert_eq!(foreign.success(Bomb).await, Err(CompleteError::ForeignWait));
    for address in [handle.address(), other.address()] {
        assert_eq!(address.send(Inspect).await.expect("it answers").waits.len(), 1);
    }
    // also when the flow is over
    let address = handle.address();
    handle.cancel();
    assert!(handle.await.is_err());
    assert_eq!(completer.success(Bomb).await, Err(CompleteError::Stale));
    assert!(address.send(Inspect).await.is_ok());
}
