//! The table of strands (FTN12 §1.4): one for each branch that started and is not over.

use std::mem;

use super::turns::{ActiveTurn, TurnQueue};
use crate::slot::index;

/// All strands of a flow but the active one, which is in the flow itself.
///
/// The root has slot 0. `S` is the strand: the table does not look into it.
pub(crate) struct Strands<S> {
    slots: Vec<BranchSlot<S>>,
    /// The first free slot; the others are linked by their `parent`. 0 means none.
    free: u32,
    pub(crate) turns: TurnQueue,
    /// The slot of the active strand.
    pub(crate) active: u32,
    pub(crate) active_turn: ActiveTurn,
    /// How many branches the flow has had: the number of the last one.
    pub(crate) branches: u32,
}

struct BranchSlot<S> {
    parked: Option<S>,
    /// The slot of the strand whose parallel step started this one.
    parent: u32,
    /// The position among the branches of that step.
    position: usize,
}

impl<S> Default for Strands<S> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: 0,
            turns: TurnQueue::default(),
            active: 0,
            active_turn: ActiveTurn::default(),
            branches: 0,
        }
    }
}

impl<S> Strands<S> {
    /// Makes room for a strand below the one in the slot `parent`.
    pub(crate) fn add(&mut self, parent: u32) -> u32 {
        let slot = BranchSlot { parked: None, parent, position: 0 };
        match self.slots.get_mut(self.free as usize) {
            Some(free) if self.free != 0 => {
                let id = mem::replace(&mut self.free, free.parent);
                *free = slot;
                id
            }
            _ => {
                if self.slots.is_empty() {
                    let root = BranchSlot { parked: None, parent: 0, position: 0 };
                    self.slots.push(root);
                }
                self.slots.push(slot);
                index(self.slots.len() - 1)
            }
        }
    }

    pub(crate) fn remove(&mut self, id: u32) {
        if let Some(slot) = self.slots.get_mut(id as usize) {
            slot.parent = mem::replace(&mut self.free, id);
        }
    }

    pub(crate) fn set_position(&mut self, id: u32, position: usize) {
        if let Some(slot) = self.slots.get_mut(id as usize) {
            slot.position = position;
        }
    }

    /// The slot of the strand around this one, and the position of this one in its parallel step.
    pub(crate) fn parent_and_position(&self, id: u32) -> Option<(u32, usize)> {
        self.slots.get(id as usize).map(|slot| (slot.parent, slot.position))
    }

    pub(crate) fn take(&mut self, id: u32) -> Option<S> {
        self.slots.get_mut(id as usize)?.parked.take()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&S> {
        self.slots.get(id as usize)?.parked.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut S> {
        self.slots.get_mut(id as usize)?.parked.as_mut()
    }

    /// Parks the strand that was active, now that the strand in slot `id` takes over.
    pub(crate) fn park_active(&mut self, strand: S, id: u32) {
        let before = mem::replace(&mut self.active, id);
        if let Some(slot) = self.slots.get_mut(before as usize) {
            slot.parked = Some(strand);
        }
    }

    /// The parked strands and their slots.
    pub(crate) fn parked(&self) -> impl Iterator<Item = (u32, &S)> {
        self.slots.iter().zip(0..).filter_map(|(slot, id)| Some((id, slot.parked.as_ref()?)))
    }
}
