//! The functions of `asyncsteps.jobs:1.0` that change many jobs at once.

use asyncsteps_core::{BodyResult, Error, codes};
use asyncsteps_executor::Cx;
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::typed::Interface;
use asyncsteps_journal::Uid;
use asyncsteps_journal::limits::{BATCH, COUNTED};

use super::allowed::JobsFunction;
use super::params::BulkFilter;
use super::service::{Jobs, MOST, name_of, next, query_of, seen, sees_all};
use super::types::JobsChanged;
use crate::bulk::Bulk;

impl Jobs {
    pub(super) fn declare_bulk(
        interface: &mut Interface,
        callers: SecurityLevel,
        operators: SecurityLevel,
    ) {
        for (name, level) in
            [("cancelAll", callers), ("resumeAll", operators), ("purge", operators)]
        {
            interface.function::<BulkFilter, JobsChanged>(name).seclvl(level).throws([""; 0]);
        }
    }

    pub(super) async fn cancel_all(cx: &Cx<Self, BulkFilter>) -> BodyResult<JobsChanged> {
        cx.check(JobsFunction::Cancel)?;
        bulk(cx, &Bulk::Cancel(name_of(cx))).await
    }

    pub(super) async fn resume_all(cx: &Cx<Self, BulkFilter>) -> BodyResult<JobsChanged> {
        cx.check(JobsFunction::Resume)?;
        bulk(cx, &Bulk::Resume).await
    }

    pub(super) async fn purge(cx: &Cx<Self, BulkFilter>) -> BodyResult<JobsChanged> {
        cx.check(JobsFunction::Purge)?;
        bulk(cx, &Bulk::Purge).await
    }
}

/// Does it to as many jobs as a call has time for; of others than operators each is looked at.
async fn bulk(cx: &Cx<Jobs, BulkFilter>, what: &Bulk) -> BodyResult<JobsChanged> {
    if !sees_all(cx) && cx.request().user().is_none() {
        // those without a user are one: a name that was drawn keeps the job of one from the others
        let info = "a caller without a user names each job";
        return Err(Error::with_info(codes::SECURITY_ERROR, info).into());
    }
    let BulkFilter { filter, dry_run } = &*cx.params;
    let most = if *dry_run && sees_all(cx) { COUNTED } else { BATCH };
    let limit = filter.most.map_or(most, usize::from).min(most);
    let Some(query) = query_of(cx, filter, limit) else { return Ok(JobsChanged::default()) };
    let found = cx.durable.found(what, query).await?;
    let next = next(&found, limit);
    let uids: Vec<Uid> = seen(cx, found).await?.iter().map(|flow| flow.uid).collect();
    let count = if *dry_run { uids.len() } else { cx.durable.bulk(what, &uids).await? };
    let uids = uids.iter().take(MOST.into()).map(Uid::to_string).collect();
    Ok(JobsChanged { count, uids, next })
}
