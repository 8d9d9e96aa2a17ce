//! Holding a lock outside of flows.

use std::sync::Arc;

use asyncsteps_actors::sync::{FencingToken, LockGuard as LocalGuard};
use asyncsteps_core::Arg;

use crate::cluster::Cluster;
use crate::hold::Hold;

/// A lock between machines that was taken outside of flows. Dropping it, on any thread, releases it.
#[derive(derive_more::Debug)]
#[debug("LockGuard {{ fence: {:?}, .. }}", self.fence())]
#[must_use = "dropping it unlocks"]
pub struct LockGuard {
    // dropped in this order: the next flow of this node finds the lock returned
    hold: Arc<Hold>,
    _local: LocalGuard,
    // the node's tasks run as long as a lock is held
    _cluster: Cluster,
}

impl LockGuard {
    pub(super) fn new(hold: Arc<Hold>, cluster: Cluster, local: LocalGuard) -> Self {
        Self { hold, _local: local, _cluster: cluster }
    }

    /// The fencing token, for writes while the lock is held.
    #[must_use]
    pub fn fence(&self) -> FencingToken {
        self.hold.fence()
    }

    /// Whether the lease of this node lasts. It may end at any time after this: only what checks the
    /// [token](Self::fence) is sure.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.hold.term().is_valid()
    }

    /// Completes when this node has lost its lease, and the lock with it.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn lost(&self) {
        self.hold.term().ended().await;
    }
}

impl Arg for LockGuard {}
