//! A limit that nodes share.

use std::sync::Arc;
use std::time::Duration;

use crate::lock_id::LockId;

/// A limit that nodes have shares in.
pub(crate) struct Quota {
    /// The kind and the name of the limit.
    pub(crate) name: String,
    pub(crate) key: Arc<str>,
    pub(crate) total: u32,
    /// For how long a unit that was used is not given to another node.
    pub(crate) period: Duration,
}

impl Quota {
    pub(crate) fn new(kind: &str, id: &LockId, total: u32, period: Duration) -> Self {
        let (name, key) = (format!("{kind} {}", id.name), Arc::clone(&id.key));
        Self { name, key, total, period }
    }
}
