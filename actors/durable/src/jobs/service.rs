//! The interface `asyncsteps.jobs:1.0`.

use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{BodyResult, Code, Error, StepError, codes};
use asyncsteps_executor::Cx;
use asyncsteps_executor::iface::FunctionName;
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Builder, Functions, Service};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{FlowInfo, FlowState, Query, Resume};
use asyncsteps_journal::{self as journal, Path, Refused, Uid};

use serde_json::Value;

use super::allowed::JobsFunction;
use super::params::{
    Awaited, Erasure, How, JobFilter, KeyedJob, ListFilter, NamedJob, Page, Resumed, SentSignal,
    Settlement, Settling, Submission, Undoing, WatchedJob, time, whole,
};
use super::types::{ClockJump, Job, JobCancel, JobList, JobResult, JobStatus, JobStep, JobsErased};
use crate::awaited::NotEnded;
use crate::bulk::Bulk;
use crate::durable::{Durable, template_of};
use crate::json;
use crate::settle::NotSettled;
use crate::settled::Settle;
use crate::shared::KEY;
use crate::submit::{Cancelling, NotSubmitted, error_of_submit};
use crate::{caller, records};

/// How many jobs are on a page at the most, and unless a caller asks for fewer.
pub(super) const MOST: u16 = 100;

/// How long a caller waits for a result at the most: less than clients and proxies wait for an answer.
const LONGEST_WAIT: Duration = Duration::from_secs(25);

/// The part of a request's time that is kept for its answer.
const ANSWER: Duration = Duration::from_millis(250);

/// What a caller gets to know of a job with a record that cannot be read.
const UNREADABLE: &str = "a record of the job cannot be read here: an operator knows why";

/// The interface `asyncsteps.jobs:1.0`, see the [module](super).
#[derive(Debug)]
pub struct Jobs {
    pub(super) durable: Durable,
    operators: SecurityLevel,
    callers: SecurityLevel,
    pub(super) allowed: Vec<JobsFunction>,
}

/// Why the interface does not do something.
#[derive(Debug, thiserror::Error, Code)]
#[non_exhaustive]
pub enum JobsError {
    /// There is no such job, or the caller may not see it.
    #[error("there is no job {0}")]
    #[code(public)]
    UnknownJob(String),
    /// No durable function has this name here.
    #[error("there is no durable function {0}")]
    #[code(public)]
    NotDurable(String),
    /// An earlier job has the key, and the policy is to reject the second one.
    #[error("{0}")]
    #[code(public)]
    KeyTaken(String),
    /// The job has ended: it takes no signal.
    #[error("the job {0} has ended")]
    #[code(public)]
    HasEnded(Uid),
    /// As many signals wait in the job as it may have, or as many bytes of them.
    #[error("{0}")]
    #[code(public)]
    TooManySignals(Refused),
    /// The schedule has no cron expression of five fields, or a time zone that is not known.
    #[error("{0}")]
    #[code(public)]
    WrongSchedule(String),
    /// The program declares the schedule itself.
    #[error("the program declares the schedule {0}, and would declare it again")]
    #[code(public)]
    DeclaredByProgram(String),
    /// No schedule of this name is stored.
    #[error("there is no schedule {0}")]
    #[code(public)]
    UnknownSchedule(String),
    /// The schedule has more times in a range than are begun at once.
    #[error("{0}")]
    #[code(public)]
    TooManyTimes(String),
    /// The job does not wait for an operator.
    #[error("the job {0} does not wait for an operator")]
    #[code(public)]
    NotStopped(Uid),
    /// The job has begun no step at this path.
    #[error("{0}")]
    #[code(public)]
    UnknownStep(String),
    /// The step is to be undone, and began without an undo.
    #[error("{0}")]
    #[code(public)]
    NoUndo(String),
    /// A record of the job cannot be read here.
    #[error("{0}")]
    #[code(public)]
    Unreadable(String),
    /// The job cannot begin anew while something that it did is not undone.
    #[error("{0}")]
    #[code(public)]
    NotUndone(String),
}

impl Service for Jobs {
    type Errors = JobsError;
}

