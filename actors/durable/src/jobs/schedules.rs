//! The functions of `asyncsteps.jobs:1.0` for schedules.

use std::collections::BTreeMap;

use asyncsteps_core::{BodyResult, Error, codes};
use asyncsteps_executor::Cx;

use super::allowed::JobsFunction;
use super::params::{DeclaredSchedule, NamedSchedule, SchedulesPage, StoredJobSchedule};
use super::service::{Jobs, JobsError, limit};
use super::types::{JobSchedule, JobSchedules, number};
use crate::answered::{answered, answered_or_lost};
use crate::caller::Origin;
use crate::durable::Durable;
use crate::schedule::{Schedule, ScheduledRequests};
use crate::scheduler::end;
use crate::submit::{NotSubmitted, error_of_submit};

/// Longer than any that says something.
const LONGEST_CRON: usize = 256;

/// Bytes of the schedules of a page: half of the answer that a caller takes unless it says otherwise.
const PAGE: usize = 32 << 10;

impl Jobs {
    pub(super) async fn schedules(cx: &Cx<Self, SchedulesPage>) -> BodyResult<JobSchedules> {
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
            let schedule = shown(&cx.durable, scheduled, *by_program);
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

    pub(super) async fn schedule(cx: &Cx<Self, DeclaredSchedule>) -> BodyResult<StoredJobSchedule> {
        cx.check(JobsFunction::Schedule)?;
        let DeclaredSchedule { name, function, params, cron, time_zone } = &*cx.params;
        check_name(&cx.durable, name)?;
        if name.chars().any(char::is_control) {
            let info = "the name of a schedule has no control characters";
            return Err(Error::with_info(codes::INVALID_REQUEST, info).into());
        }
        if cron.len() > LONGEST_CRON {
            let text = format!("a cron expression has at most {LONGEST_CRON} bytes");
            return Err(JobsError::WrongSchedule(text).into());
        }
        let schedule = Schedule::new(name.clone(), cron)
            .and_then(|schedule| match time_zone {
                Some(zone) => schedule.time_zone(zone),
                None => Ok(schedule),
            })
            .map_err(|error| JobsError::WrongSchedule(error.to_string()))?;
        let schedule = schedule.caller(cx.request().caller());
        let origin = Some(Origin::of(cx.request().channel()));
        let scheduled = cx.durable.scheduled(schedule, function, params, origin);
        let scheduled = match scheduled.and_then(ScheduledRequests::revised) {
            Ok(scheduled) => scheduled,
            Err(NotSubmitted::NoFunction(name)) => return Err(JobsError::NotDurable(name).into()),
            Err(error) => return Err(error_of_submit(&error).into()),
        };
        let stored = scheduled.write()?;
        let shared = &cx.durable.shared;
        let before = shared.kept_schedule(name).await?;
        // for when this process ends before it cancels, and once more for what other nodes stored meanwhile
        end(shared, before.as_deref()).await?;
        if let Err(error) = answered(|| shared.journal.put_schedule(stored.clone())).await {
            return Err(error_of_submit(&error.into()).into());
        }
        end(shared, before.as_deref()).await?;
        shared.tell_schedules_changed();
        Ok(StoredJobSchedule { schedule: shown(&cx.durable, &scheduled, false) })
    }

    pub(super) async fn unschedule(cx: &Cx<Self, NamedSchedule>) -> BodyResult<bool> {
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
}

/// Refuses the names of schedules that the program declares: it would declare them again.
fn check_name(durable: &Durable, name: &str) -> BodyResult<()> {
    match durable.shared.schedules().iter().any(|scheduled| scheduled.name() == name) {
        true => Err(JobsError::DeclaredByProgram(name.to_owned()).into()),
        false => Ok(()),
    }
}

fn shown(durable: &Durable, scheduled: &ScheduledRequests, by_program: bool) -> JobSchedule {
    JobSchedule {
        name: scheduled.name().to_owned(),
        function: scheduled.template().to_owned(),
        cron: scheduled.expression().to_owned(),
        time_zone: scheduled.time_zone().to_owned(),
        user: scheduled.user().map(|user| user.local_id().to_owned()),
        next: scheduled.next_after(durable.shared.now()).map(number),
        by_program,
    }
}
