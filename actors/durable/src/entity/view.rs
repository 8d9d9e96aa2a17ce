//! What can be seen of the entities of a process.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::sync::{KeyReport, Mutex};
use asyncsteps_journal::Uid;

use crate::durable::Durable;
use crate::turns::EntityTurn;

/// An entity that a node of this process owns or claims, as a moment ago.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EntityInfo {
    /// Its name in the journal, such as `acme.seats:1@opera`.
    pub name: Arc<str>,
    /// The request of the journal that it is; `None` while the node claims it.
    pub uid: Option<Uid>,
    /// The number of its node in this process.
    pub node: u64,
    /// How long the node has owned it; `None` while it claims it.
    pub age: Option<Duration>,
    /// Whether a call has its turn.
    pub is_busy: bool,
    /// How many calls wait for their turn.
    pub queued: usize,
    /// The size of its stored state in bytes; 0 if it was never changed.
    pub state_bytes: usize,
    /// The last turns since this process owns it, the newest first; at most 4, and 1 when it was not called for a
    /// second. Calls that
    /// [read](super::EntityFunctions::reads) have no turn.
    pub turns: Vec<EntityTurn>,
}

impl Durable {
    /// The turns of all [entities](crate::entity::Entity) of this process: a mutex whose keys are their names. Among
    /// the watched locks of a program, it shows who has the turn of an entity, who waits for it, and how long that
    /// takes.
    #[must_use]
    pub fn entity_turns(&self) -> &Mutex {
        &self.shared.entities.turns
    }

    /// The entities that nodes of this process own or claim, those with the longest queues first, then those with the latest
    /// turns, and how many there are in all.
    #[must_use]
    pub fn entities(&self, most: usize) -> (Vec<EntityInfo>, usize) {
        let report = self.entity_turns().inspect();
        let keys: HashMap<&str, &KeyReport> = report.keys.iter().map(|it| (&*it.key, it)).collect();
        let owned = self.shared.entities.known.iter().map(|known| {
            let last = known.figures.as_ref().and_then(|figures| figures.last_turn());
            (Arc::clone(known.key()), known.figures.clone(), known.node, last)
        });
        let mut owned: Vec<_> = owned.collect();
        let all = owned.len();
        let queued = |name: &str| keys.get(name).map_or(0, |key| key.queued);
        owned.sort_by_cached_key(|(name, .., last)| (Reverse(queued(name)), Reverse(*last)));
        let shown = owned.into_iter().take(most).map(|(name, figures, node, _)| {
            let key = keys.get(&*name);
            let (state_bytes, turns) = figures.as_ref().map(|it| it.noted()).unwrap_or_default();
            EntityInfo {
                age: figures.as_ref().map(|figures| figures.age()),
                uid: figures.map(|figures| figures.uid()),
                node,
                is_busy: key.is_some_and(|key| key.holders > 0),
                queued: key.map_or(0, |key| key.queued),
                state_bytes,
                turns,
                name,
            }
        });
        (shown.collect(), all)
    }
}
