//! The reports about jobs. Times are in milliseconds.

use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{FlowInfo, FlowState};
use asyncsteps_journal::{Jump, Timestamp, ValueError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cancels::shown_by;
use crate::child::parent_in;
use crate::children::Child;
use crate::held::RunningStep;
use crate::schedule::Overlap;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum JobState {
    /// It has not begun.
    New,
    /// It has begun, and waits for a node.
    Ready,
    /// A node runs it.
    Running,
    /// It waits for a time.
    Parked,
    /// Its last node died while it ran: it runs with care.
    Suspect,
    /// It waits for an operator, because it does not fit the program.
    Paused,
    /// It waits for an operator, because its nodes died too often.
    Dead,
    /// It has ended.
    Ended,
}

/// A durable request.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Job {
    /// Its name.
    pub uid: String,
    /// Its function, as the journal has it: interface, major version, name.
    pub function: String,
    /// The highest version of the function's steps that has written to it.
    #[schemars(with = "f64")]
    pub version: u32,
    /// Its state.
    pub state: JobState,
    /// When it was submitted.
    pub created: f64,
    /// When it goes on, if it waits for a time; of one that runs only in the answer of `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<f64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<f64>,
    /// How it ended: `success`, `Cancelled`, or the code of its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The local id of the user that it acts for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The job that began it, if a step of one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The key of its caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Why it waits for an operator, is a suspect, or is tried again later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its place among the suspects that wait, from 1, in the answer of `status`. Nodes take few of these at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<f64>,
    /// Who has cancelled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<String>,
    /// In the status of a job: the name of the schedule that began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// In the status of a job: the last jump of the journal's clock, if a node of the process that was asked has found
    /// one. Times of day follow it, and lengths of time do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_jump: Option<ClockJump>,
}

/// The status of one job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct JobStatus {
    /// The job.
    pub job: Job,
    /// The bodies that run; of a job that another process runs, those of steps that can be undone or begin once, and those
    /// that have run for a minute.
    pub running: Vec<JobStep>,
    /// The paths of the steps whose effects stay, or may stay, although the job has failed, was cancelled or waits for
    /// an operator: effects without an undo, and effects that an operator has kept. At most a hundred.
    pub kept: Vec<String>,
    /// How many such steps there are.
    #[schemars(with = "f64")]
    pub kept_count: usize,
    /// The jobs that its steps have begun, in order: at most a hundred.
    pub children: Vec<Child>,
}

/// A body that runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct JobStep {
    /// The path of the step, or of its undo.
    pub path: String,
    /// Which attempt it is, from 1.
    #[schemars(with = "f64")]
    pub attempt: u32,
    /// When it began.
    pub since: f64,
    /// For how many milliseconds it has run.
    pub running: f64,
}

impl From<RunningStep> for JobStep {
    fn from(RunningStep { path, attempt, since, running, .. }: RunningStep) -> Self {
        let running = (running.as_secs_f64() * 1000.0).floor();
        Self { path: path.to_string(), attempt, since: number(since.into()), running }
    }
}

/// A jump of a clock by more than a minute.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ClockJump {
    /// The time that the clock should have shown.
    pub from: f64,
    /// The time that it showed.
    pub to: f64,
}

/// The answer to a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum JobCancel {
    /// The job ends, and is undone; its result says so.
    Requested,
    /// The job has ended, or has begun what commits it.
    TooLate,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct JobResult {
    /// `ended`, or its current state.
    pub state: JobState,
    /// Its result; null if it has none, failed, or has not ended. For others than its user, sensitive fields are
    /// hidden.
    pub result: Value,
    /// The code of the error with which it ended, `Cancelled` if it was cancelled; else empty.
    pub error: String,
    /// The text of the error; empty if it has none.
    pub text: String,
}

/// Jobs, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct JobList {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// `after` for the next page; 0 if this is the last one.
    #[schemars(with = "f64")]
    pub next: u64,
}

/// A schedule, without the parameters of its requests.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct JobSchedule {
    /// Its name.
    pub name: String,
    /// The function, as the journal has it: interface, major version, name.
    pub function: String,
    /// Its cron expression, of five fields.
    pub cron: String,
    /// The place whose time it is.
    pub time_zone: String,
    /// The local id of the user that its requests act for, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// When the next request begins, unless there is no further time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<f64>,
    /// When its next three requests begin; none of one that is paused.
    pub times: Vec<f64>,
    /// What happens at a time at which an earlier request has not ended.
    pub overlap: Overlap,
    /// How many milliseconds late a request may begin because no node ran at its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<f64>,
    /// By how many milliseconds each request may begin later than its time.
    pub jitter: f64,
    /// Whether it is paused.
    pub paused: bool,
    /// The last time for which a request has begun, if it is one of the last twenty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<f64>,
    /// How many of the last twenty times were skipped since then.
    #[schemars(with = "f64")]
    pub skipped: u32,
    /// The program declares it, so it is neither replaced nor removed over the wire.
    pub by_program: bool,
}

