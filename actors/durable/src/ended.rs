//! Which steps with sub-steps ended normally in an earlier run. That is not recorded: it shows by the records of what
//! came after them.

use std::rc::Rc;

use asyncsteps_executor::memory::{DefinedStep, Form, Kind};
use asyncsteps_journal::Path;

use crate::records::{Records, attempt_of};

/// A step that was defined, and where it is recorded.
pub(crate) type Defined = (Rc<DefinedStep>, Path);

impl Records {
    /// Steps were defined together at this path: notes which of those with sub-steps ended normally in an earlier
    /// run, because a later one of their branch was begun, or because all of them ended.
    pub(crate) fn note_ended(&mut self, level: &Path, steps: &[Defined]) {
        let have_all_ended = self.has_ended(level);
        for (at, (step, path)) in steps.iter().enumerate() {
            if step.form == Form::Body || step.kind() == Some(Kind::Retired) {
                continue;
            }
            let follows = |(later, path): &Defined| {
                let is_after = later.branch() == step.branch();
                is_after && later.kind() != Some(Kind::Retired) && self.are_within(path)
            };
            if have_all_ended || steps[at + 1..].iter().any(follows) {
                self.ended.insert(path.clone());
            }
        }
    }

    /// Whether the sub-steps at this path, which are those of an attempt or of an iteration, ended normally in an
    /// earlier run. Then no time limit ends them any more, and an error of them contradicts the records.
    pub(crate) fn has_ended(&self, level: &Path) -> bool {
        if self.has_closed(level) {
            return true;
        }
        let has_failed = |path: &Path| self.at(path).is_some_and(|at| at.failed.is_some());
        if let Some((of_loop, index)) = iteration_at(level) {
            return self.at(&of_loop).is_some_and(|at| at.has_iterated(index))
                && !has_failed(level);
        }
        let (step, _) = attempt_of(level);
        self.ended.contains(&step) && !self.has_failed(level) && !has_failed(level)
    }

    /// Whether a step around this path ended in an earlier run, perhaps in another attempt.
    pub(crate) fn is_in_ended(&self, path: &Path) -> bool {
        self.is_closed(path) || self.ended.iter().any(|step| path.is_within(step))
    }
}

/// The loop and the index of an iteration.
fn iteration_at(path: &Path) -> Option<(Path, u64)> {
    let (of_loop, index) = path.as_str().rsplit_once('#')?;
    Some((of_loop.parse().ok()?, index.parse().ok()?))
}
