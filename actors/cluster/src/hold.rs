//! The locks that this node has.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use asyncsteps_actors::sync::FencingToken;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::lease_term::LeaseTerm;
use crate::store::LockId;

/// The locks that this node has. Each has one holder at most, which may have it several times.
pub(crate) struct LockHolds {
    table: Mutex<HashMap<LockId, Weak<Hold>>>,
    returns: UnboundedSender<Return>,
    count: watch::Sender<usize>,
}

/// A lock that this node took. Dropping it releases the lock.
#[derive(derive_more::Debug)]
#[debug("Hold {{ id: {id:?}, epoch: {epoch:?} }}")]
pub(crate) struct Hold {
    holds: Arc<LockHolds>,
    id: LockId,
    epoch: u64,
    term: Arc<LeaseTerm>,
    counted: Option<LockCountGuard>,
}

/// A lock that is to be returned to the cluster.
#[derive(Debug)]
pub(crate) struct Return {
    pub(crate) id: LockId,
    pub(crate) epoch: u64,
    pub(crate) term: Arc<LeaseTerm>,
    /// Dropped when that is done.
    _counted: Option<LockCountGuard>,
}

/// One lock less when it is dropped.
#[derive(Debug)]
struct LockCountGuard(watch::Sender<usize>);

impl LockHolds {
    /// No locks yet; the receiver gets the locks to be returned.
    pub(crate) fn new() -> (Arc<Self>, UnboundedReceiver<Return>) {
        let (returns, returned) = unbounded_channel();
        let (table, count) = (Mutex::default(), watch::Sender::new(0));
        (Arc::new(Self { table, returns, count }), returned)
    }

    /// A lock that the node took with this epoch, in this term.
    pub(crate) fn taken(self: &Arc<Self>, id: &LockId, epoch: u64, term: &Arc<LeaseTerm>) -> Hold {
        self.count.send_modify(|count| *count += 1);
        let counted = Some(LockCountGuard(self.count.clone()));
        let (holds, id, term) = (Arc::clone(self), id.clone(), Arc::clone(term));
        Hold { holds, id, epoch, term, counted }
    }

    /// Lists a lock, so that its holder can enter again.
    pub(crate) fn list(&self, hold: &Arc<Hold>) {
        self.table.lock().insert(hold.id.clone(), Arc::downgrade(hold));
    }

    /// The lock as this node has it.
    pub(crate) fn get(&self, id: &LockId) -> Option<Arc<Hold>> {
        self.table.lock().get(id).and_then(Weak::upgrade)
    }

    /// Completes when no lock is held, and all were returned.
    pub(crate) async fn none(&self) {
        // the sender is in `self`
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Hold {
    pub(crate) fn fence(&self) -> FencingToken {
        self.id.fence(self.epoch)
    }

    pub(crate) fn term(&self) -> &Arc<LeaseTerm> {
        &self.term
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut table = self.holds.table.lock();
        if table.get(&self.id).is_some_and(|listed| listed.strong_count() == 0) {
            table.remove(&self.id);
        }
        drop(table);
        // the receiver goes with the runtime: then the lock is free when the lease has expired
        let _ = self.holds.returns.send(Return {
            id: self.id.clone(),
            epoch: self.epoch,
            term: Arc::clone(&self.term),
            _counted: self.counted.take(),
        });
    }
}

impl Drop for LockCountGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
