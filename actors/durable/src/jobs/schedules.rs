//! The functions of `asyncsteps.jobs:1.0` for schedules.

use std::collections::BTreeMap;
use std::iter::successors;
use std::time::Duration;

use asyncsteps_core::{BodyResult, Error, StepError, codes};
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Functions};
use asyncsteps_journal::{Timestamp, Uid};

use super::allowed::JobsFunction;
use super::params::{
    Backfill, BackfilledJobs, DeclaredSchedule, NamedSchedule, SchedulesPage, StoredJobSchedule,
    SubmittedJob, time, whole,
};
use super::service::{Jobs, JobsError, limit};
use super::types::{JobSchedule, JobSchedules, number};
use crate::answered::{answered, answered_or_lost};
use crate::caller::Origin;
use crate::durable::Durable;
use crate::schedule::{Schedule, ScheduledRequests, WrongSchedule};
use crate::scheduler::end;
use crate::schedules::NotScheduled;
use crate::submit::{NotSubmitted, error_of_submit};

/// Longer than any that says something.
const LONGEST_CRON: usize = 256;

/// Bytes of the schedules of a page: half of the answer that a caller takes unless it says otherwise.
const PAGE: usize = 32 << 10;

impl Jobs {
    pub(super) fn declare_schedules(interface: &mut Interface, operators: SecurityLevel) {
        let schedules = interface.function::<SchedulesPage, JobSchedules>("schedules");
        schedules.seclvl(operators).throws([""; 0]);
        let schedule = interface.function::<DeclaredSchedule, StoredJobSchedule>("schedule");
        let refusals = ["NotDurable", "WrongSchedule", "DeclaredByProgram"];
        schedule.seclvl(operators).throws(refusals);
        let unschedule = interface.function::<NamedSchedule, bool>("unschedule");
        unschedule.seclvl(operators).throws(["UnknownSchedule", "DeclaredByProgram"]);
        for name in ["pauseSchedule", "resumeSchedule"] {
            let changed = interface.function::<NamedSchedule, bool>(name);
            changed.seclvl(operators).throws(["UnknownSchedule"]);
        }
        let trigger = interface.function::<NamedSchedule, SubmittedJob>("triggerSchedule");
        trigger.seclvl(operators).throws(["UnknownSchedule", "NotDurable"]);
        let backfill = interface.function::<Backfill, BackfilledJobs>("backfillSchedule");
        backfill.seclvl(operators).throws(["UnknownSchedule", "NotDurable", "TooManyTimes"]);
    }

    pub(super) fn define_schedules(functions: &mut Functions<Self>) {
        functions
            .on("schedules", Self::schedules)
            .on("schedule", Self::schedule)
            .on("unschedule", Self::unschedule)
            .on("pauseSchedule", Self::pause_schedule)
            .on("resumeSchedule", Self::resume_schedule)
            .on("triggerSchedule", Self::trigger_schedule)
            .on("backfillSchedule", Self::backfill_schedule);
    }

    async fn schedules(cx: &Cx<Self, SchedulesPage>) -> BodyResult<JobSchedules> {
        let SchedulesPage { after, most } = &*cx.params;
        let shared = &cx.durable.shared;
        let kept = shared.kept_schedules().await?;
        let own = shared.schedules();
        let own = own.iter().map(|scheduled| (scheduled, true));
        let all = own.chain(kept.iter().map(|scheduled| (scheduled, false)));
        let by_name: BTreeMap<_, _> = all
            .filter(|(scheduled, _)| after.as_deref().is_none_or(|after| scheduled.name() > after))
            .map(|(scheduled, by_program)| (scheduled.name(), (scheduled, by_program)))
            .collect();
        let limit = limit(*most);
        let (mut schedules, mut bytes) = (Vec::new(), 0);
        for (scheduled, by_program) in by_name.values().take(limit) {
            let schedule = shown(&cx.durable, scheduled, *by_program).await?;
            bytes += serde_json::to_string(&schedule)?.len();
            if bytes > PAGE && !schedules.is_empty() {
                break;
            }
            schedules.push(schedule);
        }
        let last = schedules.last().filter(|_| by_name.len() > schedules.len());
        let next = last.map(|last| last.name.clone()).unwrap_or_default();
        Ok(JobSchedules { schedules, next })
    }

    async fn schedule(cx: &Cx<Self, DeclaredSchedule>) -> BodyResult<StoredJobSchedule> {
        cx.check(JobsFunction::Schedule)?;
        let DeclaredSchedule { name, function, params, cron, .. } = &*cx.params;
        check_name(&cx.durable, name)?;
        if name.chars().any(char::is_control) {
            let info = "the name of a schedule has no control characters";
            return Err(Error::with_info(codes::INVALID_REQUEST, info).into());
        }
        if cron.len() > LONGEST_CRON {
            let text = format!("a cron expression has at most {LONGEST_CRON} bytes");
            return Err(JobsError::WrongSchedule(text).into());
        }
        let schedule = declared(&cx.params)
            .map_err(|error| JobsError::WrongSchedule(error.to_string()))?
            .caller(cx.request().caller());
        let origin = Some(Origin::of(cx.request().channel()));
        let scheduled = cx.durable.scheduled(schedule, function, params, origin);
        let scheduled = match scheduled.and_then(ScheduledRequests::revised) {
            Ok(scheduled) => scheduled,
            Err(NotSubmitted::NoFunction(name)) => return Err(JobsError::NotDurable(name).into()),
            Err(error) => return Err(error_of_submit(&error).into()),
        };
        let stored = scheduled.write(false, false)?;
        let shared = &cx.durable.shared;
        let before = shared.kept_schedule(name).await?;
        // for when this process ends before it cancels, and once more for what other nodes stored meanwhile
        end(shared, before.as_deref()).await?;
        if let Err(error) = answered(|| shared.journal.put_schedule(stored.clone())).await {
            return Err(error_of_submit(&error.into()).into());
        }
        end(shared, before.as_deref()).await?;
        shared.tell_schedules_changed();
        Ok(StoredJobSchedule { schedule: shown(&cx.durable, &scheduled, false).await? })
    }

