//! Undoing what is inside of a step that failed, or of a flow that is cancelled (FTN12 §1.2, §1.3).

use std::rc::Rc;

use super::types::{Machine, Next};
use crate::completion::Completion;
use crate::error::{Error, codes};
use crate::observe::StepEnd;
use crate::stack::{
    Activity, Flags, Strand, UndoEntry, UndoQueue, UndoWork, Undoable, Undoing, Undone,
};
use crate::undo::undo_flow;

impl Machine {
    /// The step on top ends: what it could undo passes on to the step around it, and the end of a
    /// scope forgets it.
    #[cold]
    pub(super) fn pass_undos_on(&mut self, end: StepEnd<'_>) {
        let (active, level) = (self.asi.active(), self.asi.strand.depth());
        let extras = self.asi.strand.top.extras.as_ref();
        let is_scope = extras.is_some_and(|extras| extras.is_scope);
        let undos = &mut self.asi.cold().undos;
        if is_scope && matches!(end, StepEnd::Success) {
            drop(undos.take_inside((active, level + 1)));
        } else {
            undos.raise((active, level));
        }
    }

    /// The active branch ends: what it could undo passes on to its parallel step.
    pub(super) fn move_undos_up(&mut self) {
        let Some(cold) = self.asi.cold.as_mut().filter(|cold| !cold.undos.is_empty()) else {
            return;
        };
        let branch = cold.strands.active;
        let Some((parent, _)) = cold.strands.parent_and_position(branch) else { return };
        let level = cold.strands.get(parent).map_or(0, Strand::depth) + 1;
        cold.undos.move_up(branch, (parent, level));
    }

    /// Undoes what is inside of the step on top before its error handler is called; `false` if there
    /// is nothing. The step waits for it, and keeps the error.
    pub(super) fn undo_inside(&mut self, error: &Error) -> bool {
        let level = self.asi.strand.depth() + 1;
        self.undo_from(level, error)
    }

    /// Undoes what the outermost steps of the flow have done; `false` if there is nothing. A step
    /// that stands for the flow waits for it.
    pub(super) fn undo_root(&mut self, error: &Error) -> bool {
        if self.asi.cold.as_ref().is_none_or(|cold| cold.undos.is_empty()) {
            return false;
        }
        self.asi.strand.clear();
        let location = self.asi.location().named("undo");
        self.enter(location, None, Flags::default());
        let waits = self.undo_from(0, error);
        if !waits {
            self.leave(StepEnd::Success);
        }
        waits
    }

    fn undo_from(&mut self, level: u32, error: &Error) -> bool {
        let active = self.asi.active();
        let Some(cold) = self.asi.cold.as_mut().filter(|cold| !cold.undos.is_empty()) else {
            return false;
        };
        let queue = queue_of(cold.undos.take_inside((active, level)));
        if queue.is_empty() {
            return false;
        }
        let ended = self.asi.completion();
        self.launch_undo(&queue, Some(ended));
        let undoing = Undoing { error: error.clone(), queue };
        self.asi.start_activity(Activity::Undoing(Box::new(undoing)));
        self.asi.strand.runnable = false;
        true
    }

    /// Whether the step on top waits for an undo.
    pub(super) fn is_undoing(&self) -> bool {
        matches!(self.asi.strand.top.activity(), Activity::Undoing(_))
    }

    /// The undo for which the step on top waits has ended: its error goes on.
    pub(super) fn end_undo(&mut self) -> Next {
        match self.asi.strand.top.replace_activity(Activity::Plain) {
            Activity::Undoing(undoing) => self.unwind_undone(undoing.error),
            activity => {
                self.asi.set_activity(activity);
                Next::Wait
            }
        }
    }

    /// Undoes what branches have done that the end of a loop cancelled, without waiting for it.
    pub(super) fn undo_cancelled_branches(&mut self, kept: usize) {
        let active = self.asi.active();
        let Some(cold) = self.asi.cold.as_mut().filter(|cold| !cold.undos.is_empty()) else {
            return;
        };
        let queue = queue_of(cold.undos.take_after(active, kept));
        if !queue.is_empty() {
            self.launch_undo(&queue, None);
        }
    }

    /// How many entries the active strand has.
    pub(super) fn undo_count(&self) -> usize {
        self.asi.cold.as_ref().map_or(0, |cold| cold.undos.len(cold.strands.active))
    }

    /// The undos that run for this flow, if some do.
    pub(super) fn running_undo(&self) -> Option<Rc<UndoQueue<UndoWork>>> {
        let mut frames = self.asi.strands().flat_map(|(_, strand)| strand.open_frames());
        frames.find_map(|frame| {
            let Activity::Undoing(undoing) = frame.activity() else { return None };
            (!undoing.queue.is_over()).then(|| Rc::clone(&undoing.queue))
        })
    }

    /// Undoes everything that is left, after what is being undone already. Nothing waits for it.
    pub(super) fn undo_all(&mut self, running: Option<Rc<UndoQueue<UndoWork>>>) {
        let Some(cold) = &mut self.asi.cold else { return };
        if let Some(own) = &cold.undoes {
            cold.unseen.extend(own.abandon().into_iter().map(|undone| {
                let error = Error::with_info(codes::INTERNAL_ERROR, "the undo was cancelled");
                let error = error.at(undone.location);
                error.set_failed_undo(undone.is_done);
                error
            }));
        }
        if cold.undos.is_empty() {
            return;
        }
        let entries = cold.undos.take_all();
        if let Some(running) = running {
            running.append(work_of(entries));
            return;
        }
        let queue = queue_of(entries);
        if !queue.is_empty() {
            self.launch_undo(&queue, None);
        }
    }

    fn launch_undo(&mut self, queue: &Rc<UndoQueue<UndoWork>>, ended: Option<Completion>) {
        let flow = undo_flow(Rc::clone(queue), ended);
        self.asi.cold().launched.push(flow);
    }
}

fn queue_of(entries: Vec<UndoEntry<Rc<dyn Undoable>>>) -> Rc<UndoQueue<UndoWork>> {
    let queue = UndoQueue::new();
    queue.append(work_of(entries));
    Rc::new(queue)
}

/// The undos of those entries that have something to undo.
fn work_of(entries: Vec<UndoEntry<Rc<dyn Undoable>>>) -> impl Iterator<Item = (Undone, UndoWork)> {
    entries.into_iter().filter_map(|UndoEntry { location, undo, .. }| {
        let (is_done, work) = undo.take()?;
        Some((Undone { location, is_done }, work))
    })
}
