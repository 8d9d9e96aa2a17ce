//! Keeping the lease of a node where no body runs, so a body that blocks its arbiter ends no lease: what runs is begun nowhere
//! else. Nor does the rest of the node's work wait for it: what only waits there goes to other nodes.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use asyncsteps_journal::limits::BATCH;
use asyncsteps_journal::{POLL, Repeat};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::answered::answered;
use crate::keeper::Keeper;
use crate::lease::Lease;
use crate::shared::{DurableShared, Given, LocalNode};

/// Keeps the lease of a node until it has ended.
pub(crate) async fn keep(
    keeper: &Keeper,
    shared: &Arc<DurableShared>,
    lease: &Arc<Lease>,
    node: LocalNode,
) {
    let (shared, lease, has_thread) = (Arc::clone(shared), Arc::clone(lease), keeper.has_thread());
    let watched = async move {
        let kept = lease.keep(&*shared.journal, |time| {
            shared.read_clock(time);
            shared.figures.renewals.fetch_add(1, Ordering::Relaxed);
        });
        if !has_thread {
            return kept.await;
        }
        tokio::select! {
            biased;
            () = kept => {}
            () = watch(&shared, &node) => {}
        }
    };
    keeper.run(watched).await;
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
