//! What a flow has done is undone on every way out of an arbiter: error, cancel, deadline, a handle
//! that is dropped, and the end of the arbiter.

use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::flow::{FlowHandle, IntoFlow, running_flows, spawn_flow, start_flow};
use asyncsteps_actors::pool::ArbiterPool;
use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::{Error, Flow, Template, Undo};
use tokio::sync::Notify;

/// What happened, as other threads see it.
#[derive(Clone, Default)]
struct Journal(Arc<std::sync::Mutex<Vec<String>>>);

impl Journal {
    fn write(&self, line: impl Into<String>) {
        self.0.lock().expect("not poisoned").push(line.into());
    }

    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().expect("not poisoned")).join(" ")
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Charges, then hangs while it records. Each undo takes 50 ms.
fn payment(journal: &Journal) -> Template {
    let (charges, refunds) = (journal.clone(), journal.clone());
    let (records, erases) = (journal.clone(), journal.clone());
    Template::build(move |asi| {
        asi.run(async move |()| {
            charges.write("charge");
            Ok(7u32)
        })
        .undo(async move |charge: Undo<&u32>| {
            tokio::time::sleep(ms(50)).await;
            refunds.write(format!("refund {charge:?}"));
            Ok(())
        });
        asi.run(async move |_: u32| {
            records.write("record");
            pending::<Result<(), _>>().await
        })
        .undo(async move |record: Undo<&()>| {
            tokio::time::sleep(ms(50)).await;
            erases.write(format!("erase {record:?}"));
            Ok(())
        });
    })
}

const UNDONE: &str = "charge record erase Unknown refund Done(7)";

#[actix::test]
async fn a_flow_that_is_cancelled_or_whose_handle_is_dropped_is_undone() {
    tokio::time::pause();
    // flows are listed from now on
    assert!(running_flows().is_empty());
    for drops in [false, true] {
        for spawns in [false, true] {
            let journal = Journal::default();
            let flow = payment(&journal);
            let handle: FlowHandle = if spawns { spawn_flow(flow) } else { start_flow(flow) };
            tokio::time::sleep(ms(10)).await;
            if drops {
                drop(handle);
            } else {
                handle.cancel();
                assert!(handle.await.is_err());
            }
            tokio::time::sleep(ms(10)).await;
            assert_eq!(running_flows().iter().filter(|flow| flow.is_undo()).count(), 1);
            tokio::time::sleep(ms(100)).await;
            assert_eq!((journal.take(), running_flows().len()), (UNDONE.to_owned(), 0));
        }
    }
}

#[actix::test]
async fn a_deadline_does_not_cut_the_undo_that_it_causes() {
    tokio::time::pause();
    let journal = Journal::default();
    let error = start_flow::<()>(payment(&journal).within(ms(20))).await.expect_err("it hangs");
    assert_eq!(error.code(), "Timeout");
    tokio::time::sleep(ms(110)).await;
    assert_eq!(journal.take(), UNDONE);
}

#[actix::test]
async fn a_deadline_that_passes_during_an_undo_does_not_cut_it() {
    tokio::time::pause();
    let journal = Journal::default();
    let mut flow = Flow::new();
    flow.copy_from(&payment(&journal));
    let mut outer = Flow::new();
    outer.add(move |asi, ()| asi.append(flow)).timeout(ms(10));
    let error = start_flow::<()>(outer.within(ms(40))).await.expect_err("it hangs");
    assert_eq!((error.code(), &*journal.take()), ("Timeout", "charge record"));
    tokio::time::sleep(ms(110)).await;
    assert_eq!(journal.take(), "erase Unknown refund Done(7)");
}

#[actix::test]
async fn a_flow_that_fails_waits_for_its_undo() {
    tokio::time::pause();
    let journal = Journal::default();
    let refunds = journal.clone();
    let mut flow = Flow::new();
    flow.run(async |()| Ok(7u32)).undo(async move |charge| {
        tokio::time::sleep(ms(50)).await;
        refunds.write(format!("{charge:?}"));
        Ok(())
    });
    flow.error_step(Error::new("LedgerDown"));
    let error = start_flow::<()>(flow).await.expect_err("it fails");
    assert_eq!((error.code(), &*journal.take()), ("LedgerDown", "Done(7)"));
}

