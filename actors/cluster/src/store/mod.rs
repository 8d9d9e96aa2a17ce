//! Where the locks of a cluster are: the state that all of its nodes share.
//!
//! Services keep them in a PostgreSQL database, see [`Cluster::connect`](crate::Cluster::connect). Tests and simulations
//! have a [`Memory`], and [`Cluster::over`](crate::Cluster::over) takes any other store.

mod lock_id;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod quota;

use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use crate::error::Error;

pub use lock_id::LockId;
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
pub use quota::{Quota, QuotaShare};

/// The part of a lease that is left when the session of its last renewal has ended: an eighth.
pub const SESSION_PART: u32 = 8;

/// The answer of a store, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A node of a cluster between its registration and the end of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterNodeId(pub i64);

/// The answer to the wish for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Taken {
    /// It is taken, with this number, which is higher than the numbers of all holders before.
    Epoch(u64),
    /// Another node has it, whose lease lasts this long.
    Held(Duration),
    /// This node has no lease.
    NoLease,
}

/// Is called with the name and the key of a lock that was released.
pub type Freed<'a> = dyn Fn(Option<(&str, &str)>) + Send + Sync + 'a;

/// Keeps locks for nodes that have leases. Each request is done at one moment or not at all, whatever becomes of the
/// node that asks; the time is the store's.
///
/// # Errors
/// [`Error::Unavailable`] if the store is not reached or its answer is lost: the request may be done or not, and may be
/// repeated. [`Error::Refused`] if it is never done.
///
/// # Cancel safety
/// A request whose answer is dropped may be done or not.
pub trait LockStore: fmt::Debug + Send + Sync + 'static {
    /// A new node, with a lease.
    fn register(&self, lease: Duration) -> Answer<'_, ClusterNodeId>;

    /// Renews the lease of a node; `false` if it has none any more.
    fn renew(&self, node: ClusterNodeId, lease: Duration) -> Answer<'_, bool>;

    /// Completes when the session has ended on which this process renewed leases last. The store keeps such a lease for
    /// its [`SESSION_PART`], in which a process that lives renews it on another session. A store without sessions never
    /// completes.
    fn session_ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(pending())
    }

    /// The node has no lease any more: its locks are free.
    fn leave(&self, node: ClusterNodeId) -> Answer<'_, ()>;

    /// Takes a lock if it is free, if its holder has no lease any more, or if this node is its holder.
    fn take<'a>(&'a self, lock: &'a LockId, node: ClusterNodeId) -> Answer<'a, Taken>;

    /// Returns a lock that was taken with this number. Does nothing if it was taken again since.
    fn give_back<'a>(&'a self, lock: &'a LockId, epoch: u64) -> Answer<'a, ()>;

    /// The share of a node, which has this number of units: an equal part of the quota, once the others have returned
    /// their surplus. `None` if the node has no lease.
    fn share<'a>(
        &'a self,
        quota: &'a Quota,
        node: ClusterNodeId,
        has: u32,
    ) -> Answer<'a, Option<QuotaShare>>;

    /// Returns a share, of which units may have been used in this period.
    fn return_share<'a>(&'a self, quota: &'a Quota, node: ClusterNodeId) -> Answer<'a, ()>;

    /// Counts an entry of this period; returns how long the period lasts if it has `max` entries already.
    fn count<'a>(
        &'a self,
        lock: &'a LockId,
        max: u32,
        period: Duration,
    ) -> Answer<'a, Option<Duration>>;

    /// Removes rows that have not been needed for an hour.
    fn trim(&self) -> Answer<'_, ()>;

    /// Calls `freed` with each lock that is returned while another node wants it, and with `None` if that may have been
    /// missed. Never completes.
    fn listen<'a>(&'a self, freed: &'a Freed<'a>) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}