impl Jobs {
    /// The interface for the durable functions of this handle: callers of the level
    /// [`SafeOps`](SecurityLevel::SafeOps) see their own jobs, and callers of the level
    /// [`PrivilegedOps`](SecurityLevel::PrivilegedOps) all jobs. Nobody changes any, unless that is
    /// [allowed](Self::allow).
    #[must_use]
    pub fn new(durable: Durable) -> Self {
        let (operators, callers) = (SecurityLevel::PrivilegedOps, SecurityLevel::SafeOps);
        Self { durable, operators, callers, allowed: Vec::new() }
    }

    /// Allows these functions in addition, to callers of the level that each needs. A function that is not allowed
    /// answers SecurityError.
    ///
    /// What is allowed here goes past the functions of the service that stand in front of its durable functions, with
    /// their checks and limits. So a durable function that is called behind another one is
    /// [internal](asyncsteps_executor::Functions::internal), and a step that waits for a signal names
    /// [who may send it](asyncsteps_executor::plan::Step::from).
    #[must_use]
    pub fn allow(mut self, functions: impl IntoIterator<Item = JobsFunction>) -> Self {
        self.allowed.extend(functions);
        self
    }

    /// The level that callers need for jobs of others, and to resume any.
    #[must_use]
    pub fn operators(self, operators: SecurityLevel) -> Self {
        Self { operators, ..self }
    }

    /// The level that callers need for jobs of their own.
    #[must_use]
    pub fn callers(self, callers: SecurityLevel) -> Self {
        Self { callers, ..self }
    }

    /// Hosts the interface.
    pub fn host(self, builder: Builder) -> Builder {
        builder.service(self.interface(), self, Self::define)
    }

    /// The declaration of the interface; [`to_json`](Interface::to_json) returns it as clients read
    /// it.
    #[must_use]
    pub fn interface(&self) -> Interface {
        let id = "asyncsteps.jobs:1.0".parse();
        let id = id.unwrap_or_else(|error| unreachable!("the name of an interface: {error}"));
        let mut interface = Interface::new(id);
        if self.callers.min(self.operators) == SecurityLevel::Anonymous {
            interface.allow_anonymous();
        }
        let (callers, operators) = (self.callers, self.operators);
        let unknown = ["UnknownJob", "Unreadable"];
        let submit = interface.function::<Submission, KeyedJob>("submit");
        submit.seclvl(callers).throws(["NotDurable", "KeyTaken"]);
        interface.function::<NamedJob, JobStatus>("status").seclvl(callers).throws(unknown);
        interface.function::<Awaited, JobResult>("result").seclvl(callers).throws(unknown);
        let events = interface.function::<WatchedJob, ()>("events").rawresult();
        events.seclvl(callers).throws(unknown);
        interface.function::<NamedJob, JobCancel>("cancel").seclvl(callers).throws(unknown);
        let signal = interface.function::<SentSignal, bool>("signal");
        signal.seclvl(callers).throws(["UnknownJob", "Unreadable", "HasEnded", "TooManySignals"]);
        interface.function::<ListFilter, JobList>("list").seclvl(callers).throws([""; 0]);
        interface.function::<Page, JobList>("deadLetters").seclvl(callers).throws([""; 0]);
        let pause = interface.function::<NamedJob, bool>("pause");
        pause.seclvl(operators).throws(["UnknownJob", "Unreadable", "HasEnded", "TooManySignals"]);
        let resume = interface.function::<Resumed, bool>("resume");
        resume.seclvl(operators).throws(["UnknownJob", "Unreadable", "NotStopped", "NotUndone"]);
        let settle = interface.function::<Settlement, bool>("settle");
        settle.seclvl(operators).throws(["UnknownJob", "Unreadable", "NotStopped", "UnknownStep"]);
        let undo = interface.function::<Undoing, bool>("undo");
        undo.seclvl(operators).throws([
            "UnknownJob",
            "Unreadable",
            "NotStopped",
            "UnknownStep",
            "NoUndo",
        ]);
        Self::declare_bulk(&mut interface, callers, operators);
        Self::declare_schedules(&mut interface, operators);
        let erase = interface.function::<Erasure, JobsErased>("erase");
        erase.seclvl(operators).throws([""; 0]);
        interface
    }

