//! How the body of a step ended in an earlier run of its flow.

use asyncsteps_core::Error;
use asyncsteps_core::replay::Replay;
use asyncsteps_executor::recorder::{Kind, OUTCOME_UNKNOWN};
use asyncsteps_journal::record::Effect;

use crate::causes::recalled;
use crate::records::{AtPath, End};
use crate::step::Step;
use crate::stored::stored;

impl Step {
    /// How the body ended in an earlier run.
    pub(crate) fn recall_body(&self) -> Replay {
        let records = self.flow.records.borrow();
        let at = records.at(self.path());
        let undoes = self.step.can_be_undone();
        match at.and_then(|at| at.end.as_ref()) {
            Some(End::Done(value)) => {
                return match self.step.read(&stored(value)) {
                    Some(Ok(result)) => Replay::Done(result),
                    Some(Err(error)) => {
                        self.diverges(&format!("its result cannot be read: {error}"))
                    }
                    None => Replay::Nothing,
                };
            }
            Some(End::Failed(failed)) => {
                let undoes = undoes && failed.effect == Effect::Unknown;
                return match recalled(&self.step, failed) {
                    Ok(error) => Replay::Failed { error, undoes },
                    Err(why) => self.diverges(&format!("its error cannot be read: {why}")),
                };
            }
            None => {}
        }
        let is_open = at.is_some_and(|at| at.is_open);
        let is_ending = self.flow.ends_around(self.path());
        let runs = if is_open && undoes { Replay::Begun } else { Replay::Nothing };
        if is_ending || records.is_unwinding(self.path()) {
            let is_over = |at: &AtPath| {
                at.timer.is_some_and(|timer| self.flow.clock().left(&timer).is_zero())
            };
            let goes_on = match self.step.kind() {
                Some(Kind::Repeatable) => self.flow.goes_on_around(self.path()),
                Some(Kind::Wait) => {
                    at.is_some_and(is_over) && self.flow.goes_on_around(self.path())
                }
                // it is undone while it holds its lock, and does not run
                _ => is_open && undoes && self.step.is_locked(),
            };
            if goes_on {
                // steps after it may have to be undone
                return runs;
            }
            if !is_ending && !is_open {
                self.flow.expects_failure(self.path(), self.step.source);
            }
            return Replay::Never { undoes: undoes && is_open };
        }
        if is_open && self.step.kind() == Some(Kind::Once) {
            drop(records);
            let info = "the step began, and it is not known how it ended";
            let error = Error::with_info(OUTCOME_UNKNOWN, info);
            self.record_failure(1, &error, Effect::Unknown);
            return Replay::Failed { error, undoes };
        }
        runs
    }
}
