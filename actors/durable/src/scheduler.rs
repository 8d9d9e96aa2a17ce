//! Stores the requests of schedules before their time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::{clock as process_clock, timer};
use asyncsteps_journal::limits::BATCH;
use asyncsteps_journal::request::{CancelledBy, FirstOwner, FlowInfo, Query, Submitted};
use asyncsteps_journal::{Epoch, Error, POLL, Refused, Timestamp, Uid};

use crate::answered::answered;
use crate::figures::ScheduledRequest;
use crate::left::JournalClock;
use crate::schedule::{ScheduledRequests, time_of};
use crate::shared::DurableShared;
use crate::submit::NotSubmitted;

/// How long a node waits before it looks at the time of day again, which may be set meanwhile.
const LOOK: Duration = Duration::from_secs(60);

/// The request of a schedule that is stored before its time.
struct NextRequest {
    at: Timestamp,
    revision: Option<String>,
    /// `None` if the function is not one of this program.
    uid: Option<Uid>,
}

impl NextRequest {
    fn is_of(&self, scheduled: &ScheduledRequests) -> bool {
        self.revision.as_deref() == scheduled.revision()
    }
}

/// Stores the next request of each schedule, as long as a node runs. Several nodes store one. The stored requests of
/// schedules that were replaced or removed are cancelled, unless they have begun.
pub(crate) async fn keep_schedules(shared: &Arc<DurableShared>, clock: &JournalClock) {
    let mut stored = BTreeMap::new();
    let mut all = shared.schedules();
    loop {
        let changed = shared.schedules_changed();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let mut wait = LOOK;
        match shared.all_schedules().await {
            Ok(read) => all = read,
            Err(error) => {
                tracing::warn!(%error, "the stored schedules are not read: trying again");
                wait = POLL;
            }
        }
        if !cancel_replaced(shared, &all, &mut stored).await {
            wait = POLL;
        }
        for scheduled in &all {
            let now = clock.now();
            if scheduled.is_paused() {
                continue;
            }
            let Some(at) = scheduled.next_after(now) else { continue };
            let mut look = clock.until(at);
            if stored.get(scheduled.name()).map(|next| next.at) != Some(at) {
                let owner = (FirstOwner::AnyFrom(scheduled.due(at)), false);
                match store(scheduled, shared, at, owner).await {
                    Ok(uid) => {
                        let revision = scheduled.revision().map(str::to_owned);
                        if let Some(uid) = uid {
                            let function = scheduled.template().to_owned();
                            let at = scheduled.due(at);
                            let request = ScheduledRequest { function, at, uid };
                            shared.figures.stored(scheduled.name(), request);
                        }
                        let next = NextRequest { at, revision, uid };
                        stored.insert(scheduled.name().to_owned(), next);
                    }
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

/// Cancels the requests that were stored for schedules which are not among these any more, unless they have begun;
/// returns whether all of that is done.
async fn cancel_replaced(
    shared: &DurableShared,
    all: &[Arc<ScheduledRequests>],
    stored: &mut BTreeMap<String, NextRequest>,
) -> bool {
    let current: HashMap<_, _> = all.iter().map(|it| (it.name(), it)).collect();
    let is_replaced = |name: &str, next: &NextRequest| {
        current.get(name).is_none_or(|scheduled| !next.is_of(scheduled))
    };
    let replaced = stored.iter().filter(|(name, next)| is_replaced(name, next));
    let replaced: Vec<_> = replaced.map(|(name, next)| (name.clone(), next.uid)).collect();
    let mut is_done = true;
    for (name, uid) in replaced {
        match cancel(shared, &name, uid).await {
            Ok(()) => _ = stored.remove(&name),
            Err(error) => {
                tracing::warn!(%error, name, "the next request of a replaced schedule is not cancelled: trying again");
                is_done = false;
            }
        }
    }
    is_done
}

/// Cancels the requests of a schedule which is replaced or removed, unless they have begun: the node that stored them may
/// end before it does so. It is called before the schedule changes, for when this process ends then, and after it, for
/// what other nodes stored meanwhile.
pub(crate) async fn end(
    shared: &DurableShared,
    scheduled: Option<&ScheduledRequests>,
) -> Result<(), Error> {
    let Some(scheduled) = scheduled else { return Ok(()) };
    let query =
        Query { open: true, scope: Some(scheduled.scope()), limit: BATCH, ..Query::default() };
    let is_of = |flow: &FlowInfo| {
        time_of(flow).is_some_and(|(_, revision)| revision == scheduled.revision())
    };
    for flow in shared.journal.list(query).await?.into_iter().filter(is_of) {
        cancel_unbegun(shared, scheduled.name(), &flow).await?;
    }
    Ok(())
}

async fn cancel(shared: &DurableShared, name: &str, uid: Option<Uid>) -> Result<(), Error> {
    let Some(uid) = uid else { return Ok(()) };
    match shared.journal.status(uid).await {
        Ok(status) => cancel_unbegun(shared, name, &status.flow).await,
        // it was trimmed meanwhile
        Err(Error::Refused(Refused::NoFlow(_))) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn cancel_unbegun(shared: &DurableShared, name: &str, flow: &FlowInfo) -> Result<(), Error> {
    // no node has claimed it
    if flow.epoch == Epoch::new(0) {
        let by = CancelledBy::Person(format!("the end of the schedule {name}"));
        answered(|| shared.journal.cancel(flow.uid, by.clone(), None)).await?;
    }
    Ok(())
}

/// Stores the request of this time, which is asked for or not, unless it is stored; returns its uid, if this program has its function.
pub(crate) async fn store(
    scheduled: &ScheduledRequests,
    shared: &DurableShared,
    at: Timestamp,
    owner: (FirstOwner, bool),
) -> Result<Option<Uid>, NotSubmitted> {
    let Some(program) = shared.program(scheduled.template()) else { return Ok(None) };
    let submit = scheduled.request_at(at, program.version, owner)?;
    match answered(|| shared.journal.submit(submit.clone())).await {
        // a node with another program was first
        Ok(Submitted::Known(uid)) | Err(Error::Refused(Refused::KeyInUse { uid, .. })) => {
            Ok(Some(uid))
        }
        Ok(Submitted::New | _) => Ok(Some(submit.uid)),
        Err(error) => Err(error.into()),
    }
}