    fn define(functions: &mut Functions<Self>) {
        functions
            .on("submit", Self::submit)
            .on("status", Self::status)
            .on("result", Self::result)
            .on("events", Self::events)
            .on("cancel", Self::cancel)
            .on("signal", Self::signal)
            .on("cancelAll", Self::cancel_all)
            .on("resumeAll", Self::resume_all)
            .on("purge", Self::purge)
            .on("list", Self::list)
            .on("deadLetters", Self::dead_letters)
            .on("pause", Self::pause)
            .on("resume", Self::resume)
            .on("settle", Self::settle)
            .on("undo", Self::undo)
            .on("erase", Self::erase);
        Self::define_schedules(functions);
    }

    /// Refuses what this service does not allow.
    pub(super) fn check(&self, function: JobsFunction) -> BodyResult<()> {
        if self.allowed.contains(&function) {
            return Ok(());
        }
        let mut name = format!("{function:?}");
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        let info = format!("`{name}` is not allowed here");
        Err(Error::with_info(codes::SECURITY_ERROR, info).into())
    }

    async fn status(cx: &Cx<Self, NamedJob>) -> BodyResult<JobStatus> {
        let uid = visible(cx, &cx.params.uid).await?;
        let clock_jump = cx.durable.clock_jump().map(ClockJump::from);
        let flow = cx.durable.status(uid).await?.flow;
        let place = place(&cx.durable, &flow).await?;
        let loaded = cx.durable.shared.journal.load(uid).await;
        let loaded = loaded.map_err(|error| job_error(cx, error))?;
        let schedule = records::started(&loaded).and_then(|started| started.schedule.clone());
        let running = cx.durable.running(uid).await?.into_iter().map(JobStep::from).collect();
        let kept = cx.durable.kept(uid).await?;
        let shown = kept.iter().take(MOST.into()).map(Path::to_string).collect();
        let job = Job { clock_jump, place, schedule, ..Job::from(&flow) };
        let mut children = cx.durable.children(uid).await?;
        children.truncate(MOST.into());
        Ok(JobStatus { job, running, kept: shown, kept_count: kept.len(), children })
    }

    async fn result(cx: &Cx<Self, Awaited>) -> BodyResult<JobResult> {
        let uid = visible(cx, &cx.params.uid).await?;
        let time_left = cx.request().time_left().unwrap_or(LONGEST_WAIT).saturating_sub(ANSWER);
        let wait = Duration::from_millis(whole(cx.params.wait));
        let until = clock::now() + wait.min(time_left).min(LONGEST_WAIT);
        let executor = cx.request().executor();
        let waited = async {
            tokio::select! {
                biased;
                () = timer::sleep_until(until) => {}
                // it does not end here
                () = cx.durable.left_at_close(uid, &executor) => {}
            }
        };
        tokio::select! {
            biased;
            ending = cx.durable.ended(uid) => match ending {
                Ok(ending) => ended(cx, uid, ending).await,
                // it does not end before an operator has come
                Err(NotEnded::Stopped { state, .. }) => Ok(JobResult::open(state)),
                Err(NotEnded::Journal(error)) => Err(error.into()),
            },
            () = waited => {
                let status = cx.durable.status(uid).await?;
                match status.ending {
                    Some(ending) => ended(cx, uid, ending).await,
                    None => Ok(JobResult::open(status.flow.state)),
                }
            }
        }
    }

    async fn cancel(cx: &Cx<Self, NamedJob>) -> BodyResult<JobCancel> {
        cx.check(JobsFunction::Cancel)?;
        let uid = visible(cx, &cx.params.uid).await?;
        let cancelled = cx.durable.cancel(uid, &name_of(cx)).await.map_err(|error| {
            if !is_unreadable(&error) {
                return StepError::from(error);
            }
            // the records are read when the cancel is stored
            let text = format!("the cancel waits for a program that reads the job: {error}");
            JobsError::Unreadable(text).into()
        });
        Ok(match cancelled? {
            Cancelling::Requested => JobCancel::Requested,
            Cancelling::TooLate => JobCancel::TooLate,
        })
    }

