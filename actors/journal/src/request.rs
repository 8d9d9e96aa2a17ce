//! The requests to journals, and their answers.

use std::time::Duration;

use crate::id::{Epoch, Incarnation, RecordId, Uid};
use crate::path::Path;
use crate::record::{Ending, Failure, Record, Started, StoredRecord};
use crate::time::{Reading, Timestamp};
use crate::value::Value;

/// A flow that is to run.
#[derive(Clone, Debug)]
pub struct Submit {
    /// Its name. The same name with the same parameters again is the same flow: so a submit whose answer
    /// was lost is repeated.
    pub uid: Uid,
    /// Its function and parameters.
    pub started: Started,
    /// The caller's key: the same key again returns the first flow, until that is trimmed.
    pub key: Option<CallerKey>,
    /// The flow takes the key of one that has ended without a result, in the transaction that stores it: that one is
    /// listed by the key as before, and no longer found by it.
    pub reruns: bool,
    /// Names by which people look for it, up to [`TAGS`](crate::limits::TAGS).
    pub tags: Vec<String>,
    /// Who has it.
    pub owner: FirstOwner,
    /// How many flows may wait on behalf of its caller; without one it counts for no caller. A flow that is stored
    /// already is not refused.
    pub quota: Option<CallerQuota>,
}

impl Submit {
    /// A flow without a key, which counts for no caller.
    #[must_use]
    pub const fn new(uid: Uid, started: Started, owner: FirstOwner) -> Self {
        Self { uid, started, key: None, reruns: false, tags: Vec::new(), owner, quota: None }
    }
}

/// How many flows may wait on behalf of a caller: flows that have not ended, and that no node runs. A further one is
/// refused with [`Refused::TooManyWaiting`](crate::Refused::TooManyWaiting).
///
/// Flows are counted in the transaction that stores one. Where several processes store at the same moment, each of
/// them may go beyond the quota by what its transaction has, up to a quarter of the quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerQuota {
    /// The caller that the flow counts for.
    pub caller: String,
    /// How many of its flows may wait.
    pub most: u64,
    /// Callers that have a common quota in addition to their own.
    pub group: Option<CallerGroup>,
}

/// Callers whose flows are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerGroup {
    /// How their names begin; printable ASCII characters follow.
    pub prefix: String,
    /// How many flows of all of them may wait.
    pub most: u64,
}

/// A key that a caller chose for a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallerKey {
    /// The scope in which it is unique: user, interface and major version, function.
    pub scope: String,
    /// The key.
    pub key: String,
}

/// The first owner of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FirstOwner {
    /// The node that submits it, with epoch 1.
    Node(Incarnation),
    /// The node that claims it.
    Any,
    /// The node that claims it at this time or later.
    AnyFrom(Timestamp),
    /// The node that claims it when so much time has passed, however a clock jumps.
    AnyAfter(Duration),
}

/// The answer to a [`Submit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Submitted {
    /// The flow is new.
    New,
    /// This flow has the uid or the key, with the same parameters.
    Known(Uid),
}

/// An append of an owner to one flow. All of it is done, or nothing.
#[derive(Clone, Debug)]
pub struct Append {
    /// The flow.
    pub uid: Uid,
    /// The epoch in which the owner has it.
    pub epoch: Epoch,
    /// The version of the template that the owner has; a higher one raises the flow's.
    pub version: u32,
    /// The number of the first record, which is higher than any before it; the others count on. The same
    /// numbers in the same epoch are the same append.
    pub first: u64,
    /// The records.
    pub records: Vec<Record>,
    /// Records that these replace: they are removed.
    pub replaces: Vec<RecordId>,
    /// Numbers of the signals that these have taken: their values are removed from the inbox.
    pub takes: Vec<u64>,
    /// The highest number in the inbox that the owner has seen.
    pub seen: u64,
    /// The condition for it.
    pub condition: Condition,
    /// The disposition of the flow after it.
    pub then: Disposition,
    /// The end of the flow is waited for: it is written before what others do not wait for, where that waits.
    pub is_awaited: bool,
}

