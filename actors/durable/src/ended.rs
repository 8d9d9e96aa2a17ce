//! Which steps with sub-steps ended normally in an earlier run. This is recorded for steps within a time limit; for
//! others, the records of later steps show it.

use asyncsteps_executor::plan::{Form, StepView};
use asyncsteps_executor::recorder::Kind;
use asyncsteps_journal::Path;

use crate::inside;
use crate::marks::attempt_of;
use crate::replay::Replay;
use crate::step::WITHIN;

impl Replay {
    /// Steps begin together at this path: notes which of those with sub-steps ended normally in an earlier
    /// run, because a later one of their way was begun, or because all of them ended.
    pub(crate) fn note_ended(&mut self, level: &Path, ways: &[Vec<StepView>]) {
        let have_all_ended = self.has_ended(level);
        let is_retired = |step: &StepView| step.kind() == Some(Kind::Retired);
        for way in ways {
            // from the last one to the first
            let mut is_passed = have_all_ended;
            for step in way.iter().rev().filter(|step| !is_retired(step)) {
                let (_, path) = self.place_of(level, step);
                let is_begun = self.are_within(&path);
                if is_passed && step.form() != Form::Body {
                    self.levels.at(path).is_passed = true;
                }
                is_passed |= is_begun;
            }
        }
    }

    /// Whether the sub-steps at this path, of an attempt or of an iteration, ended normally in an earlier run. Then no
    /// time limit ends them any more, and an error in them contradicts the records.
    pub(crate) fn has_ended(&self, level: &Path) -> bool {
        if self.levels.is(level, |level| level.is_over || level.is_closed) {
            return true;
        }
        let has_failed = |path: &Path| self.at(path).is_some_and(|at| at.failed.is_some());
        if let Some((of_loop, index)) = iteration_at(level) {
            return self.at(&of_loop).is_some_and(|at| at.has_iterated(index))
                && !has_failed(level);
        }
        let (step, _) = attempt_of(level);
        self.levels.is(&step, |level| level.is_passed)
            && !self.has_failed(level)
            && !has_failed(level)
    }

    /// Whether the normal end of the sub-steps at this path has to be recorded: they have a time limit, or the step
    /// that they are of.
    pub(crate) fn needs_end(&self, level: &Path) -> bool {
        let (step, _) = attempt_of(level);
        let limits = [level.clone(), level.branch(inside::LIMIT), step.branch(WITHIN)];
        let is_limited =
            limits.iter().any(|path| self.at(path).is_some_and(|at| at.timer.is_some()));
        is_limited && !self.levels.is(level, |level| level.is_over)
    }

    /// Whether a step around this path ended in an earlier run, perhaps in another attempt.
    pub(crate) fn is_in_ended(&self, path: &Path) -> bool {
        let mut around = self.levels.around(path);
        self.is_closed(path) || around.any(|(_, level, _)| level.is_over || level.is_passed)
    }
}

/// The loop and the index of an iteration.
fn iteration_at(path: &Path) -> Option<(Path, u64)> {
    let (of_loop, index) = path.as_str().rsplit_once('#')?;
    Some((of_loop.parse().ok()?, index.parse().ok()?))
}
