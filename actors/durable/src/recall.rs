//! How the body of a step ended in an earlier run of its flow.

use asyncsteps_core::Error;
use asyncsteps_core::replay::Replay;
use asyncsteps_executor::recorder::{Kind, OUTCOME_UNKNOWN};
use asyncsteps_journal::record::{Effect, IntentForm};

use crate::causes::recalled;
use crate::replay::{AtPath, RecordedEnd};
use crate::step::DurableStep;
use crate::stored::stored;

impl DurableStep {
    /// How the body ended in an earlier run.
    pub(crate) fn recall_body(&self) -> Replay {
        let records = self.flow.replay.borrow();
        let at = records.at(&self.path);
        let undoes = self.step.can_be_undone();
        match at.and_then(|at| at.end.as_ref()) {
            Some(RecordedEnd::Done(value)) => {
                return match self.step.read(&stored(value)) {
                    Ok(Some(result)) => Replay::Done(result),
                    Ok(None) => Replay::Nothing,
                    Err(error) => self.diverges(&format!("its result cannot be read: {error}")),
                };
            }
            Some(RecordedEnd::Failed(failed)) => {
                let undoes = undoes && failed.effect == Effect::Unknown;
                return match recalled(&self.step, &failed.failure, failed.cause.as_ref()) {
                    Ok(error) => Replay::Failed { error, undoes },
                    Err(why) => self.diverges(&format!("its error cannot be read: {why}")),
                };
            }
            None => {}
        }
        let is_open = at.is_some_and(|at| at.is_open);
        if self.flow.is_interrupted() || records.is_unwinding(&self.path) {
            return Replay::Never { undoes: false };
        }
        // a body that has begun keeps its form
        let is_once = match at.and_then(AtPath::open_form) {
            Some(form) => form == IntentForm::Once,
            None => self.step.kind() == Some(Kind::Once),
        };
        if is_open && is_once {
            drop(records);
            let info = "the step began, and it is not known how it ended";
            let error = Error::with_info(OUTCOME_UNKNOWN, info);
            self.record_failure(1, &error, Effect::Unknown);
            return Replay::Failed { error, undoes };
        }
        if is_open && undoes { Replay::Begun } else { Replay::Nothing }
    }
}
