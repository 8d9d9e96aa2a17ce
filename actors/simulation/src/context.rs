//! What a node of a cluster is given when it starts.

use std::fmt;

use crate::disk::Disk;

/// What a node is given when it starts.
#[derive(Clone)]
pub struct NodeContext {
    pub(crate) name: String,
    pub(crate) starts: u32,
    pub(crate) disk: Disk,
}

impl NodeContext {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which start of the node this is, from 1: each kill is followed by another one.
    #[must_use]
    pub const fn starts(&self) -> u32 {
        self.starts
    }

    /// The journal of the cluster, as this node reaches it.
    #[must_use]
    pub fn journal(&self) -> Disk {
        self.disk.clone()
    }
}

impl fmt::Debug for NodeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeContext").field("name", &self.name).finish_non_exhaustive()
    }
}