    async fn unschedule(cx: &Cx<Self, NamedSchedule>) -> BodyResult<bool> {
        cx.check(JobsFunction::Unschedule)?;
        let name = &cx.params.name;
        check_name(&cx.durable, name)?;
        let shared = &cx.durable.shared;
        let before = shared.kept_schedule(name).await?;
        end(shared, before.as_deref()).await?;
        let (removed, was_lost) =
            answered_or_lost(|| shared.journal.remove_schedule(name.clone())).await;
        match removed? || was_lost {
            true => {
                end(shared, before.as_deref()).await?;
                shared.tell_schedules_changed();
                Ok(true)
            }
            false => Err(JobsError::UnknownSchedule(name.clone()).into()),
        }
    }

    async fn pause_schedule(cx: &Cx<Self, NamedSchedule>) -> BodyResult<bool> {
        cx.check(JobsFunction::PauseSchedule)?;
        let paused = cx.durable.pause_schedule(&cx.params.name).await;
        paused.map(|()| true).map_err(not_scheduled)
    }

    async fn resume_schedule(cx: &Cx<Self, NamedSchedule>) -> BodyResult<bool> {
        cx.check(JobsFunction::ResumeSchedule)?;
        let resumed = cx.durable.resume_schedule(&cx.params.name).await;
        resumed.map(|()| true).map_err(not_scheduled)
    }

    async fn trigger_schedule(cx: &Cx<Self, NamedSchedule>) -> BodyResult<SubmittedJob> {
        cx.check(JobsFunction::TriggerSchedule)?;
        let uid = cx.durable.trigger_schedule(&cx.params.name).await.map_err(not_scheduled)?;
        Ok(SubmittedJob { uid: uid.to_string() })
    }

    async fn backfill_schedule(cx: &Cx<Self, Backfill>) -> BodyResult<BackfilledJobs> {
        cx.check(JobsFunction::BackfillSchedule)?;
        let Backfill { name, from, until } = &*cx.params;
        let begun = cx.durable.backfill_schedule(name, time(*from), time(*until)).await;
        let uids = begun.map_err(not_scheduled)?.iter().map(Uid::to_string).collect();
        Ok(BackfilledJobs { uids })
    }
}

/// The schedule that an operator declares.
fn declared(declared: &DeclaredSchedule) -> Result<Schedule, WrongSchedule> {
    let millis = |time| Duration::from_millis(whole(time));
    let schedule = Schedule::new(declared.name.clone(), &declared.cron)?
        .overlap(declared.overlap.unwrap_or_default())
        .jitter(millis(declared.jitter));
    let schedule = match declared.catch_up {
        Some(_) => schedule.catch_up(millis(declared.catch_up)),
        None => schedule,
    };
    declared.time_zone.as_deref().map_or(Ok(schedule.clone()), |zone| schedule.time_zone(zone))
}

/// The error of a caller for whom nothing was done with a schedule.
fn not_scheduled(error: NotScheduled) -> StepError {
    match error {
        NotScheduled::NoSchedule(name) => JobsError::UnknownSchedule(name).into(),
        error @ NotScheduled::TooManyTimes(_) => JobsError::TooManyTimes(error.to_string()).into(),
        NotScheduled::NotSubmitted(NotSubmitted::NoFunction(name)) => {
            JobsError::NotDurable(name).into()
        }
        NotScheduled::NotSubmitted(error) => error_of_submit(&error).into(),
    }
}

/// Refuses the names of schedules that the program declares: it would declare them again.
fn check_name(durable: &Durable, name: &str) -> BodyResult<()> {
    match durable.shared.declares(name) {
        true => Err(JobsError::DeclaredByProgram(name.to_owned()).into()),
        false => Ok(()),
    }
}

async fn shown(
    durable: &Durable,
    scheduled: &ScheduledRequests,
    by_program: bool,
) -> BodyResult<JobSchedule> {
    let next = |at: &Timestamp| scheduled.next_after(*at);
    let times = successors(next(&durable.shared.now()), next);
    let times: Vec<_> = times.take(3).map(|at| number(scheduled.due(at))).collect();
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let last = durable.last_times(scheduled).await?;
    Ok(JobSchedule {
        name: scheduled.name().to_owned(),
        function: scheduled.template().to_owned(),
        cron: scheduled.expression().to_owned(),
        time_zone: scheduled.time_zone().to_owned(),
        user: scheduled.user().map(|user| user.local_id().to_owned()),
        next: times.first().copied().filter(|_| !scheduled.is_paused()),
        times: times.into_iter().filter(|_| !scheduled.is_paused()).collect(),
        overlap: scheduled.overlap(),
        catch_up: scheduled.catch_up().map(millis),
        jitter: millis(scheduled.jitter()),
        paused: scheduled.is_paused(),
        last: last.begun.map(number),
        skipped: last.skipped,
        by_program,
    })
}
