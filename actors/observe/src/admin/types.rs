//! A running service, as data. Times are in milliseconds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::locks::{HeldLockInfo, LockWait};
use super::place::StepPlace;
use asyncsteps_executor::RequestState;
use asyncsteps_executor::health::Readiness;

/// Whether an executor takes requests, and how busy it is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Health {
    /// Whether it takes requests.
    pub state: ServiceState,
    /// Whether it should get requests: [`Readiness`].
    pub readiness: Readiness,
    /// The requests that are not over.
    #[schemars(with = "f64")]
    pub in_flight: usize,
    /// The requests that have a permit of the budget.
    #[schemars(with = "f64")]
    pub running: usize,
    /// The requests that wait for a permit.
    #[schemars(with = "f64")]
    pub queued: usize,
    /// What the budget counts for requests, in bytes.
    #[schemars(with = "f64")]
    pub memory: usize,
    /// The requests so far that got a permit.
    #[schemars(with = "f64")]
    pub admitted: u64,
    /// The requests so far that got none.
    #[schemars(with = "f64")]
    pub rejected: u64,
    /// The messages so far that could not be answered.
    #[schemars(with = "f64")]
    pub unanswerable: u64,
    /// How long each arbiter took to answer a message just now; 1,000 for an arbiter that did not
    /// answer.
    pub arbiter_delays: Vec<f64>,
    /// Requests that did not get to a function, by code.
    #[schemars(with = "BTreeMap<String, f64>")]
    pub refused: BTreeMap<String, u64>,
    /// Requests that were refused, by [reason](asyncsteps_executor::RefusalReason).
    #[schemars(with = "BTreeMap<String, f64>")]
    pub refusals: BTreeMap<String, u64>,
    /// Branches of requests in flight by what they wait for: `mutex`, `throttle`, `external`, `future`,
    /// `pause`, ...
    #[schemars(with = "BTreeMap<String, f64>")]
    pub waits: BTreeMap<String, u64>,
}

/// Whether an executor takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ServiceState {
    /// It does.
    Serving,
    /// It ends its requests in flight, and takes no more.
    Closing,
}

/// Requests whose flows wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FlowsInFlight {
    /// The oldest ones.
    pub flows: Vec<FlowInFlight>,
    /// How many there are in all.
    #[schemars(with = "f64")]
    pub all: usize,
}

/// A request whose flow waits.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FlowInFlight {
    /// Its number among the requests of its executor; 0 if they are not recorded.
    #[schemars(with = "f64")]
    pub number: u64,
    /// The function as the caller named it.
    pub function: String,
    /// The id of the trace that it belongs to.
    pub trace: String,
    /// The uid of the durable request that it is, or that its caller waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable: Option<String>,
    /// The local id of the user; not there for an anonymous caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The number of its flow among those of the process, which locks know it by; absent if the flow
    /// has ended meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub flow: Option<u64>,
    /// The time since the request arrived.
    pub age: f64,
    /// The time that the request may still take in all; not there if it has no time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_left: Option<f64>,
    /// How far it is.
    pub state: RequestState,
    /// The time since the last turn of the flow.
    pub idle: f64,
    /// The branches that are not over, the first 32 of them.
    pub waits: Vec<WaitInfo>,
    /// How many branches there are.
    #[schemars(with = "f64")]
    pub branches: usize,
    /// The locks that its steps hold, at most 32.
    pub holds: Vec<HeldLockInfo>,
}

/// Where a branch of a flow is, and what it waits for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WaitInfo {
    /// The parallel branch, 0 for the root.
    #[schemars(with = "f64")]
    pub branch: u32,
    /// The steps in progress, the outermost first.
    pub steps: Vec<StepPlace>,
    /// The number of the current attempt, from 1.
    #[schemars(with = "f64")]
    pub attempt: u32,
    /// How many attempts there are at the most, if the plan of the function says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub attempts: Option<u32>,
    /// What a future is that it waits for, if the plan of the function says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaits: Option<Awaited>,
    /// What it waits for, in one word: `mutex`, `throttle`, `external`, `future`, `pause`, ...
    pub cause: String,
    /// What it waits for, such as "mutex `stock`, place 2 of 5".
    pub reason: String,
    /// The lock or limit that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockWait>,
    /// The time until the nearest time limit of a step around it ends the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The step with that limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<StepPlace>,
    /// How long that limit is, if the plan of the function says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_of: Option<f64>,
}

