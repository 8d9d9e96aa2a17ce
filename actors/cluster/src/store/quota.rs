//! A limit that nodes share.

use std::sync::Arc;
use std::time::Duration;

use super::LockId;

/// A limit that nodes have shares in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The kind and the name of the limit.
    pub name: String,
    /// Its key.
    pub key: Arc<str>,
    /// The units of all nodes together.
    pub total: u32,
    /// For how long a unit that was used is not granted to another node.
    pub period: Duration,
}

/// The share of a node in a [`Quota`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaShare {
    /// The units of the node.
    pub units: u32,
    /// When the units that it did not have before may be used.
    pub counts_in: Duration,
}

impl Quota {
    pub(crate) fn new(kind: &str, id: &LockId, total: u32, period: Duration) -> Self {
        let (name, key) = (format!("{kind} {}", id.name), Arc::clone(&id.key));
        Self { name, key, total, period }
    }
}
