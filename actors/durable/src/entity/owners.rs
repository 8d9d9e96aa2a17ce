//! Who owns the entities of a process.

use std::sync::Arc;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::sync::mutex;
use dashmap::DashMap;

/// How many calls of an entity may wait for their turn.
const QUEUE: u32 = 1000;

/// The code of a call that finds its entity elsewhere. No caller sees it: the call goes there.
pub(super) const MOVED: &str = "asyncsteps:EntityMoved";

/// The nodes of this process that own entities, and the turns of their calls.
pub(crate) struct EntityOwners {
    /// The numbers of nodes, by the full name of their entities.
    pub(super) nodes: DashMap<Arc<str>, u64>,
    /// Calls of an entity take turns.
    turns: Mutex,
}

impl Default for EntityOwners {
    fn default() -> Self {
        let options = mutex::Options { max: 1, max_queue: Some(QUEUE) };
        Self { nodes: DashMap::new(), turns: Mutex::named("entity", options) }
    }
}

impl EntityOwners {
    /// The turns of all entities.
    pub(crate) fn turns(&self) -> &Mutex {
        &self.turns
    }
}
