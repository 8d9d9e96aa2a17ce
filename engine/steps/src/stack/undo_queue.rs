//! The undos of one flow that are to be run (FTN12 §1.2), and the locks that are held meanwhile.
//!
//! What was done one after the other is undone the newest first. Parallel branches are undone beside
//! each other, as they ran: an undo may wait for a lock that another branch holds until that is undone.
//! So several flows run the undos, one for each branch that has some.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::rc::Rc;

use super::branch_path::BranchPath;
use crate::completion::Completion;
use crate::error::Error;
use crate::location::StepLocation;

/// The undos of one flow that are to be run. `W` is what runs one of them.
pub(crate) struct UndoQueue<W> {
    /// What is not over, the newest first: an entry waits for those before it, unless they are
    /// beside it.
    entries: RefCell<VecDeque<Entry<W>>>,
    /// The workers that wait until an entry is over.
    idle: RefCell<Vec<Completion>>,
    workers: Cell<usize>,
    /// How many entries there were.
    numbers: Cell<u64>,
}

struct Entry<W> {
    number: u64,
    branch: BranchPath,
    state: State<W>,
}

enum State<W> {
    Waiting(UndoItem<W>),
    Running(Undone),
}

/// What is to be done for a flow that undoes.
pub(crate) enum UndoItem<W> {
    Undo(Undone, W),
    /// Releases what a cancelled step held around the undos before this.
    Release(Locks),
    /// Tells the step that waits for the undos before this.
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

/// What a flow that runs undos owns of their queue: it takes one item after the other.
pub(crate) struct UndoWorker<W> {
    queue: Rc<UndoQueue<W>>,
    /// The number of the entry that it runs.
    running: Cell<Option<u64>>,
    is_over: Cell<bool>,
}

/// What a worker does next.
pub(crate) enum NextUndo<W> {
    Start(UndoItem<W>),
    /// It [waits](UndoWorker::wait) until the entry of another worker is over.
    Wait,
    Over,
}

impl<W> UndoQueue<W> {
    pub(crate) fn new() -> Self {
        Self {
            entries: RefCell::default(),
            idle: RefCell::default(),
            workers: Cell::default(),
            numbers: Cell::default(),
        }
    }

    /// Appends what is to be done for these branches, the newest first. Locks that nothing holds up
    /// are released now.
    pub(crate) fn append(&self, items: impl IntoIterator<Item = (BranchPath, UndoItem<W>)>) {
        for (branch, item) in items {
            if !matches!(item, UndoItem::Release(_)) || self.holds_up(&branch) {
                let number = self.numbers.get();
                self.numbers.set(number + 1);
                let entry = Entry { number, branch, state: State::Waiting(item) };
                self.entries.borrow_mut().push_back(entry);
            }
        }
        self.wake_idle();
    }

    /// Whether something that is not over comes before the rest of this branch.
    pub(crate) fn holds_up(&self, branch: &BranchPath) -> bool {
        self.entries.borrow().iter().any(|entry| !entry.branch.is_beside(branch))
    }

    /// Whether no flow runs what is in it.
    pub(crate) fn is_over(&self) -> bool {
        self.workers.get() == 0
    }

    /// The workers that are missing: with one for each branch, no undo waits for a worker.
    pub(crate) fn hire(self: &Rc<Self>) -> Vec<UndoWorker<W>> {
        let entries = self.entries.borrow();
        let to_undo = entries.iter().filter(|entry| entry.undone().is_some());
        let wanted = to_undo.map(|entry| entry.branch.number()).collect::<BTreeSet<_>>().len();
        let before = self.workers.get();
        self.workers.set(before.max(wanted));
        (before..wanted).map(|_| UndoWorker::new(Rc::clone(self))).collect()
    }

    /// Where the first entry is that waits for nothing.
    fn next(&self) -> Option<usize> {
        let entries = self.entries.borrow();
        let is_next = |&at: &usize| {
            let Entry { branch, state, .. } = &entries[at];
            matches!(state, State::Waiting(_))
                && entries.range(..at).all(|before| before.branch.is_beside(branch))
        };
        (0..entries.len()).find(is_next)
    }

    /// Removes an entry that is over.
    fn remove(&self, at: usize) -> Option<State<W>> {
        let removed = self.entries.borrow_mut().remove(at);
        self.wake_idle();
        removed.map(|entry| entry.state)
    }

    fn wake_idle(&self) {
        for worker in mem::take(&mut *self.idle.borrow_mut()) {
            // a worker that was cancelled has left
            let _ = worker.success(());
        }
    }

    /// Whether there are enough workers that wait for all entries that wait.
    fn has_enough_idle(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        idle.retain(Completion::is_valid);
        let entries = self.entries.borrow();
        let is_waiting = |entry: &&Entry<W>| matches!(entry.state, State::Waiting(_));
        idle.len() >= entries.iter().filter(is_waiting).count()
    }
}

impl<W> Entry<W> {
    /// The step that it undoes.
    fn undone(&self) -> Option<&Undone> {
        match &self.state {
            State::Running(undone) | State::Waiting(UndoItem::Undo(undone, _)) => Some(undone),
            State::Waiting(UndoItem::Release(_) | UndoItem::Tell(_)) => None,
        }
    }
}

impl<W> UndoWorker<W> {
    fn new(queue: Rc<UndoQueue<W>>) -> Self {
        Self { queue, running: Cell::new(None), is_over: Cell::new(false) }
    }

    /// What comes next; what the worker was given before is over.
    pub(crate) fn start_next(&self) -> NextUndo<W> {
        drop(self.end_running());
        let Some(at) = self.queue.next() else {
            if !self.queue.has_enough_idle() {
                return NextUndo::Wait;
            }
            drop(self.leave());
            return NextUndo::Over;
        };
        let mut entries = self.queue.entries.borrow_mut();
        let entry = &mut entries[at];
        if let Some(undone) = entry.undone().cloned() {
            self.running.set(Some(entry.number));
            let before = mem::replace(&mut entry.state, State::Running(undone));
            return NextUndo::of(before);
        }
        drop(entries);
        self.queue.remove(at).map_or(NextUndo::Over, NextUndo::of)
    }

    /// Has the worker told when there may be something to do.
    pub(crate) fn wait(&self, waiting: Completion) {
        self.queue.idle.borrow_mut().push(waiting);
    }

    /// Gives up: the steps whose undo does not run to its end.
    pub(crate) fn leave(&self) -> Vec<Undone> {
        if self.is_over.replace(true) {
            return Vec::new();
        }
        let mut lost: Vec<Undone> = self.end_running().into_iter().collect();
        self.queue.workers.set(self.queue.workers.get() - 1);
        if self.queue.is_over() {
            // nothing runs them any more
            let left = self.queue.entries.take();
            lost.extend(left.iter().filter_map(|entry| entry.undone().cloned()));
        }
        lost
    }

    /// The entry that the worker runs is over.
    fn end_running(&self) -> Option<Undone> {
        let number = self.running.take()?;
        let at = self.queue.entries.borrow().iter().position(|entry| entry.number == number)?;
        match self.queue.remove(at)? {
            State::Running(undone) => Some(undone),
            State::Waiting(_) => None,
        }
    }
}

impl<W> Drop for UndoWorker<W> {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

impl<W> NextUndo<W> {
    fn of(state: State<W>) -> Self {
        match state {
            State::Waiting(item) => Self::Start(item),
            State::Running(_) => Self::Wait,
        }
    }
}