    async fn signal(cx: &Cx<Self, SentSignal>) -> BodyResult<bool> {
        cx.check(JobsFunction::Signal)?;
        let SentSignal { uid, name, value, id } = &*cx.params;
        let wrong = |info: String| Error::with_info(codes::INVALID_REQUEST, info);
        let value = json::encode(value).map_err(|error| wrong(format!("`value`: {error}")))?;
        let uid = Self::signalled(cx, (uid, name), &value).await?;
        let id = match id {
            Some(id) => id.parse().map_err(|error| wrong(format!("`id`: {error}")))?,
            None => Uid::random()?,
        };
        signalled(cx.durable.signal_once(uid, id, name, value).await.map_err(NotSubmitted::from))
    }

    async fn pause(cx: &Cx<Self, NamedJob>) -> BodyResult<bool> {
        cx.check(JobsFunction::Pause)?;
        let uid = visible(cx, &cx.params.uid).await?;
        signalled(cx.durable.pause(uid, &name_of(cx)).await)
    }

    async fn list(cx: &Cx<Self, ListFilter>) -> BodyResult<JobList> {
        let ListFilter { filter, entities } = &*cx.params;
        let limit = limit(filter.most);
        let Some(mut query) = query_of(cx, filter, limit) else { return Ok(JobList::default()) };
        query.template_without = query.template_without.filter(|_| !entities.unwrap_or_default());
        listed(cx, cx.durable.list(query).await?, limit).await
    }

    async fn dead_letters(cx: &Cx<Self, Page>) -> BodyResult<JobList> {
        let (after, limit) = (whole(cx.params.after), limit(cx.params.most));
        let user = own_id(cx).filter(|_| !sees_all(cx));
        let query = Query { user, after, limit, ..Query::default() };
        listed(cx, cx.durable.found(&Bulk::Resume, query).await?, limit).await
    }

    async fn settle(cx: &Cx<Self, Settlement>) -> BodyResult<bool> {
        cx.check(JobsFunction::Settle)?;
        let Settlement { uid, path, how, result, why } = &*cx.params;
        let wrong = |info: String| Error::with_info(codes::INVALID_REQUEST, info);
        let how = match (how, result) {
            (Settling::Kept, None) => Settle::Kept,
            (Settling::Undone, None) => Settle::Undone,
            (Settling::Result, Some(json)) => Settle::Result(
                serde_json::from_str(json)
                    .map_err(|error| wrong(format!("`result` is no JSON: {error}")))?,
            ),
            (Settling::Result, None) | (_, Some(_)) => {
                let info = "a `result` is given for `how: result`, and only then";
                return Err(wrong(info.to_owned()).into());
            }
        };
        settled(cx, (uid, path), how, why.as_deref()).await
    }

    async fn undo(cx: &Cx<Self, Undoing>) -> BodyResult<bool> {
        cx.check(JobsFunction::Undo)?;
        let Undoing { uid, path, why } = &*cx.params;
        settled(cx, (uid, path), Settle::Undo, why.as_deref()).await
    }

    async fn resume(cx: &Cx<Self, Resumed>) -> BodyResult<bool> {
        cx.check(JobsFunction::Resume)?;
        let uid = visible(cx, &cx.params.uid).await?;
        let how = match cx.params.how.unwrap_or(How::Continue) {
            How::Continue => Resume::Continue,
            How::OnItsVersion => Resume::OnItsVersion,
            How::Again => Resume::Again,
        };
        match cx.durable.resume(uid, how).await {
            Err(journal::Error::Refused(Refused::NotStopped(uid))) => {
                Err(JobsError::NotStopped(uid).into())
            }
            Err(journal::Error::Refused(refused @ Refused::NotUndone { .. })) => {
                Err(JobsError::NotUndone(refused.to_string()).into())
            }
            resumed => resumed.map(|()| true).map_err(|error| job_error(cx, error)),
        }
    }
}

