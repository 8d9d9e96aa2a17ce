//! Panics of what a flow, its owner and its messages bring along: each is over once, and the arbiter,
//! the mailbox and the counts go on.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps::{Arg, Execution, Flow, Outcome, Undo};
use asyncsteps_actors::flow::{FlowEnd, FlowOwner, host_flow, start_flow};
use asyncsteps_actors::pool::ArbiterPool;

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
