//! Entities of this process.

use std::time::UNIX_EPOCH;

use asyncsteps_durable::Durable;
use asyncsteps_durable::entity::{EntityInfo, EntityTurn};
use serde::Serialize;

use crate::bounds::{self, Bounded, cut};
use crate::snapshot::milliseconds;

/// The entities, those with the longest queues first.
#[derive(Debug, Serialize)]
pub(crate) struct Entities {
    entities: Vec<EntityRow>,
    /// How many there are.
    all: usize,
}

/// An entity that this process owns.
#[derive(Debug, Serialize)]
struct EntityRow {
    name: String,
    uid: String,
    /// The number of its node in this process.
    node: u64,
    /// How long the node has owned it; not while it claims it.
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<f64>,
    is_busy: bool,
    queued: usize,
    state_bytes: usize,
    /// The last ones, the newest first.
    turns: Vec<TurnRow>,
}

/// A call that had its turn in an entity. Times are in milliseconds.
#[derive(Debug, Serialize)]
struct TurnRow {
    function: String,
    at: f64,
    took: f64,
    is_done: bool,
}

/// The entities of this process.
pub(crate) fn list(durable: &Durable) -> Entities {
    let (entities, all) = durable.entities(bounds::ENTITIES);
    Entities {
        entities: entities.into_iter().map(|it| EntityRow::from(it).bounded()).collect(),
        all,
    }
}

impl From<EntityInfo> for EntityRow {
    fn from(info: EntityInfo) -> Self {
        Self {
            name: info.name.to_string(),
            uid: info.uid.map(|uid| uid.to_string()).unwrap_or_default(),
            node: info.node,
            age: info.age.map(milliseconds),
            is_busy: info.is_busy,
            queued: info.queued,
            state_bytes: info.state_bytes,
            turns: info.turns.iter().map(TurnRow::from).collect(),
        }
    }
}

impl From<&EntityTurn> for TurnRow {
    fn from(turn: &EntityTurn) -> Self {
        let at = turn.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            function: turn.function.to_owned(),
            at: milliseconds(at).floor(),
            took: milliseconds(turn.took),
            is_done: turn.is_done,
        }
    }
}

impl Bounded for EntityRow {
    fn bounded(mut self) -> Self {
        cut(&mut self.name);
        self
    }
}
