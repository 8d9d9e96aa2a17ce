//! Whether a request of a schedule begins when its time has come.

use std::time::Duration;

use asyncsteps_journal::limits::BATCH;
use asyncsteps_journal::record::{Ending, Failure};
use asyncsteps_journal::request::{FirstOwner, FlowInfo, FlowState, Query};
use asyncsteps_journal::{Error, Timestamp};

use crate::flow::DurableFlow;
use crate::schedule::{Overlap, SKIPPED, ScheduledRequests, scope_of, time_of};
use crate::scheduler::store;
use crate::shared::DurableShared;

/// How often a request that waits for its turn looks whether those before it have ended, if none of these wakes it.
const LOOK: Duration = Duration::from_secs(60);

/// The turn of a request.
pub(crate) enum ScheduleTurn {
    /// It begins, or goes on.
    Begins,
    /// It ends with [`SKIPPED`], for this reason.
    Skipped(String),
    /// It waits for so long, and looks again.
    Waits(Duration),
}

impl ScheduleTurn {
    /// How a request ends that is skipped for this reason.
    pub(crate) fn skipped(reason: String) -> Ending {
        Ending::Failed(Failure { code: SKIPPED.to_owned(), text: Some(reason) })
    }
}

impl ScheduleTurn {
    /// Whether a request begins that this schedule has stored. Its owner decides, with the epoch that no other node
    /// has, so whatever it decides happens once.
    ///
    /// A request that was asked for makes up for others, or an operator has begun it. It waits for its turn where others are
    /// skipped.
    pub(crate) async fn of(
        shared: &DurableShared,
        flow: &DurableFlow,
        schedule: &str,
    ) -> Result<Self, Error> {
        let journal = &shared.journal;
        let own = Query { uid: Some(flow.owned.uid()), limit: 1, ..Query::default() };
        let Some(own) = journal.list(own).await?.pop() else { return Ok(Self::Begins) };
        let Some((at, revision)) = time_of(&own) else { return Ok(Self::Begins) };
        let skipped = |reason: String| Ok(Self::Skipped(reason));
        let Some(scheduled) = shared.schedule(schedule, revision).await? else {
            return match revision {
                Some(_) => skipped(format!("the schedule {schedule} is removed")),
                // the program of another node declares it
                None => Ok(Self::Begins),
            };
        };
        if revision.is_some() && revision != scheduled.revision() {
            return skipped(format!("the schedule {schedule} is replaced"));
        }
        let (now, was_asked_for) = (shared.now(), flow.is_asked_for);
        if !was_asked_for && scheduled.is_paused() {
            return skipped(format!("the schedule {schedule} is paused"));
        }
        let latest = scheduled.catch_up().map(|most| scheduled.due(at).after(most));
        if !was_asked_for && latest.is_some_and(|latest| latest < now) {
            make_up(shared, &scheduled, at, now).await;
            return skipped("no node ran at its time, and it is too late".to_owned());
        }
        let open =
            Query { open: true, scope: Some(scheduled.scope()), limit: BATCH, ..Query::default() };
        let open = journal.list(open).await?;
        let is_before = |other: &&FlowInfo| time_of(other).is_some_and(|(time, _)| time < at);
        let before = open.iter().filter(is_before).count();
        let most = shared.settings.lock().waiting_per_caller.min(BATCH as u64);
        match (before, scheduled.overlap()) {
            (0, _) => Ok(Self::Begins),
            (_, Overlap::Allow) if (before as u64) < most => Ok(Self::Begins),
            (1, Overlap::BufferOne) => Ok(Self::Waits(LOOK)),
            _ if was_asked_for => Ok(Self::Waits(LOOK)),
            _ => skipped(format!("an earlier request of the schedule {schedule} has not ended")),
        }
    }
}

/// Stores the request of the last time that has passed, if it is not too late for that one too.
async fn make_up(
    shared: &DurableShared,
    scheduled: &ScheduledRequests,
    at: Timestamp,
    now: Timestamp,
) {
    let Some(last) = scheduled.last_until(now).filter(|last| *last > at) else { return };
    let is_late = |most| scheduled.due(last).after(most) < now;
    if scheduled.catch_up().is_some_and(is_late) {
        return;
    }
    if let Err(error) = store(scheduled, shared, last, (FirstOwner::Any, true)).await {
        let name = scheduled.name();
        tracing::warn!(%error, name, "the request that makes up for others is not stored");
    }
}

/// A request has ended: wakes the first one of its schedule that waits, for its turn or for something else.
pub(crate) async fn wake_next(flow: &DurableFlow) {
    let Some(schedule) = &flow.schedule else { return };
    let open =
        Query { open: true, scope: Some(scope_of(schedule)), limit: BATCH, ..Query::default() };
    let Ok(open) = flow.shared.journal.list(open).await else { return };
    let parked = open.iter().filter(|other| other.state == FlowState::Parked);
    if let Some(next) = parked.min_by_key(|other| time_of(other).map(|(time, _)| time)) {
        flow.wake(next.uid).await;
    }
}
