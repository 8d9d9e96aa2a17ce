//! The effects of a flow by its records, before an operator lets some of them be removed.

use std::collections::BTreeSet;

use crate::error::Refused;
use crate::id::{RecordId, Uid};
use crate::path::Path;
use crate::record::{Effect, Event, Failed, Record, StoredRecord};

/// A flow begins anew only if nothing that it did or began is left. The journal does not know which steps
/// have an undo, so each step that is recorded as begun or done needs the record of its undo.
pub(crate) fn may_begin_anew(uid: Uid, records: &[StoredRecord]) -> Result<(), Refused> {
    let mut open: BTreeSet<&Path> = BTreeSet::new();
    for Record { path, event } in records.iter().map(|stored| &stored.record) {
        if is_undo(path) {
            if matches!(event, Event::Done(_)) {
                open.retain(|effect| !undoes(path, effect));
            }
            continue;
        }
        match event {
            Event::Failed(Failed { effect: Effect::None, .. }) => {
                open.remove(path);
            }
            Event::Intent(_)
            | Event::Done(_)
            | Event::Failed(_)
            | Event::Outcome(_)
            | Event::Iteration(_) => {
                open.insert(path);
            }
            Event::Started(_)
            | Event::Timer(_)
            | Event::Signal(_)
            | Event::Keys(_)
            | Event::Unwinding(_)
            | Event::Ended(_) => {}
        }
    }
    match open.first() {
        Some(path) => Err(Refused::NotUndone { uid, path: (*path).clone() }),
        None => Ok(()),
    }
}

/// A flow goes on from a step only if it has undone nothing since: without the records of an undo it
/// would undo twice, and without the records of undone steps it would run these again.
pub(crate) fn may_go_back(
    uid: Uid,
    records: &[StoredRecord],
    without: &[RecordId],
) -> Result<(), Refused> {
    let is_about_undo =
        |Record { path, event }: &Record| is_undo(path) || matches!(event, Event::Unwinding(_));
    let last = records.iter().rev().find(|stored| is_about_undo(&stored.record));
    let Some(StoredRecord { id: last, record }) = last else { return Ok(()) };
    if without.iter().any(|id| *id != RecordId::FIRST && id <= last) {
        return Err(Refused::HasUndone { uid, path: record.path.clone() });
    }
    Ok(())
}

fn is_undo(path: &Path) -> bool {
    path.is_of_undo()
}

/// Whether an undo belongs to a step, or to the step of an item.
fn undoes(undo: &Path, effect: &Path) -> bool {
    let Some(step) = undo.as_str().strip_suffix('~') else { return false };
    let Some(rest) = effect.as_str().strip_prefix(step) else { return false };
    rest.is_empty() || rest.starts_with('@') && !rest.contains('/')
}
