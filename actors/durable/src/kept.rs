//! The effects that a request keeps although it did not come to a result: nothing undoes them.

use asyncsteps_journal::record::{Ending, StoredRecord};
use asyncsteps_journal::request::FlowState;
use asyncsteps_journal::{Error, Path, Uid};

use crate::durable::Durable;
use crate::replay::{AtPath, Replay};
use crate::settled::Settle;
use crate::writer::RecordTicket;

impl Durable {
    /// The steps whose effects stay, or may stay, although the request has ended with an error or a cancel, or waits
    /// for an operator: steps without an undo that have begun or are done, and steps that an operator has
    /// [kept](crate::Settle::Kept). In the order of their paths; none of a request that runs, or has ended with a
    /// result.
    ///
    /// A step that is `repeatable` does not count, nor one that only waits. The journal knows no more than was
    /// recorded: of a `recorded` step without an undo not the body that was cut, and of a loop only the iterations of
    /// which it has records.
    ///
    /// # Errors
    /// The errors of [`status`](Self::status).
    pub async fn kept(&self, uid: Uid) -> Result<Vec<Path>, Error> {
        let status = self.shared.journal.status(uid).await?;
        let has_result = matches!(status.ending, Some(Ending::Completed(_)));
        let stopped = [FlowState::Paused, FlowState::Dead, FlowState::Ended];
        let has_stopped = stopped.contains(&status.flow.state) && !has_result;
        Ok(if has_stopped { kept(&self.records(uid).await?) } else { Vec::new() })
    }
}

fn kept(stored: &[StoredRecord]) -> Vec<Path> {
    Replay::read(stored, |_| RecordTicket::default()).kept().cloned().collect()
}

impl Replay {
    fn kept(&self) -> impl Iterator<Item = &Path> {
        let steps = self.all().filter(|(path, at)| self.is_kept(path, at));
        steps.map(|(path, _)| path)
    }

    fn is_kept(&self, path: &Path, at: &AtPath) -> bool {
        if matches!(at.settled, Some(Settle::Kept)) {
            return true;
        }
        let is_effect = |path: &Path, at: &AtPath| at.is_effect(path) && !at.is_wait;
        // an item belongs to its step, which has the undo, and the result of all items
        let of_step =
            |step: Path| self.at(&step).is_some_and(|at| at.is_begun || is_effect(&step, at));
        is_effect(path, at)
            && !at.is_begun
            && !self.is_undone(path)
            && !step_of_item(path).is_some_and(of_step)
    }
}

/// The step of which this path is an item.
fn step_of_item(path: &Path) -> Option<Path> {
    let text = path.is_item().then(|| path.as_str())?;
    text[..text.rfind('@')?].parse().ok()
}
