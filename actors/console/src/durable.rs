//! Durable requests: their state in the journal, and the actions of an operator.

use asyncsteps_durable::jobs::{Job, JobState, JobStep};
use asyncsteps_durable::journal::record::{Ending, Event, Failure, StoredRecord};
use asyncsteps_durable::journal::request::{FlowInfo, FlowState, Query, Resume};
use asyncsteps_durable::journal::{Error, Record, Refused, Uid};
use asyncsteps_durable::{Child, Durable};
use serde::Serialize;

use crate::bounds::{self, Bounded, cut};

/// Who cancels, for those who look at the request later.
const OPERATOR: &str = "the console";

/// Requests on a page of the list.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DurableRequests {
    requests: Vec<Job>,
    /// Where the next page begins; 0 if this is the last one.
    next: u64,
    /// The last jump of the journal's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_jump: Option<ShownJump>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A jump of a clock, in milliseconds since 1970.
#[derive(Debug, Serialize)]
struct ShownJump {
    from: u64,
    to: u64,
}

/// A request with its records.
#[derive(Debug, Serialize)]
pub(crate) struct DurableRequest {
    request: Job,
    /// The bodies that run.
    running: Vec<JobStep>,
    /// The newest ones, the oldest of them first.
    records: Vec<RecordRow>,
    /// How many there are.
    all: usize,
    /// The steps whose effects stay, or may stay, although it did not come to a result.
    kept: Vec<String>,
    /// How many there are of these.
    all_kept: usize,
    /// The requests that its steps have begun.
    children: Vec<Child>,
}

/// A record in a few words.
#[derive(Debug, Default, Serialize)]
struct RecordRow {
    /// Its place among all of them, from 0.
    number: usize,
    path: String,
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    /// How long it took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    millis: Option<u64>,
    /// A time of day, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// An action of an operator on a request.
#[derive(Debug)]
pub(crate) enum OperatorAction {
    Cancel,
    Pause,
    Resume(Resume),
    /// Resume it without the record of this number and those after it.
    From(usize),
}

/// The result of an action.
#[derive(Debug, Serialize)]
pub(crate) struct ActionResult {
    done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl OperatorAction {
    /// The order with this name in a path.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "cancel" => Self::Cancel,
            "pause" => Self::Pause,
            "continue" => Self::Resume(Resume::Continue),
            "on-its-version" => Self::Resume(Resume::OnItsVersion),
            "again" => Self::Resume(Resume::Again),
            _ => Self::From(name.strip_prefix("from/")?.parse().ok().filter(|it| *it > 0)?),
        })
    }
}

/// The requests that a query is for: `state`, `after` as [`DurableRequests::next`] has it, and `text`, which is a uid, the
/// key of a caller, a tag, or a user. Entities are no requests.
pub(crate) async fn list(durable: &Durable, query: &str) -> DurableRequests {
    let (mut state, mut after, mut text) = (None, 0, String::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "state" => state = serde_json::from_value(value.into()).ok(),
            "after" => after = value.parse().unwrap_or(0),
            "text" => value.trim().clone_into(&mut text),
            _ => {}
        }
    }
    let state = state.map(|state: JobState| FlowState::from(state));
    let (limit, template_without) = (bounds::DURABLE, Some('@'));
    let query = Query { state, after, limit, template_without, ..Query::default() };
    let jump = durable.clock_jump();
    let clock_jump = jump.map(|it| ShownJump { from: it.from.as_millis(), to: it.to.as_millis() });
    match find_all(durable, query, text).await {
        Ok(flows) => {
            let next = flows.last().filter(|_| flows.len() == bounds::DURABLE);
            let next = next.map_or(0, |flow| flow.number);
            let requests = flows.iter().map(|flow| Job::from(flow).bounded()).collect();
            DurableRequests { requests, next, clock_jump, error: None }
        }
        Err(error) => {
            DurableRequests { clock_jump, error: Some(error.to_string()), ..Default::default() }
        }
    }
}

/// The requests of this uid, or else of this key, this tag, or this user; all without a text.
async fn find_all(durable: &Durable, query: Query, text: String) -> Result<Vec<FlowInfo>, Error> {
    if text.is_empty() {
        return durable.list(query).await;
    }
    if let Ok(uid) = text.parse() {
        return durable.list(Query { uid: Some(uid), ..query }).await;
    }
    let of_key = durable.list(Query { key: Some(text.clone()), ..query.clone() }).await?;
    if !of_key.is_empty() {
        return Ok(of_key);
    }
    let of_tag = durable.list(Query { tag: Some(text.clone()), ..query.clone() }).await?;
    if !of_tag.is_empty() {
        return Ok(of_tag);
    }
    durable.list(Query { user: Some(text), ..query }).await
}

