//! A step that ended in an earlier run of its flow.

use crate::error::StepResult;
use crate::replay::Replay;
use crate::stack::{AsyncSteps, Undoable};

/// Ends the running step as it ended before. Its undo is told what the step did then.
pub(super) fn end(recall: Replay, undo: Option<&dyn Undoable>, asi: &mut AsyncSteps) -> StepResult {
    let undo_unknown = |undoes: bool| {
        if let Some(undo) = undo.filter(|_| undoes) {
            undo.begin();
        }
    };
    match recall {
        Replay::Done(result) => {
            let result = match undo {
                Some(undo) => {
                    undo.begin();
                    undo.complete(result)
                }
                None => result,
            };
            asi.success(result)
        }
        Replay::Failed { error, undoes } => {
            undo_unknown(undoes);
            Err(error.into())
        }
        Replay::Never { undoes } => {
            undo_unknown(undoes);
            asi.wait_only();
            Ok(())
        }
        Replay::Nothing | Replay::Begun => Ok(()),
    }
}
