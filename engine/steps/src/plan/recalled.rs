//! A step that ended in an earlier run of its flow.

use crate::error::StepResult;
use crate::replay::Replay;
use crate::stack::AsyncSteps;

/// Ends the running step as it ended before. Its undo learns what the step did then.
pub(super) fn end(recall: Replay, asi: &mut AsyncSteps) -> StepResult {
    let undo = asi.own_undo();
    match recall {
        Replay::Done(result) => {
            let result = match undo {
                Some(undo) => undo.complete(result),
                None => result,
            };
            asi.success(result)
        }
        Replay::Failed { error, undoes } => {
            if let Some(undo) = undo.filter(|_| undoes) {
                undo.set_unknown();
            }
            Err(error.into())
        }
        Replay::Never { undoes } => {
            if let Some(undo) = undo.filter(|_| undoes) {
                undo.set_unknown();
            }
            asi.wait_only();
            Ok(())
        }
        Replay::Nothing | Replay::Begun => Ok(()),
    }
}
