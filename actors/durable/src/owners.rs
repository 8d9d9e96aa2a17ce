//! Who owns the entities of a process.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::sync::mutex;
use dashmap::DashMap;

use crate::turns::EntityFigures;

/// How many calls of an entity may wait for their turn.
const QUEUE: u32 = 1000;

/// The name of the lock of an entity.
pub(crate) const TURNS: &str = "entity";

/// The nodes of this process that own entities, and the turns of their calls.
pub(crate) struct EntityOwners {
    /// The entities of this process, by their full name.
    pub(crate) known: DashMap<Arc<str>, KnownEntity>,
    /// How many nodes of this process own entities, also those between two leases.
    pub(crate) nodes: AtomicUsize,
    /// Calls of an entity take turns.
    pub(crate) turns: Mutex,
}

/// An entity that a node of this process owns, or claims.
pub(crate) struct KnownEntity {
    /// The number of the node.
    pub(crate) node: u64,
    /// `None` while it is being claimed.
    pub(crate) figures: Option<Arc<EntityFigures>>,
}

impl EntityOwners {
    /// How many entities nodes of this process own or claim.
    pub(crate) fn count(&self) -> usize {
        self.known.len()
    }

    /// The node of this number does not own the entity any more, if it is one.
    pub(crate) fn given(&self, name: &str, node: u64) {
        self.known.remove_if(name, |_, known| known.node == node);
    }
}

impl Default for EntityOwners {
    fn default() -> Self {
        let options = mutex::Options { max: 1, max_queue: Some(QUEUE) };
        Self {
            known: DashMap::new(),
            nodes: AtomicUsize::new(0),
            turns: Mutex::named(TURNS, options),
        }
    }
}