/// Schedules, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct JobSchedules {
    /// The schedules.
    pub schedules: Vec<JobSchedule>,
    /// `after` for the next page; empty if this is the last one.
    pub next: String,
}

/// What was done to many jobs, or would be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct JobsChanged {
    /// To how many jobs it was done, or would be done.
    #[schemars(with = "f64")]
    pub count: usize,
    /// The names of the jobs that were found, the oldest first: at most a hundred.
    pub uids: Vec<String>,
    /// `after` for the next call; 0 if no further job was found.
    #[schemars(with = "f64")]
    pub next: u64,
}

/// What was removed, and what is left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct JobsErased {
    /// How many jobs were removed.
    #[schemars(with = "f64")]
    pub removed: usize,
    /// The names of the schedules that were removed.
    pub schedules: Vec<String>,
    /// The names of schedules that cannot be opened, so that nobody knows whose they are: they are left.
    pub unread: Vec<String>,
    /// How many jobs have not ended, and are left.
    #[schemars(with = "f64")]
    pub open: usize,
    /// Their names, the oldest first: at most a hundred.
    pub uids: Vec<String>,
}

/// The states of a request, as a job has them.
const STATES: [(FlowState, JobState); 8] = [
    (FlowState::New, JobState::New),
    (FlowState::Ready, JobState::Ready),
    (FlowState::Running, JobState::Running),
    (FlowState::Parked, JobState::Parked),
    (FlowState::Suspect, JobState::Suspect),
    (FlowState::Paused, JobState::Paused),
    (FlowState::Dead, JobState::Dead),
    (FlowState::Ended, JobState::Ended),
];

impl From<FlowState> for JobState {
    fn from(state: FlowState) -> Self {
        STATES.into_iter().find(|(of, _)| *of == state).map_or(Self::Ready, |(_, job)| job)
    }
}

impl From<JobState> for FlowState {
    fn from(state: JobState) -> Self {
        STATES.into_iter().find(|(_, job)| *job == state).map_or(Self::Ready, |(of, _)| of)
    }
}

impl From<&FlowInfo> for Job {
    fn from(flow: &FlowInfo) -> Self {
        let parent = flow.key.as_deref().and_then(parent_in);
        Self {
            uid: flow.uid.to_string(),
            function: flow.template.clone(),
            version: flow.version,
            state: JobState::from(flow.state),
            created: number(flow.created),
            due: flow.due.map(number),
            ended: flow.ended.map(number),
            outcome: flow.outcome.clone(),
            user: flow.user.clone(),
            key: flow.key.clone().filter(|_| parent.is_none()),
            parent: parent.map(|parent| parent.to_string()),
            tags: flow.tags.clone(),
            reason: flow.reason.clone(),
            place: None,
            cancelled_by: flow.cancel.as_ref().map(|cancel| shown_by(&cancel.by)),
            schedule: None,
            clock_jump: None,
        }
    }
}

impl From<Jump> for ClockJump {
    fn from(Jump { from, to }: Jump) -> Self {
        Self { from: number(from), to: number(to) }
    }
}

impl JobResult {
    pub(super) fn open(state: FlowState) -> Self {
        Self {
            state: JobState::from(state),
            result: Value::Null,
            error: String::new(),
            text: String::new(),
        }
    }

    pub(super) fn ended(ending: Ending) -> Result<Self, ValueError> {
        let ended = Self::open(FlowState::Ended);
        Ok(match ending {
            Ending::Completed(value) => Self { result: value.decode()?, ..ended },
            Ending::Failed(failure) => {
                Self { error: failure.code, text: failure.text.unwrap_or_default(), ..ended }
            }
            Ending::Cancelled | _ => Self { error: crate::cancels::CANCELLED.to_owned(), ..ended },
        })
    }
}

/// A time as JSON has it: exact for the next 285,000 years.
#[expect(clippy::cast_precision_loss, reason = "below 2^53 there is none")]
pub(super) fn number(time: Timestamp) -> f64 {
    time.as_millis() as f64
}
