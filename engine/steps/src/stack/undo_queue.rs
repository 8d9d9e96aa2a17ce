//! The undos of one flow that are to be run (FTN12 §1.2), and the locks that are held meanwhile.
//!
//! Sequential steps are undone newest first. Parallel branches are undone in parallel, as they ran:
//! an undo may wait for a lock that another branch holds until that is undone. So several flows run
//! the undos, as many as may have to run at once.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem;
use std::rc::Rc;

use super::branch_path::BranchPath;
use super::undo_order::UndoOrder;
use crate::completion::Completion;
use crate::error::Error;
use crate::location::StepLocation;

/// The undos of one flow that are to be run. `W` is what runs one of them.
pub(crate) struct UndoQueue<W> {
    /// The entries that have not ended, the newest first; a running entry stays until it has ended.
    entries: RefCell<UndoOrder<QueuedUndo<W>>>,
    /// The workers that wait until there is something to do.
    idle: RefCell<Vec<Completion>>,
    workers: Cell<usize>,
}

struct QueuedUndo<W> {
    branch: BranchPath,
    state: UndoState<W>,
}

enum UndoState<W> {
    Waiting(UndoItem<W>),
    Running(Undone),
}

/// An item of work for a flow that undoes.
pub(crate) enum UndoItem<W> {
    Undo(Undone, W),
    /// Releases what a cancelled step held around the undos before this.
    Release(Locks),
    /// Notifies the step that waits for the undos before this.
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

/// A worker's share of the queue of undos: it takes one item after the other.
pub(crate) struct UndoWorker<W> {
    queue: Rc<UndoQueue<W>>,
    /// The branch of the entry that it runs.
    running: RefCell<Option<BranchPath>>,
    is_over: Cell<bool>,
}

/// The next work of a worker.
pub(crate) enum NextUndo<W> {
    Start(UndoItem<W>),
    /// It [waits](UndoWorker::wait) until there may be something to do.
    Wait,
    Over,
}

impl<W> UndoQueue<W> {
    pub(crate) fn new() -> Self {
        Self { entries: RefCell::default(), idle: RefCell::default(), workers: Cell::default() }
    }

    /// Appends the items of these branches, the newest first. Locks that nothing holds up are
    /// released now.
    pub(crate) fn append(&self, items: impl IntoIterator<Item = (BranchPath, UndoItem<W>)>) {
        for (branch, item) in items {
            if !matches!(item, UndoItem::Release(_)) || self.holds_up(&branch) {
                let path = branch.clone();
                let entry = QueuedUndo { branch, state: UndoState::Waiting(item) };
                self.entries.borrow_mut().push(path.branches(), entry);
            }
        }
        self.wake_one();
    }

    /// Whether something that is not over comes before the rest of this branch.
    pub(crate) fn holds_up(&self, branch: &BranchPath) -> bool {
        self.entries.borrow().holds_up(branch.branches())
    }

    /// Whether no flow runs its entries.
    pub(crate) fn is_over(&self) -> bool {
        self.workers.get() == 0
    }

    /// The workers that are missing: with one for each branch that is undone in parallel, no undo
    /// waits for a worker.
    pub(crate) fn hire(self: &Rc<Self>) -> Vec<UndoWorker<W>> {
        let (before, wanted) = (self.workers.get(), self.width());
        self.workers.set(before.max(wanted));
        (before..wanted).map(|_| UndoWorker::new(Rc::clone(self))).collect()
    }

    /// How many undos may have to run at once.
    fn width(&self) -> usize {
        self.entries.borrow().width(|entry| entry.undone().is_some())
    }

    /// The branch of an entry that waits for nothing. Entries that take no time come first: no worker
    /// may be left for it when undos have begun.
    fn next(&self) -> Option<BranchPath> {
        let entries = self.entries.borrow();
        let waiting =
            || entries.first().filter(|entry| matches!(entry.state, UndoState::Waiting(_)));
        let next = waiting().find(|entry| entry.undone().is_none()).or_else(|| waiting().next());
        next.map(|entry| entry.branch.clone())
    }

    /// Removes an entry that has ended.
    fn remove(&self, branch: &BranchPath) -> Option<UndoState<W>> {
        let removed = self.entries.borrow_mut().remove(branch.branches());
        self.wake_one();
        removed.map(|entry| entry.state)
    }

    /// Wakes a worker that waits. One that finds something to do wakes the next one, and so does one
    /// that leaves.
    fn wake_one(&self) {
        loop {
            let Some(worker) = self.idle.borrow_mut().pop() else { return };
            // a worker that was cancelled has left
            if worker.success(()).is_ok() {
                return;
            }
        }
    }
}

impl<W> QueuedUndo<W> {
    /// The step that it undoes.
    fn undone(&self) -> Option<&Undone> {
        match &self.state {
            UndoState::Running(undone) | UndoState::Waiting(UndoItem::Undo(undone, _)) => {
                Some(undone)
            }
            UndoState::Waiting(UndoItem::Release(_) | UndoItem::Tell(_)) => None,
        }
    }
}

impl<W> UndoWorker<W> {
    fn new(queue: Rc<UndoQueue<W>>) -> Self {
        Self { queue, running: RefCell::default(), is_over: Cell::new(false) }
    }

    /// The next entry; the one that the worker received before has ended.
    pub(crate) fn start_next(&self) -> NextUndo<W> {
        drop(self.end_running());
        let queue = &*self.queue;
        let Some(branch) = queue.next() else {
            if queue.workers.get() <= queue.width() {
                return NextUndo::Wait;
            }
            drop(self.leave());
            return NextUndo::Over;
        };
        queue.wake_one();
        let mut entries = queue.entries.borrow_mut();
        let entry = entries.first_mut(branch.branches());
        if let Some((entry, undone)) = entry.and_then(|it| it.undone().cloned().map(|u| (it, u))) {
            let before = mem::replace(&mut entry.state, UndoState::Running(undone));
            self.running.replace(Some(branch));
            return NextUndo::of(before);
        }
        drop(entries);
        queue.remove(&branch).map_or(NextUndo::Over, NextUndo::of)
    }

    /// Notifies the worker through `waiting` when there may be something to do.
    pub(crate) fn wait(&self, waiting: Completion) {
        self.queue.idle.borrow_mut().push(waiting);
    }

    /// Gives up; returns the steps whose undo does not run to its end.
    pub(crate) fn leave(&self) -> Vec<Undone> {
        if self.is_over.replace(true) {
            return Vec::new();
        }
        let mut lost: Vec<Undone> = self.end_running().into_iter().collect();
        self.queue.workers.set(self.queue.workers.get() - 1);
        if self.queue.is_over() {
            // nothing runs them any more
            let left = self.queue.entries.borrow_mut().take();
            lost.extend(left.iter().filter_map(|entry| entry.undone().cloned()));
        }
        self.queue.wake_one();
        lost
    }

    /// The entry that the worker runs has ended.
    fn end_running(&self) -> Option<Undone> {
        let branch = self.running.take()?;
        match self.queue.remove(&branch)? {
            UndoState::Running(undone) => Some(undone),
            UndoState::Waiting(_) => None,
        }
    }
}

impl<W> Drop for UndoWorker<W> {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

impl<W> NextUndo<W> {
    fn of(state: UndoState<W>) -> Self {
        match state {
            UndoState::Waiting(item) => Self::Start(item),
            UndoState::Running(_) => Self::Wait,
        }
    }
}
