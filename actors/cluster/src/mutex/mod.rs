//! The mutex between machines (FTN12 §1.11.1).

mod guard;
mod section;

use std::sync::Arc;

use asyncsteps_actors::sync::{FencingToken, KeyReport, Mutex as LocalMutex};
use asyncsteps_core::Error;
use asyncsteps_core::sync::mutex::Options;

use crate::cluster::Cluster;
use crate::node;
use crate::store::LockId;

pub use guard::LockGuard;

/// A mutex between machines. Cheap to clone.
///
/// It is used as the [local one](LocalMutex): `.locked(&mutex)` behind a step, or `asi.sync(&mutex, ..)`. Flows of this
/// node queue in the order in which they came; between nodes there is no order. A flow that waits is notified when the
/// lock is released, and asks each [`poll`](crate::Config::poll) as well. The detection of deadlocks sees waits of this
/// node's flows for each other, but not waits for other nodes: bound these with a time limit.
///
/// A section costs two requests to the database, each with a flush. While the database is unreachable,
/// a flow that wants the lock waits; bound that with a time limit as well.
///
/// # What is guaranteed
///
/// No two sections run at once, as long as clocks run at the same speed, to a tenth of the lease, and no process stops
/// longer than its lease. Where that matters, check the [token](FencingToken): whatever receives it refuses the effects
/// of a holder whose lease has expired, whatever the clocks do. See [`sql`](crate::sql).
///
/// A section whose node loses its lease is cancelled, and its step fails with
/// [`LOCK_LOST`](crate::LOCK_LOST). What was done inside is undone, with the lock taken again for that: if
/// that does not succeed in 30 s, without the lock.
///
/// ```no_run
/// use asyncsteps_core::Flow;
/// use asyncsteps_cluster::{Cluster, Config};
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = Cluster::connect("postgres://shop@db/shop", Config::default()).await?;
/// let stock = cluster.mutex("stock").key("apples");
/// let mut flow = Flow::new();
/// let token = stock.clone();
/// flow.run(async move |()| {
///     let fence = token.fence(); // goes with what is written
///     Ok(())
/// })
/// .locked(&stock);
/// # Ok(()) }
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Mutex {{ name: {:?}, key: {:?}, fence: {:?}, .. }}",
    self.id.name, self.id.key, self.fence()
)]
pub struct Mutex {
    cluster: Cluster,
    /// The queue on this node.
    local: LocalMutex,
    id: LockId,
}

impl Cluster {
    /// The mutex of this name, without a limit on the flows of this node that wait for it.
    ///
    /// The name means the same lock on all nodes. It has at most 512 bytes, or whatever uses the lock fails with
    /// InvalidRequest.
    #[must_use]
    pub fn mutex(&self, name: &'static str) -> Mutex {
        self.mutex_of(name, None)
    }

    /// The same with at most `max_queue` flows of this node that wait for it; the others fail with
    /// DefenseRejected. Of several uses of a name on this node, the limit of the first one counts.
    #[must_use]
    pub fn bounded_mutex(&self, name: &'static str, max_queue: u32) -> Mutex {
        self.mutex_of(name, Some(max_queue))
    }

    fn mutex_of(&self, name: &'static str, max_queue: Option<u32>) -> Mutex {
        let local = self.local_mutex(name, Options { max_queue, ..Options::default() });
        Mutex { cluster: self.clone(), local, id: LockId { name, key: Arc::from("") } }
    }
}

impl Mutex {
    /// The mutex of a key: each key is locked on its own. The empty key is the mutex itself. It has at
    /// most 512 bytes and no zero byte, or whatever uses the lock fails with InvalidRequest.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        let id = LockId { name: self.id.name, key: Arc::from(key.as_ref()) };
        Self { cluster: self.cluster.clone(), local: self.local.key(key), id }
    }

    /// Locks outside of flows, by the same queue; ready when the lock is held.
    ///
    /// # Errors
    /// DefenseRejected if the queue of this node is full, InvalidRequest for a key that cannot be used,
    /// InternalError if the database refuses the request or this node has left the cluster.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue, or releases what was just taken.
    pub async fn lock(&self) -> Result<LockGuard, Error> {
        let local = self.local.lock().await?;
        let hold = match self.hold() {
            Some(hold) => hold,
            None => node::take(self.cluster.node(), &self.id).await?,
        };
        Ok(LockGuard::new(hold, self.cluster.clone(), local))
    }

    /// The token under which this node holds the lock; `None` if it does not.
    ///
    /// For code inside of a section, and its undo: there it is their own token. Other code of this process
    /// would get the token of whichever section runs.
    #[must_use]
    pub fn fence(&self) -> Option<FencingToken> {
        self.hold().map(|hold| hold.fence())
    }

    /// How many flows of this node hold this key and wait for it; for metrics.
    #[must_use]
    pub fn key_report(&self) -> KeyReport {
        self.local.key_report()
    }

    fn hold(&self) -> Option<Arc<crate::hold::Hold>> {
        self.cluster.node().holds().get(&self.id)
    }
}