/// What a future is that a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Awaited {
    /// The body of the step.
    Body,
    /// Time.
    Sleep,
    /// A signal with the name of the step.
    Signal,
    /// The durable request, whose caller this is.
    Durable,
    /// What is recorded of the request: it begins or ends.
    Journal,
}

/// The history of the steps of a request.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RequestSteps {
    /// The time from the beginning of the recording to its end, or until now.
    pub length: f64,
    /// How many events there was no room for.
    #[schemars(with = "f64")]
    pub lost: usize,
    /// The steps: each one is followed by those inside of it, which have a greater `depth`.
    pub steps: Vec<StepInfo>,
}

/// A step that was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct StepInfo {
    /// How many steps are around it.
    #[schemars(with = "f64")]
    pub depth: usize,
    /// The flow: 0 for the flow of the request, others undo it.
    #[schemars(with = "f64")]
    pub flow: u32,
    /// The parallel branch, 0 for the root.
    #[schemars(with = "f64")]
    pub branch: u32,
    /// Which attempt of it, or of a step around it, this was, from 1.
    #[schemars(with = "f64")]
    pub attempt: u32,
    /// Its name and source place.
    pub place: StepPlace,
    /// When it began, since the recording did.
    pub began: f64,
    /// How long it took, or has taken.
    pub took: f64,
    /// How it ended.
    pub ending: Ending,
    /// The code of the error that it failed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The error information beside its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<String>,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Ending {
    /// It is in progress, or the event of its end was lost.
    Open,
    /// It completed, or its error handler recovered.
    Success,
    /// It failed.
    Error,
    /// It was cancelled, or a loop was left.
    Cancelled,
}

/// A request that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RecentRequest {
    /// Its number, for its steps.
    #[schemars(with = "f64")]
    pub number: u64,
    /// The function as the caller named it.
    pub function: String,
    /// The caller's number of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rid: Option<String>,
    /// The id of the trace that it belongs to.
    pub trace: String,
    /// The local id of the user; not there for an anonymous caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// When it arrived, since 1970.
    pub arrived: f64,
    /// How long it waited in the queue of the budget.
    pub queued: f64,
    /// How long it took in all.
    pub total: f64,
    /// `success`, the code of its error, or `disconnected`.
    pub outcome: String,
    /// Its steps on one line, with their times.
    pub steps: String,
}

/// The counts of a function.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FunctionReport {
    /// Its full name, `iface:version:function`.
    pub function: String,
    /// The requests to it that have ended.
    #[schemars(with = "f64")]
    pub count: u64,
    /// Requests that were answered with an error, by its code, or whose callers left
    /// (`disconnected`).
    #[schemars(with = "BTreeMap<String, f64>")]
    pub errors: BTreeMap<String, u64>,
    /// The mean of their times.
    pub mean: f64,
    /// The time that half of them took at the most, with an error of a quarter, as below.
    pub p50: f64,
    /// The time that 90 % of them took at the most.
    pub p90: f64,
    /// The time that 99 % of them took at the most.
    pub p99: f64,
    /// The time that 99 % of them waited at the most in the queue of the budget.
    pub queued_p99: f64,
}

/// A request that was refused.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RefusedInfo {
    /// When, since 1970.
    pub at: f64,
    /// The function as the caller named it, its first 100 characters; empty if that is not known.
    pub function: String,
    /// The address of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Why: `budget`, `client_limit`, `security`, ...
    pub reason: String,
    /// The code that it was answered with.
    pub code: String,
    /// The text that it was answered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
