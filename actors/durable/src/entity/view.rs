//! What can be seen of the entities of a process.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::sync::{KeyReport, Mutex};
use asyncsteps_journal::Uid;
use parking_lot::Mutex as Noting;

use crate::durable::Durable;

/// How many turns of an entity are kept, the newest ones.
const TURNS: usize = 4;

/// What its node notes of an entity.
pub(crate) struct EntityFigures {
    uid: Uid,
    noted: Noting<Noted>,
}

#[derive(Default)]
struct Noted {
    state_bytes: usize,
    turns: VecDeque<EntityTurn>,
}

/// An entity that a node of this process owns, as a moment ago.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EntityInfo {
    /// Its name in the journal, such as `acme.seats:1@opera`.
    pub name: Arc<str>,
    /// The request of the journal that it is.
    pub uid: Uid,
    /// Whether a call has its turn.
    pub is_busy: bool,
    /// How many calls wait for their turn.
    pub queued: usize,
    /// The size of its stored state in bytes; 0 if it was never changed.
    pub state_bytes: usize,
    /// The last turns since this process owns it, the newest first; at most 4. Calls that
    /// [read](super::EntityFunctions::reads) have no turn.
    pub turns: Vec<EntityTurn>,
}

/// The turn of a call that may change an entity.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EntityTurn {
    /// The function that was called.
    pub function: &'static str,
    /// When the turn began.
    pub at: SystemTime,
    /// How long it took, without the wait for it before and for the storage behind it.
    pub took: Duration,
    /// Whether the call has ended well. One that has not has changed nothing.
    pub is_done: bool,
}

impl EntityFigures {
    pub(super) fn new(uid: Uid, state_bytes: usize) -> Arc<Self> {
        let noted = Noted { state_bytes, ..Noted::default() };
        Arc::new(Self { uid, noted: Noting::new(noted) })
    }

    pub(super) fn state_is(&self, bytes: usize) {
        self.noted.lock().state_bytes = bytes;
    }

    pub(super) fn turn_ends(&self, turn: EntityTurn) {
        let turns = &mut self.noted.lock().turns;
        if turns.len() == TURNS {
            turns.pop_back();
        }
        turns.push_front(turn);
    }
}

impl Durable {
    /// The turns of all [entities](crate::entity::Entity) of this process: a mutex whose keys are their names. Among
    /// the watched locks of a program, it shows who has the turn of an entity, who waits for it, and how long that
    /// takes.
    #[must_use]
    pub fn entity_turns(&self) -> &Mutex {
        self.shared.entities.turns()
    }

    /// The entities that nodes of this process own, those with the longest queues first, then those with the latest
    /// turns, and how many there are in all.
    #[must_use]
    pub fn entities(&self, most: usize) -> (Vec<EntityInfo>, usize) {
        let report = self.entity_turns().inspect();
        let keys: HashMap<&str, &KeyReport> = report.keys.iter().map(|it| (&*it.key, it)).collect();
        let owned = self.shared.entities.known.iter().filter_map(|known| {
            let figures = Arc::clone(known.figures.as_ref()?);
            let last = figures.noted.lock().turns.front().map(|turn| turn.at);
            Some((Arc::clone(known.key()), figures, last))
        });
        let mut owned: Vec<_> = owned.collect();
        let all = owned.len();
        let queued = |name: &str| keys.get(name).map_or(0, |key| key.queued);
        owned.sort_by_cached_key(|(name, _, last)| (Reverse(queued(name)), Reverse(*last)));
        let shown = owned.into_iter().take(most).map(|(name, figures, _)| {
            let (key, noted) = (keys.get(&*name), figures.noted.lock());
            EntityInfo {
                uid: figures.uid,
                is_busy: key.is_some_and(|key| key.holders > 0),
                queued: key.map_or(0, |key| key.queued),
                state_bytes: noted.state_bytes,
                turns: noted.turns.iter().cloned().collect(),
                name,
            }
        });
        (shown.collect(), all)
    }
}
