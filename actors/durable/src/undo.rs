//! What is recorded of the undo of a step: at the path of the step, as [`Path::undo`] has it.

use asyncsteps_core::Error;
use asyncsteps_journal::record::{Done, Intent};
use asyncsteps_journal::{Event, Path};

use crate::flow::Flow;
use crate::records::cut;

/// How many bytes of the error of an undo an operator is shown.
const MOST_OF_ERROR: usize = 500;

impl Flow {
    /// The undo of the step at this path is about to begin. That is recorded where each body is: so an undo that kills
    /// its process is found, as a body is.
    pub(crate) fn begins_undo(&self, step: &Path) {
        if self.records_bodies() {
            let (at, has_undo) = (self.clock().now(), Some(false));
            let intent = Intent { at, attempt: 1, locks: Vec::new(), has_undo };
            self.record(&step.undo(), [Event::Intent(intent)]);
        }
        self.records.borrow_mut().begins_undo(step);
    }

    /// The undo of the step at this path has failed.
    pub(crate) fn undo_fails(&self, step: &Path, error: &Error) {
        self.records.borrow_mut().undo_fails(step, cut(&error.to_string(), MOST_OF_ERROR));
    }

    /// The step at this path is undone.
    pub(crate) fn ends_undo(&self, step: &Path, done: Done) {
        self.record(&step.undo(), [Event::Done(done)]);
    }
}