/// An event that a flow emits while it runs, for readers: it is no part of its history.
#[derive(Clone, Debug)]
pub struct Emit {
    /// The flow.
    pub uid: Uid,
    /// The epoch in which the owner has it.
    pub epoch: Epoch,
    /// The step that emits it.
    pub path: Path,
    /// The event among those of the step. The same step and key again in the same [run](FlowInfo::run) of the flow is the
    /// same event: the first value stays.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// As for an [`Append`].
    pub is_awaited: bool,
}

impl Emit {
    /// Bytes that it counts for.
    pub(crate) fn bytes(&self) -> u64 {
        (self.path.as_str().len() + self.key.len() + self.value.len()) as u64
    }
}

/// An event that a flow has emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// Its number: 1 and up, without gaps.
    pub number: u64,
    /// When it was stored.
    pub at: Timestamp,
    /// Its value.
    pub value: Value,
}

/// Events of a flow, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmittedPage {
    /// The events.
    pub events: Vec<Emitted>,
    /// The flow has ended, and no other event follows these.
    pub is_last: bool,
}

/// The condition of an [`Append`]. One that ends a flow always depends on there being no cancel
/// that the owner has not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// Nothing else.
    #[default]
    None,
    /// The owner has seen all of the inbox: decides between a signal and a timeout.
    AllSeen,
}

/// The disposition of a flow: what happens to it after an [`Append`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// The owner keeps it, unless the records end it.
    #[default]
    Keep,
    /// The owner releases it, for any node to claim: drain, shutdown.
    Release,
    /// The owner unloads it. It may be claimed after this time, or when its inbox has something that the
    /// owner has not seen.
    Park(Option<Duration>),
    /// The owner unloads it, because something is away or has refused it, such as a lock whose queue is full. It
    /// may be claimed after this time, or when its inbox has news.
    Retry {
        /// When it may be claimed.
        within: Duration,
        /// What it waits for; shown until it has been claimed.
        reason: String,
    },
    /// It waits for an operator, for this reason.
    Pause(String),
}

/// The answer to a [`register`](crate::Journal::register).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The name of the node.
    pub node: Incarnation,
    /// The time.
    pub time: Reading,
}

/// An [`Append`] was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The highest number in the inbox: higher than what the owner has seen if there is news.
    pub inbox: u64,
}

/// A node asks for flows.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The node.
    pub node: Incarnation,
    /// A name of this request, for when its answer is lost: with the same one again, the flows that were
    /// assigned to it are returned again.
    pub ticket: Uid,
    /// The templates that the node has.
    pub programs: Vec<Program>,
    /// How many flows at the most; up to [`BATCH`](crate::limits::BATCH) are assigned. Functions take turns, so none waits
    /// for all that was stored for another one before.
    pub limit: usize,
    /// Flows whose end is waited for: up to [`BATCH`](crate::limits::BATCH) of them are assigned before all others and beyond
    /// the limit, if they may be claimed and are no suspects.
    pub awaited: Vec<Uid>,
    /// How many suspects the node may have at once, including its present ones; at least one.
    pub suspects: usize,
}

/// A template that a node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub template: String,
    /// Its version.
    pub version: u32,
    /// Other versions whose flows it goes on with.
    pub compatible: Vec<u32>,
}

/// A flow that was assigned to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The flow.
    pub uid: Uid,
    /// The epoch that it has now.
    pub epoch: Epoch,
    /// How many owners in a row have died with it since it last got further. If there are any, the new owner writes an
    /// intent before each body and each undo that it runs, also where it would not otherwise: so one that kills its
    /// process is counted. It does the same in the presence of a suspect: else that would seem to be alone.
    pub deaths: u32,
    /// Whether it is a [suspect](FlowState::Suspect), until it gets further.
    pub is_suspect: bool,
}

/// All that is recorded of a flow.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The flow.
    pub flow: FlowInfo,
    /// Its records, oldest first.
    pub records: Vec<StoredRecord>,
    /// The signals and the cancel that others have sent to it.
    pub inbox: Inbox,
}

impl Loaded {
    /// The number that the next record may have.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.records.iter().map(|record| record.id.sequence + 1).max().unwrap_or(0)
    }
}

/// The signals and the cancel that others have sent to a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbox {
    /// Signals that were not taken, oldest first.
    pub signals: Vec<StoredSignal>,
    /// The cancel.
    pub cancel: Option<StoredCancel>,
    /// The highest number assigned so far.
    pub last: u64,
}

