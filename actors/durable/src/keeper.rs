//! The thread of a process that keeps the leases of its nodes. No body runs there, so a body that blocks its arbiter ends no
//! lease: what runs is begun nowhere else. Nor does the rest of the node's work wait for it: what only waits there goes to
//! other nodes.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use asyncsteps_actors::clock;
use asyncsteps_journal::limits::BATCH;
use asyncsteps_journal::{POLL, Repeat};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::answered::answered;
use crate::lease::Lease;
use crate::shared::{DurableShared, Given, LocalNode};

/// Keeps leases, on a thread of its own unless time is virtual: that has one thread.
pub(crate) struct Keeper(Option<(Handle, oneshot::Sender<()>)>);

impl Keeper {
    pub(crate) fn start() -> io::Result<Self> {
        if clock::is_virtual() {
            return Ok(Self(None));
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (lives, ended) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let run = move || _ = runtime.block_on(ended);
        thread::Builder::new().name("durable-leases".to_owned()).spawn(run)?;
        Ok(Self(Some((handle, lives))))
    }

    /// Keeps the lease of a node until it has ended.
    pub(crate) async fn keep(
        &self,
        shared: &Arc<DurableShared>,
        lease: &Arc<Lease>,
        node: LocalNode,
    ) {
        let Some((thread, _)) = &self.0 else { return lease.keep(shared).await };
        let (shared, lease) = (Arc::clone(shared), Arc::clone(lease));
        let mut tasks = JoinSet::new();
        let keeps = async move {
            tokio::select! {
                () = lease.keep(&shared) => {}
                () = watch(&shared, &node) => {}
            }
        };
        tasks.spawn_on(keeps, thread);
        tasks.join_next().await;
    }
}

/// Asks the arbiter of the node again and again whether it is blocked, as long as it has anything.
async fn watch(shared: &DurableShared, node: &LocalNode) {
    loop {
        sleep(POLL).await;
        if shared.held.is_empty() {
            continue;
        }
        let (asked, mut answer) = oneshot::channel();
        if node.orders.send(Given::Ask(asked)).is_err() {
            return pending().await;
        }
        if timeout(POLL, &mut answer).await.is_err() {
            node.is_blocked.store(true, Ordering::Relaxed);
            give(shared, node.number).await;
            // it answers by dropping that
            let _ = answer.await;
            node.is_blocked.store(false, Ordering::Relaxed);
        }
    }
}

/// Gives what only waits on the arbiter of a node to other nodes. The journal gets it after the records that were sent to
/// it before.
async fn give(shared: &DurableShared, node: u64) {
    let given = shared.held.give(node);
    tracing::warn!(
        flows = given.len(),
        "the arbiter of a node does not answer: what only waits there goes to other nodes"
    );
    for given in given.chunks(BATCH) {
        given.iter().for_each(|held| shared.entities.given(&held.name, node));
        let appends: Vec<_> = given.iter().map(|held| held.release()).collect();
        while let Err(error) = answered(|| shared.journal.append(appends.clone())).await
            && error.repeat() != Repeat::Never
        {
            sleep(POLL).await;
        }
    }
}
