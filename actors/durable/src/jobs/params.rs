//! The parameters of calls of `asyncsteps.jobs:1.0`.

use asyncsteps_executor::KeyPolicy;
use asyncsteps_journal::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::types::{JobSchedule, JobState};
use crate::schedule::Overlap;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Submission {
    /// The function, with interface and version.
    pub(super) function: String,
    /// Its parameters; none unless given.
    pub(super) params: Option<Map<String, Value>>,
    /// The same key again returns the first job: printable ASCII characters, without spaces around them.
    #[schemars(length(min = 1, max = 128))]
    pub(super) key: Option<String>,
    /// What it does if an earlier job has the key: `return` unless given, or as the header says.
    pub(super) policy: Option<KeyPolicy>,
    /// Names by which it is listed: up to 16 of 128 bytes.
    #[schemars(length(max = 16))]
    pub(super) tags: Option<Vec<String>>,
    /// When it begins: at most 366 days ahead.
    #[schemars(range(min = 0))]
    pub(super) start: Option<f64>,
    /// When it fails with `Timeout`, and is undone.
    #[schemars(range(min = 0))]
    pub(super) deadline: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SubmittedJob {
    pub(super) uid: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct KeyedJob {
    pub(super) uid: String,
    /// Whether it is an earlier one, which has the key.
    pub(super) earlier: bool,
    /// How the earlier one ended: `success`, `Cancelled`, or the code of its error; empty if it has not.
    pub(super) outcome: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct NamedJob {
    pub(super) uid: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Awaited {
    pub(super) uid: String,
    /// How long it may take to end; no time unless given.
    #[schemars(range(min = 0))]
    pub(super) wait: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct WatchedJob {
    pub(super) uid: String,
    /// The number of the last event that is known; all come unless given.
    #[schemars(range(min = 0))]
    pub(super) after: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct JobFilter {
    pub(super) function: Option<String>,
    pub(super) state: Option<JobState>,
    /// Only jobs of the user with this local id.
    pub(super) user: Option<String>,
    /// Only jobs with this key of a caller.
    pub(super) key: Option<String>,
    /// Only jobs with this tag.
    pub(super) tag: Option<String>,
    /// Only jobs that were submitted at this time or after it.
    #[schemars(range(min = 0))]
    pub(super) from: Option<f64>,
    /// Only jobs that were submitted before this time.
    #[schemars(range(min = 0))]
    pub(super) before: Option<f64>,
    #[schemars(range(min = 0))]
    pub(super) after: Option<f64>,
    pub(super) most: Option<u16>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ListFilter {
    #[serde(flatten)]
    pub(super) filter: JobFilter,
    /// The entities as well, which are flows of the journal too.
    pub(super) entities: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct BulkFilter {
    #[serde(flatten)]
    pub(super) filter: JobFilter,
    /// Only count the jobs.
    pub(super) dry_run: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Page {
    #[schemars(range(min = 0))]
    pub(super) after: Option<f64>,
    pub(super) most: Option<u16>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SentSignal {
    pub(super) uid: String,
    /// The name by which a step waits for it: at most 4096 bytes.
    #[schemars(length(min = 1, max = 4096))]
    pub(super) name: String,
    /// The value that the step takes; null unless given.
    #[serde(default)]
    pub(super) value: Value,
    /// The same id again is the same signal: 32 hexadecimal digits that the caller has drawn.
    pub(super) id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SchedulesPage {
    /// Only schedules whose names come behind this one.
    pub(super) after: Option<String>,
    pub(super) most: Option<u16>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DeclaredSchedule {
    /// Its name: at most 255 bytes.
    #[schemars(length(min = 1, max = 255))]
    pub(super) name: String,
    /// The function, with interface and version.
    pub(super) function: String,
    /// Its parameters; none unless given.
    pub(super) params: Option<Map<String, Value>>,
    /// The five fields of cron, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    pub(super) cron: String,
    /// The place whose time it is, such as `Europe/Berlin`; UTC unless given.
    pub(super) time_zone: Option<String>,
    /// What happens at a time at which an earlier request has not ended; `skip` unless given.
    pub(super) overlap: Option<Overlap>,
    /// How many milliseconds late a request may begin because no node ran at its time; however late unless given.
    #[schemars(range(min = 0))]
    pub(super) catch_up: Option<f64>,
    /// By how many milliseconds each request may begin later than its time; none unless given.
    #[schemars(range(min = 0))]
    pub(super) jitter: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct StoredJobSchedule {
    /// The schedule, as it is stored.
    pub(super) schedule: JobSchedule,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct NamedSchedule {
    pub(super) name: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Backfill {
    pub(super) name: String,
    /// The first time of the range.
    #[schemars(range(min = 0))]
    pub(super) from: f64,
    /// The last time of the range.
    #[schemars(range(min = 0))]
    pub(super) until: f64,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct BackfilledJobs {
    /// The requests of the range, by time.
    pub(super) uids: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Erasure {
    /// The local id of a user.
    pub(super) user: Option<String>,
    /// A key of callers, instead of a user.
    pub(super) key: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Resumed {
    pub(super) uid: String,
    /// Where it was unless said otherwise.
    pub(super) how: Option<How>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Settlement {
    pub(super) uid: String,
    /// The path of the step, as the reason of the pause names it.
    pub(super) path: String,
    pub(super) how: Settling,
    /// With which result the step has ended, as JSON, for `result`.
    pub(super) result: Option<String>,
    /// For what reason; it is recorded with the name of the operator.
    pub(super) why: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Undoing {
    pub(super) uid: String,
    /// The path of the step, as the reason of the pause names it.
    pub(super) path: String,
    /// For what reason; it is recorded with the name of the operator.
    pub(super) why: Option<String>,
}

/// The decision of an operator about a step that a paused job has begun.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum Settling {
    /// Its effect stays.
    Kept,
    /// It is undone already.
    Undone,
    /// It ended with this result.
    Result,
}

/// How a job goes on.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum How {
    /// Where it was.
    Continue,
    /// Where it was, on nodes that have its version.
    OnItsVersion,
    /// From the beginning.
    Again,
}

/// A whole number that came as a float; 0 for none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(super) fn whole(number: Option<f64>) -> u64 {
    number.unwrap_or_default() as u64
}

pub(super) fn time(millis: f64) -> Timestamp {
    Timestamp::from_millis(whole(Some(millis)))
}