/// A signal for a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its identity: the same one again is not stored again, as long as it waits or is among the last
    /// [`TAKEN_SIGNALS`](crate::limits::TAKEN_SIGNALS) taken.
    pub id: Uid,
    /// The name that waits ask for.
    pub name: String,
    /// Its value.
    pub value: Value,
}

impl Signal {
    /// Bytes of its name and value.
    pub(crate) fn bytes(&self) -> u64 {
        (self.name.len() + self.value.len()) as u64
    }
}

/// A signal in the inbox of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSignal {
    /// Its number in the inbox.
    pub number: u64,
    /// The name that waits ask for.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// A flow was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCancel {
    /// Its number in the inbox.
    pub number: u64,
    /// Who or what has cancelled it.
    pub by: CancelledBy,
    /// When.
    pub at: Timestamp,
}

/// Who or what cancels a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each of them ends a flow in its own way")]
pub enum CancelledBy {
    /// A person or a program, by a name for people.
    Person(String),
    /// The limit of the caller, with the error that the caller gets.
    Limit(Failure),
}

impl From<&str> for CancelledBy {
    fn from(name: &str) -> Self {
        Self::Person(name.to_owned())
    }
}

/// The answer to a cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancelled {
    /// The flow ends by this cancel, or by an earlier one.
    Recorded(StoredCancel),
    /// The flow has ended before, or has recorded what the cancel depends on.
    TooLate,
}

/// A flow that has something new in its inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// The flow.
    pub uid: Uid,
    /// The highest number in its inbox.
    pub inbox: u64,
}

/// How a flow goes on that was paused or is a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resume {
    /// Where it was.
    Continue,
    /// Where it was, with this signal in its inbox: it is stored only if the flow goes on by it, so of several orders
    /// at once one is carried out and the others are refused. The limit of signals does not keep it out. The same
    /// signal again does nothing, as for [`signal`](crate::Journal::signal).
    Signal(Signal),
    /// Where it was, and only on nodes whose program has its version, not a compatible one.
    OnItsVersion,
    /// From a step: without these records of it and of the steps after it. Refused with
    /// [`Refused::HasUndone`](crate::Refused::HasUndone) if the flow has undone steps after one of them.
    Without(Vec<RecordId>),
    /// From the beginning: without all records but the first. Its run is raised, so that its effects have
    /// new keys: so they would happen twice if they had happened before. Hence it is refused with
    /// [`Refused::NotUndone`](crate::Refused::NotUndone) while a step is recorded as begun or done, and its
    /// undo is not; a step without an undo counts too, because the journal does not know which steps have
    /// one. Such a flow is cancelled, which undoes it, and submitted again.
    Again,
}

impl Resume {
    /// Whether records are removed.
    pub(crate) const fn removes_records(&self) -> bool {
        match self {
            Self::Without(_) | Self::Again => true,
            Self::Continue | Self::Signal(_) | Self::OnItsVersion => false,
        }
    }
}

/// The description of a flow, without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowInfo {
    /// Its name.
    pub uid: Uid,
    /// Its number in the journal: older flows have lower ones.
    pub number: u64,
    /// Its template.
    pub template: String,
    /// The highest version of the template that wrote to it.
    pub version: u32,
    /// Its state.
    pub state: FlowState,
    /// Its epoch.
    pub epoch: Epoch,
    /// The node that has it.
    pub owner: Option<Incarnation>,
    /// How often it began anew: part of the keys of its effects.
    pub run: u32,
    /// 1 if its owner died with an open effect, and one more for each death in a row of an owner that had no
    /// other flow with one.
    pub claims: u32,
    /// When it was submitted.
    pub created: Timestamp,
    /// When it goes on, if it waits for a time.
    pub due: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Why it is paused, a dead letter, a suspect, or [tried again](Disposition::Retry) later.
    pub reason: Option<String>,
    /// The cancel.
    pub cancel: Option<StoredCancel>,
    /// How it ended: `success`, `Cancelled`, or the code of its error; `None` if a program before format 4 has ended it.
    pub outcome: Option<String>,
    /// In a list: the local id of the user that it acts for.
    pub user: Option<String>,
    /// In a list: the key of its caller.
    pub key: Option<String>,
    /// In a list: its tags, in their order as bytes.
    pub tags: Vec<String>,
}