#[actix::test]
async fn a_graceful_shutdown_undoes_within_its_grace() {
    let journal = Journal::default();
    let pool = ArbiterPool::new(NonZeroUsize::MIN);
    let began = Arc::new(Notify::new());
    let (told, records) = (Arc::clone(&began), journal.clone());
    let flow = pool.submit_anywhere::<()>(move || {
        let mut flow = payment(&records).flow();
        flow.add(|_, ()| {});
        told.notify_one();
        flow
    });
    began.notified().await;
    drop(flow);
    let ended = pool.shutdown(Duration::from_secs(60)).await;
    let text = journal.take();
    // the cancel may come before the first turn
    assert!(text.is_empty() || text == UNDONE, "{text}");
    assert!(ended.finished <= 1, "{ended:?}");
}

#[actix::test]
async fn what_is_cancelled_at_the_end_of_the_grace_is_undone_before_the_arbiters_end() {
    let journal = Journal::default();
    let began = Arc::new(Notify::new());
    let pool = ArbiterPool::new(NonZeroUsize::MIN);
    let (told, records) = (Arc::clone(&began), journal.clone());
    pool.submit_anywhere::<()>(move || {
        let (charges, refunds) = (records.clone(), records);
        let mut flow = Flow::new();
        flow.run(async move |()| {
            charges.write("charge");
            Ok(7u32)
        })
        .undo(async move |charge| {
            tokio::task::yield_now().await;
            refunds.write(format!("{charge:?}"));
            Ok(())
        });
        flow.run(async move |_: u32| {
            told.notify_one();
            pending::<Result<(), _>>().await
        });
        flow
    })
    .detach();
    began.notified().await;
    let ended = pool.shutdown(Duration::ZERO).await;
    assert_eq!(journal.take(), "charge Done(7)");
    assert_eq!((ended.cancelled, ended.finished), (1, 1), "the flow and its undo");
}

#[test]
fn a_system_that_ends_loses_no_undo_in_silence() {
    let journal = Journal::default();
    let (flow, system) = (payment(&journal), actix::System::new());
    system.block_on(async move {
        start_flow::<()>(flow).detach();
        tokio::task::yield_now().await;
    });
    drop(system);
    // it could not be undone any more; the log tells
    assert_eq!(journal.take(), "charge record");
}

/// What `undo_by` adds to a journal while the step around the charge holds the lock, and what the
/// next holder does.
/// What happens when a flow that holds a lock is undone, takes the lock in its undo, and another one
/// waits for it.
async fn undone_under_a_lock(cancels: bool) -> String {
    let (lock, journal) = (Mutex::new(Default::default()), Journal::default());
    let (same, refunds, holds) = (lock.clone(), journal.clone(), lock.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.run(async |()| Ok(())).undo(async move |_| {
            let _guard = same.lock().await?;
            tokio::time::sleep(ms(50)).await;
            refunds.write("refund");
            Ok(())
        });
        asi.run(async move |()| match cancels {
            true => pending().await,
            false => Err::<(), _>(Error::new("LedgerDown").into()),
        });
    })
    .locked(&holds);
    let handle = start_flow::<()>(flow);
    if cancels {
        handle.cancel();
    }
    let (mut next, entered) = (Flow::new(), journal.clone());
    next.sync(&lock, move |_, ()| entered.write("next"));
    let next = start_flow::<()>(next);
    let _ = handle.await;
    next.await.expect("the lock comes free");
    assert_eq!(lock.load().holders, 0);
    journal.take()
}

#[actix::test]
async fn an_undo_is_inside_of_the_lock_that_is_held_for_it() {
    tokio::time::pause();
    for cancels in [false, true] {
        assert_eq!(undone_under_a_lock(cancels).await, "refund next", "cancelled: {cancels}");
    }
}

#[actix::test]
async fn a_stack_tells_which_attempt_is_under_way() {
    tokio::time::pause();
    let mut flow = Flow::new();
    flow.run(async |()| pending::<Result<(), _>>().await)
        .named("ask")
        .timeout(ms(10))
        .retry(asyncsteps_core::Retry::attempts(3));
    let handle: FlowHandle = start_flow(flow);
    let first = handle.stack().one_line();
    tokio::time::sleep(ms(15)).await;
    let second = handle.stack().one_line();
    assert!(!first.contains("attempt") && second.contains("> in attempt 2 waits for"), "{second}");
}