/// The answer to what was sent to a job.
fn signalled(sent: Result<(), NotSubmitted>) -> BodyResult<bool> {
    use journal::Error::Refused as Refuses;
    match sent {
        Ok(()) => Ok(true),
        Err(NotSubmitted::Journal(Refuses(Refused::HasEnded(uid)))) => {
            Err(JobsError::HasEnded(uid).into())
        }
        Err(NotSubmitted::Journal(Refuses(
            refused @ (Refused::TooManySignals(_) | Refused::TooManySignalBytes(_)),
        ))) => Err(JobsError::TooManySignals(refused).into()),
        Err(error) => Err(error_of_submit(&error).into()),
    }
}

/// How a job ended, as the caller may see it: what of it is sensitive is for its user only.
async fn ended<P>(cx: &Cx<Jobs, P>, uid: Uid, ending: Ending) -> BodyResult<JobResult> {
    let mut result = JobResult::ended(ending)?;
    if sees_all(cx) && !is_own(cx, uid).await.map_err(|error| job_error(cx, error))? {
        let template = cx.durable.shared.journal.status(uid).await?.flow.template;
        match cx.durable.shared.program(&template) {
            Some(program) => program.sensitive.redact(&mut result.result),
            // it is not known what is sensitive
            None => result.result = Value::Null,
        }
    }
    Ok(result)
}

/// Settles a step of a job, for the operator that asks.
async fn settled<P>(
    cx: &Cx<Jobs, P>,
    (uid, path): (&str, &str),
    how: Settle,
    why: Option<&str>,
) -> BodyResult<bool> {
    let uid = visible(cx, uid).await?;
    let no_path = |_| JobsError::UnknownStep(format!("`{path}` is no path of a step"));
    let step: Path = path.parse().map_err(no_path)?;
    match cx.durable.settle(uid, &step, how, &name_of(cx), why.unwrap_or_default()).await {
        Ok(()) => Ok(true),
        Err(error @ NotSettled::NoStep { .. }) => {
            Err(JobsError::UnknownStep(error.to_string()).into())
        }
        Err(error @ NotSettled::NoUndo(_)) => Err(JobsError::NoUndo(error.to_string()).into()),
        Err(NotSettled::Journal(journal::Error::Refused(Refused::NotStopped(uid)))) => {
            Err(JobsError::NotStopped(uid).into())
        }
        Err(NotSettled::Value(error)) => {
            Err(Error::with_info(codes::INVALID_REQUEST, error.to_string()).into())
        }
        Err(NotSettled::Journal(error)) => Err(job_error(cx, error)),
        Err(error @ NotSettled::NoRandom(_)) => Err(error.into()),
    }
}

/// The job of this name, if the caller may see it.
pub(super) async fn visible<P>(cx: &Cx<Jobs, P>, name: &str) -> BodyResult<Uid> {
    let unknown = || JobsError::UnknownJob(name.to_owned());
    let uid: Uid = name.parse().map_err(|_| unknown())?;
    match is_visible(cx, uid).await {
        Ok(true) => Ok(uid),
        Ok(false) | Err(journal::Error::Refused(Refused::NoFlow(_))) => Err(unknown().into()),
        Err(error) => Err(job_error(cx, error)),
    }
}

/// The error of the journal about a job: what is wrong with a record, for operators with its reason.
pub(super) fn job_error<P>(cx: &Cx<Jobs, P>, error: journal::Error) -> StepError {
    if !is_unreadable(&error) {
        return error.into();
    }
    let text = if sees_all(cx) { error.to_string() } else { UNREADABLE.to_owned() };
    JobsError::Unreadable(text).into()
}

fn is_unreadable(error: &journal::Error) -> bool {
    matches!(error, journal::Error::UnknownRecord { .. } | journal::Error::UnknownValue { .. })
}

async fn is_visible<P>(cx: &Cx<Jobs, P>, uid: Uid) -> Result<bool, journal::Error> {
    if sees_all(cx) {
        return cx.durable.shared.journal.status(uid).await.map(|_| true);
    }
    is_own(cx, uid).await
}

/// Whether the caller sees the jobs of all users.
pub(super) fn sees_all<P>(cx: &Cx<Jobs, P>) -> bool {
    cx.request().level() >= cx.operators
}

/// The local id of the caller: whoever does not see all looks through the own jobs.
fn own_id<P>(cx: &Cx<Jobs, P>) -> Option<String> {
    cx.request().user().map(|user| user.local_id().to_owned())
}