/// The state of a flow. The numbers are also on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FlowState {
    /// It has run, and may be claimed.
    Ready = 0,
    /// It has not run yet, and may be claimed.
    New = 1,
    /// Its owner died with an open effect: a node has [few](Claim::suspects) of these at once.
    Suspect = 2,
    /// A node has it.
    Running = 3,
    /// It waits for a time or for its inbox, on no node.
    Parked = 4,
    /// It waits for an operator, because its program has changed.
    Paused = 5,
    /// A dead letter: its owners died too often. It waits for an operator.
    Dead = 6,
    /// It has ended.
    Ended = 7,
}

/// A schedule that is kept with the flows, so that each node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSchedule {
    /// Its name.
    pub name: String,
    /// What begins, and when, as programs write it.
    pub value: Value,
}

/// A schedule that is kept, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSchedule {
    /// Its name.
    pub name: String,
    /// What begins, and when; or why that cannot be opened.
    pub value: Result<Value, String>,
}

/// Which flows to list.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only this flow.
    pub uid: Option<Uid>,
    /// Only flows in this state.
    pub state: Option<FlowState>,
    /// Only flows that have not ended, as they are at one moment.
    pub open: bool,
    /// Only flows of this template.
    pub template: Option<String>,
    /// Only flows of templates without this character.
    pub template_without: Option<char>,
    /// Only flows that act for the user with this local id, see [`Started::user`].
    pub user: Option<String>,
    /// Only flows with this key of a caller, in whichever scope.
    pub key: Option<String>,
    /// Only flows with this tag.
    pub tag: Option<String>,
    /// Only flows with a key of a caller in this scope: of those that have not ended, else all are looked through.
    pub scope: Option<String>,
    /// Only flows that were submitted at this time or after it.
    pub from: Option<Timestamp>,
    /// Only flows that were submitted before this time.
    pub before: Option<Timestamp>,
    /// Only flows with a higher number: where the page before ended.
    pub after: u64,
    /// How many at the most; up to [`BATCH`](crate::limits::BATCH) are returned.
    pub limit: usize,
}

/// What a journal has, as [`count`](crate::Journal::count) answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The time.
    pub time: Timestamp,
    /// The open flows of the templates that were asked for, by template and state; states without a flow are missing.
    pub flows: Vec<OpenFlows>,
    /// How many flows are stored, also ended ones: the numbers from the oldest one to the newest one, so flows that were
    /// removed in between are counted too.
    pub stored: u64,
    /// Bytes on disk; `None` in memory.
    pub bytes: Option<u64>,
    /// Bytes of a write-ahead log that is the journal's own.
    pub log_bytes: Option<u64>,
}

/// The flows of a template that are in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "storages make it")]
pub struct OpenFlows {
    /// The template.
    pub template: String,
    /// The state.
    pub state: FlowState,
    /// How many there are: [`COUNTED`](crate::limits::COUNTED) stands for more as well.
    pub count: u64,
    /// The oldest one; of more than are counted, the oldest one of the lowest version.
    pub oldest: Uid,
    /// Its epoch, which each claim raises.
    pub epoch: Epoch,
    /// When it was submitted.
    pub created: Timestamp,
}

/// A flow, and how it ended if it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The flow.
    pub flow: FlowInfo,
    /// How it ended.
    pub ending: Option<Ending>,
}

/// How long the lease of a node is, unless something speaks for another time: 10 s. Renewed each third,
/// it survives two lost renewals; the flows of a node that stands still go on after it.
pub const LEASE: Duration = Duration::from_secs(10);

/// How often a node looks for work, news and due times, unless [`changes`](crate::Journal::changes) notifies it
/// earlier: once a second, because a notice may be lost with a connection.
pub const POLL: Duration = Duration::from_secs(1);

/// How long the [session](crate::Journal::session) of a process is gone at least, before the leases of its nodes end:
/// 0.4 s, in which a process that lives has a new one.
pub const GONE: Duration = Duration::from_millis(400);
