//! The undos that the steps of a flow would need (FTN12 §1.2): one list for each strand.
//!
//! An entry belongs to the step at its level: 0 is the strand itself, 1 its outermost step. A step
//! that ends normally passes its entries on to the step around it.

use std::cmp::Reverse;
use std::mem;

use super::branch_path::BranchPath;
use crate::location::StepLocation;

/// A step that can be undone. `U` is its undo: the table does not look into it.
pub(crate) struct UndoEntry<U> {
    pub(crate) location: StepLocation,
    pub(crate) undo: U,
    /// The branch that the step ran in.
    pub(crate) branch: BranchPath,
    level: u32,
    /// How many entries the flow had before this one; a lock has the number of the first entry
    /// inside.
    number: u64,
}

/// The entries of a flow.
pub(crate) struct Undos<U> {
    /// The entries of each strand by its slot; within a list neither levels nor numbers of the same
    /// level fall.
    lists: Vec<Vec<UndoEntry<U>>>,
    count: usize,
    numbers: u64,
}

impl<U> Default for Undos<U> {
    fn default() -> Self {
        Self { lists: Vec::new(), count: 0, numbers: 0 }
    }
}

impl<U> Undos<U> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds an entry of the step at this level of the strand in this slot.
    pub(crate) fn push(
        &mut self,
        (strand, level): (u32, u32),
        (location, branch): (StepLocation, BranchPath),
        undo: U,
    ) {
        let number = self.numbers;
        self.numbers += 1;
        self.count += 1;
        self.list(strand).push(UndoEntry { location, undo, branch, level, number });
    }

    /// The first entry of the step at this level.
    pub(crate) fn first_inside(&mut self, (strand, level): (u32, u32)) -> Option<&mut U> {
        let newest = self.lists.get_mut(strand as usize)?.iter_mut().rev();
        newest.take_while(|entry| entry.level >= level).last().map(|entry| &mut entry.undo)
    }

    /// Whether the step at this level has such an entry, or a step inside.
    pub(crate) fn any_inside(&self, (strand, level): (u32, u32), is: impl Fn(&U) -> bool) -> bool {
        let inside = self.lists.get(strand as usize).into_iter().flatten().rev();
        inside.take_while(|entry| entry.level >= level).any(|entry| is(&entry.undo))
    }

    /// Adds an entry that is taken after all those inside of the step at this level: for what the
    /// step holds around them.
    pub(crate) fn push_around(
        &mut self,
        (strand, level): (u32, u32),
        (location, branch): (StepLocation, BranchPath),
        undo: U,
    ) {
        let newest = self.numbers;
        let list = self.list(strand);
        let outside = list.partition_point(|entry| entry.level < level);
        let number = list[outside..].iter().map(|entry| entry.number).min().unwrap_or(newest);
        list.insert(outside, UndoEntry { location, undo, branch, level, number });
        self.count += 1;
    }

    /// Passes the entries inside of a step that ended on to the step at this level around it.
    pub(crate) fn raise(&mut self, (strand, level): (u32, u32)) {
        let Some(list) = self.lists.get_mut(strand as usize) else { return };
        for entry in list.iter_mut().rev().take_while(|entry| entry.level > level) {
            entry.level = level;
        }
    }

    /// Passes the entries of a branch on to the step at this level of the strand that started it.
    pub(crate) fn move_up(&mut self, branch: u32, (parent, level): (u32, u32)) {
        let mut moved = mem::take(self.list(branch));
        for entry in &mut moved {
            entry.level = level;
        }
        self.list(parent).append(&mut moved);
    }

    /// How many entries a strand has.
    pub(crate) fn len(&self, strand: u32) -> usize {
        self.lists.get(strand as usize).map_or(0, Vec::len)
    }

    /// Takes the entries of a strand after the first `len`, the newest first.
    pub(crate) fn take_after(&mut self, strand: u32, len: usize) -> Vec<UndoEntry<U>> {
        let list = self.list(strand);
        let taken = list.split_off(len.min(list.len()));
        self.count -= taken.len();
        newest_first(taken)
    }

    /// Takes the entries of the step at this level and of those inside, the newest first.
    pub(crate) fn take_inside(&mut self, (strand, level): (u32, u32)) -> Vec<UndoEntry<U>> {
        let outside = self.list(strand).partition_point(|entry| entry.level < level);
        self.take_after(strand, outside)
    }

    /// Takes the entries of all strands, the newest first.
    pub(crate) fn take_all(&mut self) -> Vec<UndoEntry<U>> {
        self.count = 0;
        newest_first(self.lists.drain(..).flatten().collect())
    }

    fn list(&mut self, strand: u32) -> &mut Vec<UndoEntry<U>> {
        let slot = strand as usize;
        if self.lists.len() <= slot {
            self.lists.resize_with(slot + 1, Vec::new);
        }
        &mut self.lists[slot]
    }
}

/// Sorts entries; of those with the same number, the inner one comes first.
fn newest_first<U>(mut entries: Vec<UndoEntry<U>>) -> Vec<UndoEntry<U>> {
    entries.reverse();
    entries.sort_by_key(|entry| Reverse(entry.number));
    entries
}