/// A request with its records; `None` if there is none.
pub(crate) async fn find(durable: &Durable, uid: Uid) -> Result<Option<DurableRequest>, Error> {
    let (status, records) = match (durable.status(uid).await, durable.records(uid).await) {
        (Err(Error::Refused(Refused::NoFlow(_))), _) => return Ok(None),
        (status, records) => (status?, records?),
    };
    let all = records.len();
    let newest = records.iter().enumerate().skip(all.saturating_sub(bounds::RECORDS));
    let row = |(number, stored): (_, &StoredRecord)| RecordRow::new(number, &stored.record);
    let records = newest.map(|it| row(it).bounded()).collect();
    let request = Job::from(&status.flow).bounded();
    let kept = durable.kept(uid).await?;
    let all_kept = kept.len();
    let kept = kept.iter().take(bounds::KEPT).map(|path| {
        let mut path = path.to_string();
        cut(&mut path);
        path
    });
    let running = durable.running(uid).await?.into_iter().take(bounds::KEPT);
    let running = running.map(|step| JobStep::from(step).bounded()).collect();
    let kept = kept.collect();
    let mut children = durable.children(uid).await?;
    children.truncate(bounds::KEPT);
    children.iter_mut().for_each(|child| cut(&mut child.step));
    Ok(Some(DurableRequest { request, running, records, all, kept, all_kept, children }))
}

/// Does what an operator wants.
pub(crate) async fn order(durable: &Durable, uid: Uid, order: OperatorAction) -> ActionResult {
    let result = |done: Result<(), String>| ActionResult { done: done.is_ok(), error: done.err() };
    let done = match order {
        OperatorAction::Pause => {
            return result(durable.pause(uid, OPERATOR).await.map_err(|error| error.to_string()));
        }
        OperatorAction::Cancel => durable.cancel(uid, OPERATOR).await.map(|_| ()),
        OperatorAction::Resume(how) => durable.resume(uid, how).await,
        OperatorAction::From(number) => match durable.records(uid).await {
            Ok(records) => {
                let without = records.iter().skip(number).map(|stored| stored.id).collect();
                durable.resume(uid, Resume::Without(without)).await
            }
            Err(error) => Err(error),
        },
    };
    result(done.map_err(|error| error.to_string()))
}

impl RecordRow {
    fn new(number: usize, Record { path, event }: &Record) -> Self {
        let row = Self { number, path: path.to_string(), what: "recorded", ..Self::default() };
        match event {
            Event::Started(started) => {
                Self { what: "submitted", text: started.user.as_deref().and_then(user), ..row }
            }
            Event::Intent(it) => {
                let at = Some(it.at.as_millis());
                Self { what: "begun", attempt: Some(it.attempt), at, ..row }
            }
            Event::Done(it) => {
                Self { what: "done", attempt: Some(it.attempt), millis: Some(it.millis), ..row }
            }
            Event::Failed(it) => Self {
                what: "failed",
                attempt: Some(it.attempt),
                millis: Some(it.millis),
                text: Some(failure(&it.failure)),
                ..row
            },
            Event::Outcome(it) => Self { what: "decided", text: ending(&it.ending), ..row },
            Event::Timer(it) => Self { what: "waits", at: Some(it.at.as_millis()), ..row },
            Event::Signal(it) => Self { what: "signal", text: Some(it.name.clone()), ..row },
            Event::Keys(it) if row.path.ends_with("|child") => {
                Self { what: "child", text: it.keys.first().cloned(), ..row }
            }
            Event::Keys(it) => Self { what: "items", text: Some(it.keys.len().to_string()), ..row },
            Event::Iteration(it) => {
                Self { what: "iteration", text: Some(it.index.to_string()), ..row }
            }
            Event::Unwinding(it) => {
                let text = format!("{} from {}", failure(&it.failure), it.failed);
                Self { what: "undoes", text: Some(text), ..row }
            }
            Event::Ended(it) => Self { what: "ended", text: ending(&it.ending), ..row },
            _ => row,
        }
    }
}

impl Bounded for Job {
    fn bounded(mut self) -> Self {
        self.reason.as_mut().map(cut);
        self.user.as_mut().map(cut);
        self.key.as_mut().map(cut);
        self.tags.iter_mut().for_each(cut);
        self.cancelled_by.as_mut().map(cut);
        self
    }
}

impl Bounded for JobStep {
    fn bounded(mut self) -> Self {
        cut(&mut self.path);
        self
    }
}

impl Bounded for RecordRow {
    fn bounded(mut self) -> Self {
        cut(&mut self.path);
        self.text.as_mut().map(cut);
        self
    }
}

/// The name of the user that is recorded as JSON.
fn user(stored: &str) -> Option<String> {
    let stored: serde_json::Value = serde_json::from_str(stored).ok()?;
    Some(format!("for {}", stored["lid"].as_str()?))
}

fn failure(failure: &Failure) -> String {
    match &failure.text {
        Some(text) => format!("{}: {text}", failure.code),
        None => failure.code.clone(),
    }
}

/// How it ended, unless that is a result, which may be anything.
fn ending(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Completed(_) => None,
        Ending::Failed(it) => Some(failure(it)),
        Ending::Cancelled | _ => Some("Cancelled".to_owned()),
    }
}
