//! The undos of one flow that are to be run (FTN12 §1.2), and the locks that are held meanwhile.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::completion::Completion;
use crate::error::Error;
use crate::location::StepLocation;

/// The undos of one flow that are to be run, the newest first. `W` is what runs one of them.
pub(crate) struct UndoQueue<W> {
    waiting: RefCell<VecDeque<UndoItem<W>>>,
    running: RefCell<Option<Undone>>,
    is_over: Cell<bool>,
}

/// What a flow that undoes does next.
pub(crate) enum UndoItem<W> {
    Undo(Undone, W),
    /// It releases what a cancelled step held around the undos before this.
    Release(Locks),
    /// It tells the step that waits for the undos before this.
    Tell(Completion),
}

/// The guards of a step, in the order in which they are dropped.
pub(crate) type Locks = Vec<Box<dyn Any>>;

/// The step that is undone.
#[derive(Clone)]
pub(crate) struct Undone {
    pub(crate) location: StepLocation,
    /// Whether it was done; otherwise that is unknown.
    pub(crate) is_done: bool,
    /// The error that caused it; `None` if the flow was cancelled.
    pub(crate) why: Option<Error>,
}

impl<W> UndoQueue<W> {
    pub(crate) fn new() -> Self {
        Self { waiting: RefCell::default(), running: RefCell::default(), is_over: Cell::default() }
    }

    /// Appends undos, the newest first.
    pub(crate) fn append(&self, items: Vec<UndoItem<W>>) {
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
        self.running.replace(next.as_ref().and_then(UndoItem::undone));
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
    /// The step that is undone.
    pub(crate) fn location(&self) -> Option<StepLocation> {
        self.undone().map(|undone| undone.location)
    }

    fn undone(&self) -> Option<Undone> {
        match self {
            Self::Undo(undone, _) => Some(undone.clone()),
            Self::Release(_) | Self::Tell(_) => None,
        }
    }
}
