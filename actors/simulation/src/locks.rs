//! The locks of all nodes as one of them reaches them: over the way to its journal, because a database has both.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_cluster::Error;
use asyncsteps_cluster::store::{
    Answer, ClusterNodeId, Freed, LockId, LockStore, Memory, Quota, QuotaShare, Taken,
};
use asyncsteps_journal::memory::Fault;

use crate::disk::Disk;

/// The locks of all nodes, as one of them reaches them.
#[derive(Clone, derive_more::Debug)]
#[debug("NodeLocks {{ .. }}")]
pub(crate) struct NodeLocks {
    locks: Memory,
    disk: Disk,
}

/// The fault of a simulation.
#[derive(Debug)]
struct Simulated(Fault);

impl NodeLocks {
    /// The clock of the store is right.
    pub(crate) fn new(locks: &Memory, disk: Disk) -> Self {
        let clock = disk.clone();
        Self { locks: locks.clone().clock(move || clock.state().right_time()), disk }
    }

    fn ask<'a, T: Send + 'a>(&'a self, what: &'static str, work: Answer<'a, T>) -> Answer<'a, T> {
        let fault = self.disk.state().fault(true);
        self.disk.after_latency(what, async move {
            if fault == Fault::None {
                return work.await;
            }
            if fault == Fault::AnswerLost {
                work.await?;
            }
            Err(Error::Unavailable(Arc::new(Simulated(fault))))
        })
    }
}

impl LockStore for NodeLocks {
    fn register(&self, lease: Duration) -> Answer<'_, ClusterNodeId> {
        let registers = async move {
            let registered = self.locks.register(lease).await;
            self.disk.state().holder = registered.as_ref().ok().copied();
            registered
        };
        self.ask("lock register", Box::pin(registers))
    }

    fn renew(&self, node: ClusterNodeId, lease: Duration) -> Answer<'_, bool> {
        self.ask("lock renew", self.locks.renew(node, lease))
    }

    fn leave(&self, node: ClusterNodeId) -> Answer<'_, ()> {
        self.ask("lock leave", self.locks.leave(node))
    }

    fn take<'a>(&'a self, lock: &'a LockId, node: ClusterNodeId) -> Answer<'a, Taken> {
        self.ask("lock take", self.locks.take(lock, node))
    }

    fn give_back<'a>(&'a self, lock: &'a LockId, epoch: u64) -> Answer<'a, ()> {
        self.ask("lock give_back", self.locks.give_back(lock, epoch))
    }

    fn share<'a>(
        &'a self,
        quota: &'a Quota,
        node: ClusterNodeId,
        has: u32,
    ) -> Answer<'a, Option<QuotaShare>> {
        self.ask("lock share", self.locks.share(quota, node, has))
    }

    fn return_share<'a>(&'a self, quota: &'a Quota, node: ClusterNodeId) -> Answer<'a, ()> {
        self.ask("lock return_share", self.locks.return_share(quota, node))
    }

    fn count<'a>(
        &'a self,
        lock: &'a LockId,
        max: u32,
        period: Duration,
    ) -> Answer<'a, Option<Duration>> {
        self.ask("lock count", self.locks.count(lock, max, period))
    }

    fn trim(&self) -> Answer<'_, ()> {
        self.ask("lock trim", self.locks.trim())
    }

    fn listen<'a>(&'a self, freed: &'a Freed<'a>) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.locks.listen(freed)
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a fault of the simulation: {:?}", self.0)
    }
}

impl std::error::Error for Simulated {}
