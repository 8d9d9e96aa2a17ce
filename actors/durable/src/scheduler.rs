//! Stores the requests of schedules before their time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::{clock as process_clock, timer};
use asyncsteps_journal::{Error, POLL, Refused, Timestamp};

use crate::answered::answered;
use crate::left::JournalClock;
use crate::schedule::ScheduledRequests;
use crate::shared::DurableShared;
use crate::submit::NotSubmitted;

/// How long a node waits before it looks at the time of day again, which may be set meanwhile.
const LOOK: Duration = Duration::from_secs(60);

/// Stores the next request of each schedule, as long as a node runs. Several nodes store one.
pub(crate) async fn keep_schedules(shared: &Arc<DurableShared>, clock: &JournalClock) {
    let mut stored: HashMap<String, Timestamp> = HashMap::new();
    let mut kept = Vec::new();
    loop {
        let changed = shared.schedules_changed();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let mut wait = LOOK;
        match kept_schedules(shared).await {
            Ok(schedules) => kept = schedules,
            Err(error) => {
                tracing::warn!(%error, "the stored schedules are not read: trying again");
                wait = POLL;
            }
        }
        for scheduled in shared.schedules().iter().chain(&kept) {
            let now = clock.now();
            let Some(at) = scheduled.next_after(now) else { continue };
            let mut look = clock.until(at);
            if stored.get(scheduled.name()) != Some(&at) {
                match store(scheduled, shared, at).await {
                    Ok(()) => _ = stored.insert(scheduled.name().to_owned(), at),
                    Err(error) => {
                        let name = scheduled.name();
                        tracing::warn!(%error, name, "the next request of a schedule is not stored: trying again");
                        look = POLL;
                    }
                }
            }
            wait = wait.min(look);
        }
        tokio::select! {
            biased;
            () = changed => {}
            () = timer::sleep_until(process_clock::now() + wait) => {}
        }
    }
}

/// The schedules that the journal keeps, without those whose names the program has.
pub(crate) async fn kept_schedules(
    shared: &DurableShared,
) -> Result<Vec<ScheduledRequests>, Error> {
    let own = shared.schedules();
    let mut kept = Vec::new();
    for stored in shared.journal.schedules().await? {
        if own.iter().any(|scheduled| scheduled.name() == stored.name) {
            continue;
        }
        match ScheduledRequests::read(&stored) {
            Ok(scheduled) => kept.push(scheduled),
            Err(error) => {
                let name = stored.name;
                tracing::warn!(error, name, "a stored schedule cannot be read");
            }
        }
    }
    Ok(kept)
}

/// Stores the request that begins at this time, unless it is stored.
async fn store(
    scheduled: &ScheduledRequests,
    shared: &DurableShared,
    at: Timestamp,
) -> Result<(), NotSubmitted> {
    let Some(program) = shared.program(scheduled.template()) else { return Ok(()) };
    let submit = scheduled.request_at(at, program.version)?;
    match answered(|| shared.journal.submit(submit.clone())).await {
        // a node with another program was first
        Ok(_) | Err(Error::Refused(Refused::KeyInUse { .. })) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
