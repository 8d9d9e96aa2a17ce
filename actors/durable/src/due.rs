//! When a request that a node has goes on next, as far as that is recorded.

use std::collections::BTreeMap;

use asyncsteps_journal::record::{StoredRecord, Timer};
use asyncsteps_journal::{Event, Path, Timestamp};

use crate::measured::LIMIT;

/// The end of the first wait, or of the first pause between attempts, that has not ended at `now`.
pub(crate) fn due_of(records: &[StoredRecord], now: Timestamp) -> Option<Timestamp> {
    let (mut waits, mut unwinding) = (BTreeMap::<&Path, Timestamp>::new(), Vec::new());
    for record in records.iter().map(|stored| &stored.record) {
        waits.remove(&record.path);
        // a time of day has no end
        if let Event::Timer(Timer { attempt, ends: Some(_), at }) = &record.event
            && *attempt != LIMIT
        {
            waits.insert(&record.path, *at);
        } else if matches!(record.event, Event::Unwinding(_)) {
            unwinding.push(&record.path);
        }
    }
    let goes_on = |path: &Path| !unwinding.iter().any(|outer| path.is_within(outer));
    let waits = waits.into_iter().filter(|(path, at)| *at > now && goes_on(path));
    waits.map(|(_, at)| at).min()
}
