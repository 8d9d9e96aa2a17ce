//! What a node notes of an entity for those who look.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::clock::Clock;
use asyncsteps_journal::Uid;
use parking_lot::Mutex;

/// How many turns of an entity are kept, the newest ones.
const TURNS: usize = 4;

/// What its node notes of an entity.
pub(crate) struct EntityFigures {
    uid: Uid,
    owned: Clock,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    state_bytes: usize,
    turns: VecDeque<EntityTurn>,
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
    pub(crate) fn new(uid: Uid, state_bytes: usize) -> Arc<Self> {
        let noted = Noted { state_bytes, ..Noted::default() };
        Arc::new(Self { uid, owned: Clock::start(), noted: Mutex::new(noted) })
    }

    pub(crate) fn uid(&self) -> Uid {
        self.uid
    }

    /// How long its node has owned it.
    pub(crate) fn age(&self) -> Duration {
        self.owned.elapsed()
    }

    /// The size of the stored state in bytes, and the last turns, the newest first.
    pub(crate) fn noted(&self) -> (usize, Vec<EntityTurn>) {
        let noted = self.noted.lock();
        (noted.state_bytes, noted.turns.iter().cloned().collect())
    }

    /// When the last turn began.
    pub(crate) fn last_turn(&self) -> Option<SystemTime> {
        self.noted.lock().turns.front().map(|turn| turn.at)
    }

    pub(crate) fn state_is(&self, bytes: usize) {
        self.noted.lock().state_bytes = bytes;
    }

    /// Only the last turn is kept of an entity that is not called.
    pub(crate) fn rest(&self) {
        let turns = &mut self.noted.lock().turns;
        turns.truncate(1);
        turns.shrink_to_fit();
    }

    pub(crate) fn turn_ends(&self, turn: EntityTurn) {
        let turns = &mut self.noted.lock().turns;
        if turns.len() == TURNS {
            turns.pop_back();
        }
        turns.push_front(turn);
    }
}
