//! The interface of a journal.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;

use crate::error::{Error, NotWritten};
use crate::id::{Incarnation, Uid};
use crate::path::Path;
use crate::request::{
    Append, Appended, CallerKey, Cancelled, CancelledBy, Claim, Claimed, Counts, Emit, EmittedPage,
    FlowInfo, Inbox, Loaded, News, POLL, Query, ReadSchedule, Registered, Resume, Signal, Status,
    StoredSchedule, Submit, Submitted,
};
use crate::time::{Reading, Timestamp};
use crate::transaction::Database;

/// The answer of a journal, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Keeps the history of flows. An answer means that the request is on disk.
///
/// # Errors
/// Each method says with [`Error::repeat`] what may be done about an error. After
/// [`Error::AnswerLost`] the same request is repeated until it is answered; that does nothing a second
/// time, because each request has an identity: a uid, the numbers of its records, a ticket.
///
/// # Cancel safety
/// A request whose answer is dropped may be done or not.
pub trait Journal: Send + Sync + fmt::Debug + 'static {
    /// Stores a new flow.
    ///
    /// # Errors
    /// [`Refused::KeyInUse`](crate::Refused::KeyInUse) if its key or its uid belongs to a flow with
    /// another template or other parameters; [`Refused::NoLease`](crate::Refused::NoLease) if it is for a
    /// node without a lease.
    fn submit(&self, submit: Submit) -> Answer<'_, Submitted>;

    /// Appends to flows of an owner, in one transaction. The answers are in the order of the entries.
    /// An entry that cannot be written does not keep the others from it: the epoch of each flow is
    /// compared in the transaction that writes.
    ///
    /// # Errors
    /// [`Refused::TooLarge`](crate::Refused::TooLarge) if there are more than
    /// [`BATCH`](crate::limits::BATCH) entries.
    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, NotWritten>>>;

    /// Assigns flows to a node, with higher epochs: flows whose end is [waited for](Claim::awaited), then flows that had begun
    /// before new ones, functions in turns, and of each the oldest first. On the way
    /// it takes flows from nodes whose lease has ended. A node has no more suspects than it [asks
    /// for](Claim::suspects): flows whose owner died while an effect was open.
    ///
    /// # Errors
    /// [`Refused::NoLease`](crate::Refused::NoLease) if the node has no lease.
    fn claim(&self, claim: Claim) -> Answer<'_, Vec<Claimed>>;

    /// Everything that is stored of a flow. An owner that claimed it is the only one who appends, so what it loads then
    /// is complete. Others may see the flow as it was before an append, and its records after it.
    ///
    /// # Errors
    /// [`Refused::NoFlow`](crate::Refused::NoFlow); [`Error::UnknownRecord`] if a later program wrote to
    /// it, or the keys do not open it.
    fn load(&self, uid: Uid) -> Answer<'_, Loaded>;

    /// The signals and the cancel that others have sent to a flow.
    ///
    /// # Errors
    /// [`Refused::NoFlow`](crate::Refused::NoFlow).
    fn inbox(&self, uid: Uid) -> Answer<'_, Inbox>;

    /// The flows of a node whose inbox has something that they have not seen: up to
    /// [`BATCH`](crate::limits::BATCH).
    ///
    /// # Errors
    /// The errors of the storage.
    fn news(&self, node: Incarnation) -> Answer<'_, Vec<News>>;

    /// The flow that has this key, if there is one.
    ///
    /// # Errors
    /// The errors of the storage.
    fn find(&self, key: CallerKey) -> Answer<'_, Option<Uid>>;

    /// A flow, and how it ended.
    ///
    /// # Errors
    /// [`Refused::NoFlow`](crate::Refused::NoFlow).
    fn status(&self, uid: Uid) -> Answer<'_, Status>;

    /// Flows, oldest first.
    ///
    /// # Errors
    /// The errors of the storage.
    fn list(&self, query: Query) -> Answer<'_, Vec<FlowInfo>>;

    /// How many flows of these templates are open, by state, and since when; how much is stored. It reads an index up to a
    /// bound, so it may be asked every few seconds.
    ///
    /// # Errors
    /// The errors of the storage.
    fn count(&self, templates: Vec<String>) -> Answer<'_, Counts>;

    /// Stores a signal, whether or not the flow waits for it already.
    ///
    /// # Errors
    /// [`Refused::NoFlow`](crate::Refused::NoFlow), [`Refused::HasEnded`](crate::Refused::HasEnded),
    /// [`Refused::TooManySignals`](crate::Refused::TooManySignals), or
    /// [`Refused::TooManySignalBytes`](crate::Refused::TooManySignalBytes).
    fn signal(&self, uid: Uid, signal: Signal) -> Answer<'_, ()>;

    /// Stores an event of a flow of an owner, under its next number. The same step and key again changes nothing, so an emit
    /// whose answer was lost is repeated. Events stay with the flow until it is removed, whatever becomes of its records.
    /// One that is refused is refused alone.
    ///
    /// # Errors
    /// [`NotWritten::Stale`], [`NotWritten::TooManyEvents`], or
    /// [`Refused::TooLarge`](crate::Refused::TooLarge) inside.
    fn emit(&self, emit: Emit) -> Answer<'_, Result<(), NotWritten>>;

    /// Up to so many events of a flow whose number is higher than `after`, and no more than
    /// [`BATCH`](crate::limits::BATCH).
    ///
    /// # Errors
    /// [`Refused::NoFlow`](crate::Refused::NoFlow); [`Error::UnknownValue`] if the keys do not open one.
    fn emitted(&self, uid: Uid, after: u64, most: usize) -> Answer<'_, EmittedPage>;

    /// Cancels a flow, unless the step at a path is recorded as done: of a cancel, that record and an end, the first wins.
    /// `by` says who or what cancelled it.
    ///
    /// # Errors
    /// [`Refused::NoFlow`](crate::Refused::NoFlow).
    fn cancel(&self, uid: Uid, by: CancelledBy, unless: Option<Path>) -> Answer<'_, Cancelled>;

    /// Lets a flow go on that is paused or a dead letter.
    ///
    /// # Errors
    /// [`Refused::NoFlow`](crate::Refused::NoFlow),
    /// [`Refused::NotStopped`](crate::Refused::NotStopped),
    /// [`Refused::NotUndone`](crate::Refused::NotUndone) or
    /// [`Refused::HasUndone`](crate::Refused::HasUndone).
    fn resume(&self, uid: Uid, how: Resume) -> Answer<'_, ()>;

    /// Drops flows that ended so long ago, with their keys, oldest first: up to
    /// [`BATCH`](crate::limits::BATCH). Returns their number. Only time counts in which nodes ran, and no jump
    /// of a clock does.
    ///
    /// # Errors
    /// The errors of the storage.
    fn trim(&self, age: Duration) -> Answer<'_, usize>;

    /// Removes flows that have ended, with their records, inboxes and keys; others of these names are left as they are.
    /// What a storage keeps of removed rows is said there.
    ///
    /// # Errors
    /// [`Refused::TooLarge`](crate::Refused::TooLarge) if there are more than [`BATCH`](crate::limits::BATCH).
    fn remove(&self, uids: Vec<Uid>) -> Answer<'_, ()>;

    /// All schedules, by name. One that cannot be opened does not keep the others from it.
    ///
    /// # Errors
    /// The errors of the storage.
    fn schedules(&self) -> Answer<'_, Vec<ReadSchedule>>;

    /// Stores a schedule, in place of one of its name.
    ///
    /// # Errors
    /// [`Refused::TooLarge`](crate::Refused::TooLarge) if there are [`BATCH`](crate::limits::BATCH) of other names.
    fn put_schedule(&self, schedule: StoredSchedule) -> Answer<'_, ()>;

    /// Removes the schedule of this name; returns whether there was one.
    ///
    /// # Errors
    /// The errors of the storage.
    fn remove_schedule(&self, name: String) -> Answer<'_, bool>;

    /// A lease for a node that starts, and the time. The clock of both is the journal's.
    ///
    /// # Errors
    /// The errors of the storage.
    fn register(&self, lease: Duration) -> Answer<'_, Registered>;

    /// Makes the lease of a node end after this time, and returns the time. With zero the node abandons it.
    ///
    /// # Errors
    /// [`Refused::NoLease`](crate::Refused::NoLease) if the lease has expired: others may have the
    /// node's flows. It has to drop them and register again.
    fn renew(&self, node: Incarnation, lease: Duration) -> Answer<'_, Reading>;

    /// A number that changes when there may be flows to claim or news. It may change without a reason,
    /// and a change may be missed: look each [`POLL`] as well.
    fn changes(&self) -> watch::Receiver<u64>;

    /// A number that changes when the session begins or ends by which other nodes know that this process lives. When it
    /// has been gone for [`GONE`](crate::GONE), others may have the flows of its nodes. So a node relies on its lease
    /// only as long as the number is the one before it asked for it; else it renews the lease first. It never changes
    /// where one process uses the journal, or where nodes die with their leases alone.
    fn session(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    /// Since when the journal has not answered this process, or takes no changes; `None` while it does, and where it is in
    /// this process. The executors of its nodes are not ready meanwhile.
    fn lost_since(&self) -> Option<Timestamp> {
        None
    }

    /// How long a node that has nothing may wait until it looks again, although nothing [changes](Self::changes):
    /// [`POLL`], unless the journal misses no change and knows when something becomes due.
    fn next_look(&self, _node: Incarnation) -> Duration {
        POLL
    }

    /// The database in which steps commit their [`Transaction`](crate::Transaction)s, if the journal has
    /// one. A journal around another one returns the database of the other.
    fn database(&self) -> Option<Database> {
        None
    }
}