/// Whether a job is of the caller.
async fn is_own<P>(cx: &Cx<Jobs, P>, uid: Uid) -> Result<bool, journal::Error> {
    let loaded = cx.durable.shared.journal.load(uid).await?;
    let Some(started) = records::started(&loaded) else { return Ok(false) };
    let own = caller::write(&cx.request().caller());
    Ok(caller::is_same(started.user.as_deref(), own.as_deref()))
}

/// Whoever acts, by a name for people.
pub(super) fn name_of<P>(cx: &Cx<Jobs, P>) -> String {
    cx.request().user().map_or("an anonymous caller", |user| user.local_id()).to_owned()
}

/// The jobs that a filter is for, of those that the caller may see; `None` if it names another user, because a page of others
/// would say how many they have, and when. Those of the caller have its local id, and some may be of another user with it.
pub(super) fn query_of<P>(cx: &Cx<Jobs, P>, filter: &JobFilter, limit: usize) -> Option<Query> {
    let JobFilter { function, state, user, key, tag, from, before, after, .. } = filter;
    let template = function.as_ref().map(|name| match name.parse::<FunctionName>() {
        Ok(name) => template_of(name.iface(), name.version().major, name.func()),
        Err(_) => name.clone(),
    });
    let own = own_id(cx);
    if !sees_all(cx) && user.is_some() && *user != own {
        return None;
    }
    Some(Query {
        state: state.map(FlowState::from),
        template,
        template_without: Some(KEY),
        user: user.clone().or_else(|| own.filter(|_| !sees_all(cx))),
        key: key.clone(),
        tag: tag.clone(),
        from: from.map(time),
        before: before.map(time),
        after: whole(*after),
        limit,
        ..Query::default()
    })
}

/// `after` of the next page; `limit` flows were asked for.
pub(super) fn next(flows: &[FlowInfo], limit: usize) -> u64 {
    flows.last().filter(|_| flows.len() == limit).map_or(0, |flow| flow.number)
}

/// The jobs in `flows` that the caller may see.
pub(super) async fn seen<P>(cx: &Cx<Jobs, P>, flows: Vec<FlowInfo>) -> BodyResult<Vec<FlowInfo>> {
    if sees_all(cx) {
        return Ok(flows);
    }
    let mut seen = Vec::new();
    for flow in flows {
        let is_seen = match is_own(cx, flow.uid).await {
            // it was trimmed meanwhile, or does not say whose it is
            Err(
                journal::Error::Refused(Refused::NoFlow(_))
                | journal::Error::UnknownRecord { .. }
                | journal::Error::UnknownValue { .. },
            ) => false,
            seen => seen?,
        };
        seen.extend(is_seen.then_some(flow));
    }
    Ok(seen)
}

/// A page with the jobs in `flows` that the caller may see; `limit` of them were asked for.
async fn listed<P>(cx: &Cx<Jobs, P>, flows: Vec<FlowInfo>, limit: usize) -> BodyResult<JobList> {
    let next = next(&flows, limit);
    Ok(JobList { jobs: seen(cx, flows).await?.iter().map(Job::from).collect(), next })
}

/// The place of a job among the suspects that wait, if it is one.
async fn place(durable: &Durable, flow: &FlowInfo) -> Result<Option<f64>, journal::Error> {
    if flow.state != FlowState::Suspect {
        return Ok(None);
    }
    let (mut before, mut after, limit) = (0_u32, 0, usize::from(MOST));
    loop {
        let state = Some(FlowState::Suspect);
        let page = durable.list(Query { state, after, limit, ..Query::default() }).await?;
        let is_last = page.len() < limit || page.iter().any(|it| it.number >= flow.number);
        before += page.iter().map(|it| u32::from(it.number < flow.number)).sum::<u32>();
        match page.last().filter(|_| !is_last) {
            Some(last) => after = last.number,
            None => return Ok(Some(f64::from(before + 1))),
        }
    }
}

/// How many jobs a caller wants on a page.
pub(super) fn limit(most: Option<u16>) -> usize {
    most.unwrap_or(MOST).min(MOST).into()
}
