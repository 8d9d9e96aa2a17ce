//! Nodes that crash at a record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_journal::Uid;
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::record::Ending;
use tokio::sync::Notify;

use asyncsteps_durable::Durable;
use asyncsteps_executor::Executor;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Crash {
    /// The append or emit of the node at which it crashes, from 1.
    pub(crate) append: usize,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    BeforeStored,
    AfterStored,
}

pub(crate) enum Until {
    Crashed,
    Ended(Ending),
}

/// Runs a test on an arbiter in virtual time.
pub(crate) fn run(test: impl Future<Output = ()>) {
    actix::System::new().block_on(async {
        tokio::time::pause();
        test.await;
    });
}

/// Runs a node of the process that `start` makes, until it crashes or the flow ends.
pub(crate) async fn run_until(
    journal: &Memory,
    start: impl FnOnce(Memory) -> (Durable, Executor),
    uid: Uid,
    crash: Option<Crash>,
) -> Until {
    let (count, has_crashed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let crashed = Arc::new(Notify::new());
    let tell = Arc::clone(&crashed);
    let seen = Arc::clone(&has_crashed);
    let faults = move |operation: Operation| {
        if seen.load(Ordering::Relaxed) {
            return Fault::NotDone;
        }
        let Some(Crash { append, kind }) = crash else { return Fault::None };
        let is_counted = matches!(operation, Operation::Append | Operation::Emit);
        if !is_counted || count.fetch_add(1, Ordering::Relaxed) + 1 < append {
            return Fault::None;
        }
        seen.store(true, Ordering::Relaxed);
        tell.notify_one();
        match kind {
            Kind::BeforeStored => Fault::NotDone,
            Kind::AfterStored => Fault::NeverAnswered,
        }
    };
    let (durable, executor) = start(journal.clone().faults(faults));
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    let until = tokio::select! {
        biased;
        () = crashed.notified() => Until::Crashed,
        ending = durable.wait_ended(uid) => Until::Ended(ending.expect("the flow is known")),
    };
    drop(node);
    // what the node has left of its flows goes with it
    tokio::time::sleep(Duration::from_secs(60)).await;
    until
}
