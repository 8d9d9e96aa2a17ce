//! What the steps of a flow would have to undo (FTN12 §1.2): one list for each strand.
//!
//! An entry belongs to the step at its level: 0 is the strand itself, 1 its outermost step. A step
//! that ends normally passes its entries on to the step around it.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::mem;

use crate::completion::Completion;
use crate::location::StepLocation;

/// A step that can be undone. `U` is its undo: the table does not look into it.
pub(crate) struct UndoEntry<U> {
    pub(crate) location: StepLocation,
    pub(crate) undo: U,
    level: u32,
    /// How many entries the flow had before this one.
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
    pub(crate) fn push(&mut self, (strand, level): (u32, u32), location: StepLocation, undo: U) {
        let number = self.numbers;
        self.numbers += 1;
        self.count += 1;
        self.list(strand).push(UndoEntry { location, undo, level, number });
    }

    /// Passes the entries inside of a step that ended on to the step at this level around it.
    pub(crate) fn raise(&mut self, (strand, level): (u32, u32)) {
        let inside = self.list(strand).iter_mut().rev();
        for entry in inside.take_while(|entry| entry.level > level) {
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
        let mut taken = list.split_off(len.min(list.len()));
        self.count -= taken.len();
        taken.sort_by_key(|entry| Reverse(entry.number));
        taken
    }

    /// Takes the entries of the step at this level and of those inside, the newest first.
    pub(crate) fn take_inside(&mut self, (strand, level): (u32, u32)) -> Vec<UndoEntry<U>> {
        let outside = self.list(strand).partition_point(|entry| entry.level < level);
        self.take_after(strand, outside)
    }

    /// Takes the entries of all strands, the newest first.
    pub(crate) fn take_all(&mut self) -> Vec<UndoEntry<U>> {
        let mut taken: Vec<UndoEntry<U>> = self.lists.drain(..).flatten().collect();
        self.count = 0;
        taken.sort_by_key(|entry| Reverse(entry.number));
        taken
    }

    fn list(&mut self, strand: u32) -> &mut Vec<UndoEntry<U>> {
        let slot = strand as usize;
        if self.lists.len() <= slot {
            self.lists.resize_with(slot + 1, Vec::new);
        }
        &mut self.lists[slot]
    }
}

/// The undos of one flow that are to be run, the newest first. `W` is what runs one of them.
pub(crate) struct UndoQueue<W> {
    waiting: RefCell<VecDeque<UndoItem<W>>>,
    running: Cell<Option<Undone>>,
    is_over: Cell<bool>,
}

/// What a flow that undoes does next.
pub(crate) enum UndoItem<W> {
    Undo(Undone, W),
    /// It tells the step that waits for the undos before this.
    Tell(Completion),
}

/// The step that is undone.
#[derive(Clone, Copy)]
pub(crate) struct Undone {
    pub(crate) location: StepLocation,
    /// Whether it was done; otherwise that is unknown.
    pub(crate) is_done: bool,
}

impl<W> UndoQueue<W> {
    pub(crate) fn new() -> Self {
        Self { waiting: RefCell::default(), running: Cell::default(), is_over: Cell::default() }
    }

    /// Appends undos, the newest first.
    pub(crate) fn append(&self, undos: Vec<(Undone, W)>) {
        let items = undos.into_iter().map(|(undone, work)| UndoItem::Undo(undone, work));
        self.waiting.borrow_mut().extend(items);
    }

    /// Has a step told when the undos that were appended before are over.
    pub(crate) fn tell(&self, waiting: Completion) {
        self.waiting.borrow_mut().push_back(UndoItem::Tell(waiting));
    }

    /// Whether the flow takes no more of them.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// What comes next; after `None` the queue takes no more.
    pub(crate) fn start_next(&self) -> Option<UndoItem<W>> {
        let next = self.waiting.borrow_mut().pop_front();
        self.is_over.set(next.is_none());
        self.running.set(next.as_ref().and_then(UndoItem::undone));
        next
    }

    /// Gives up: the steps whose undo did not run to its end.
    pub(crate) fn abandon(&self) -> Vec<Undone> {
        self.is_over.set(true);
        let waiting = self.waiting.take();
        let left = waiting.iter().filter_map(UndoItem::undone);
        self.running.take().into_iter().chain(left).collect()
    }
}

impl<W> UndoItem<W> {
    fn undone(&self) -> Option<Undone> {
        match self {
            Self::Undo(undone, _) => Some(*undone),
            Self::Tell(_) => None,
        }
    }
}
