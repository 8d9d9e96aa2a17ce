//! What operators do with schedules: pause, resume, begin a request now, or for times that were lost.

use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{CallerKey, FirstOwner};
use asyncsteps_journal::{Epoch, Error, Timestamp, Uid};

use crate::answered::answered;
use crate::durable::Durable;
use crate::schedule::{SKIPPED, ScheduledRequests};
use crate::scheduler::store;
use crate::submit::NotSubmitted;

/// For how many times of a schedule one [backfill](Durable::backfill_schedule) begins requests at the most.
pub const BACKFILL: usize = 100;

/// How many of the last times of a schedule are looked at for what became of them.
const LAST_TIMES: usize = 20;

/// Why something was not done with a schedule.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotScheduled {
    /// Neither the program nor the journal has a schedule of this name.
    #[error("there is no schedule {0}")]
    NoSchedule(String),
    /// The schedule has more times in the range than one backfill begins.
    #[error("the schedule {0} has more than {BACKFILL} times in this range")]
    TooManyTimes(String),
    /// A request, or the change, is not stored.
    #[error(transparent)]
    NotSubmitted(#[from] NotSubmitted),
}

impl From<Error> for NotScheduled {
    fn from(error: Error) -> Self {
        Self::NotSubmitted(error.into())
    }
}

/// What became of the last times of a schedule.
#[derive(Default)]
pub(crate) struct LastTimes {
    /// The last one for which a request has begun.
    pub(crate) begun: Option<Timestamp>,
    /// How many since then were skipped.
    pub(crate) skipped: u32,
}

impl Durable {
    /// Pauses a schedule: no request of it begins at its times until it is [resumed](Self::resume_schedule), whichever
    /// node would begin it, also not the one that is stored already; times that pass meanwhile are lost. The journal
    /// keeps that, also for a schedule of the program. What has begun goes on.
    ///
    /// # Errors
    /// If there is no such schedule, or the errors of the journal.
    pub async fn pause_schedule(&self, name: &str) -> Result<(), NotScheduled> {
        self.set_paused(name, true).await
    }

    /// Lets a schedule go on, from its next time.
    ///
    /// # Errors
    /// The errors of [`pause_schedule`](Self::pause_schedule).
    pub async fn resume_schedule(&self, name: &str) -> Result<(), NotScheduled> {
        self.set_paused(name, false).await
    }

    async fn set_paused(&self, name: &str, is_paused: bool) -> Result<(), NotScheduled> {
        let scheduled = self.schedule_named(name).await?;
        let stored =
            scheduled.write(is_paused, self.shared.declares(name)).map_err(NotSubmitted::from)?;
        answered(|| self.shared.journal.put_schedule(stored.clone())).await?;
        // nodes of this process know it at once
        self.shared.kept_schedules().await?;
        self.shared.tell_schedules_changed();
        Ok(())
    }

    /// Begins a request of a schedule now, also of one that is paused; returns its name. Unless requests may
    /// [overlap](crate::Schedule::overlap), it waits for the end of those before it.
    ///
    /// # Errors
    /// If there is no such schedule, or the request is not stored.
    pub async fn trigger_schedule(&self, name: &str) -> Result<Uid, NotScheduled> {
        let scheduled = self.schedule_named(name).await?;
        self.begin(&scheduled, self.shared.now()).await
    }

    /// Begins the requests of the times of a schedule in a range that has passed, both ends included, which were lost:
    /// because no node ran, it was paused, or they were skipped. Returns the names of all requests of the range: one that
    /// has begun already does not begin again, as long as the journal remembers it. Unless requests may
    /// [overlap](crate::Schedule::overlap), they begin one after the other.
    ///
    /// # Errors
    /// If there is no such schedule, it has more than [`BACKFILL`] times in the range, or a request is not stored; those
    /// before it are then.
    pub async fn backfill_schedule(
        &self,
        name: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Uid>, NotScheduled> {
        let scheduled = self.schedule_named(name).await?;
        let until = until.min(self.shared.now());
        let before = Timestamp::from_millis(from.as_millis().saturating_sub(1));
        let next = |time: &Timestamp| scheduled.next_after(*time).filter(|next| *next <= until);
        let times: Vec<_> = successors(next(&before), next).take(BACKFILL + 1).collect();
        if times.len() > BACKFILL {
            return Err(NotScheduled::TooManyTimes(name.to_owned()));
        }
        let mut uids = Vec::new();
        for at in times {
            let mut uid = self.begin(&scheduled, at).await?;
            if is_skipped(self.shared.journal.status(uid).await?.ending.as_ref()) {
                answered(|| self.shared.journal.remove(vec![uid])).await?;
                uid = self.begin(&scheduled, at).await?;
            }
            uids.push(uid);
        }
        Ok(uids)
    }

    async fn begin(
        &self,
        scheduled: &ScheduledRequests,
        at: Timestamp,
    ) -> Result<Uid, NotScheduled> {
        let stored = store(scheduled, &self.shared, at, (FirstOwner::Any, true)).await?;
        let unknown = || NotSubmitted::NoFunction(scheduled.template().to_owned());
        Ok(stored.ok_or_else(unknown)?)
    }

    /// The schedule of this name, of the program or in the journal.
    async fn schedule_named(&self, name: &str) -> Result<Arc<ScheduledRequests>, NotScheduled> {
        let mut all = self.shared.all_schedules().await?.into_iter();
        let found = all.find(|scheduled| scheduled.name() == name);
        found.ok_or_else(|| NotScheduled::NoSchedule(name.to_owned()))
    }

    /// What became of the last times of a schedule.
    pub(crate) async fn last_times(
        &self,
        scheduled: &ScheduledRequests,
    ) -> Result<LastTimes, Error> {
        let before = |at: Timestamp| {
            let before = at.as_millis().saturating_sub(1);
            scheduled.last_until(Timestamp::from_millis(before))
        };
        let now = self.shared.now().after(Duration::from_millis(1));
        let times: Vec<_> = successors(before(now), |at| before(*at)).take(LAST_TIMES).collect();
        let mut last = LastTimes::default();
        for at in times {
            let key = CallerKey { scope: scheduled.scope(), key: scheduled.key_at(at) };
            let Some(uid) = self.shared.journal.find(key).await? else { continue };
            let status = self.shared.journal.status(uid).await?;
            if is_skipped(status.ending.as_ref()) {
                last.skipped += 1;
            } else if status.flow.epoch > Epoch::new(0) {
                return Ok(LastTimes { begun: Some(at), ..last });
            }
        }
        Ok(last)
    }
}

fn is_skipped(ending: Option<&Ending>) -> bool {
    matches!(ending, Some(Ending::Failed(failure)) if failure.code == SKIPPED)
}
