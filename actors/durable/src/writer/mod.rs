//! Appends the records of one flow to the journal.

mod resting;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_journal::request::{Append, Appended, Condition, Disposition, Emit};
use asyncsteps_journal::transaction::{Committed, Prepared, StepEntry};
use asyncsteps_journal::{
    Epoch, Error, Event, Journal, NotWritten, Path, Record, RecordId, Repeat, Uid, Value,
};
use tokio::sync::Notify;

use crate::held::Held;
use crate::until::until;

pub(crate) use resting::RestingWriter;

/// The pauses between repetitions of an append that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A record of a flow, for its owner: later ones have higher numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordTicket(u64);

/// Appends the records of one flow, in order. Records that are added while an append is in flight go
/// with the next one. A task appends them, until the flow [rests](Self::rest).
pub(crate) struct FlowWriter {
    journal: Arc<dyn Journal>,
    uid: Uid,
    epoch: Epoch,
    version: u32,
    /// What other threads see of the flow, if they do.
    held: OnceCell<Arc<Held>>,
    /// The end of the flow was waited for when this node began with it.
    pub(crate) is_awaited: Cell<bool>,
    queue: RefCell<AppendQueue>,
    /// The highest number in the inbox that this flow has seen.
    seen: Cell<u64>,
    /// The highest number in the inbox that this flow was notified of.
    inbox: Cell<u64>,
    /// The task that appends was spawned.
    is_spawned: Cell<bool>,
    /// The task ends when nothing waits.
    rests: Cell<bool>,
    /// Records wait, and nothing is being appended.
    work: Notify,
    /// An append has ended, or there are no more.
    appended: Notify,
    /// The inbox has entries that are new.
    news: Notify,
    /// The flow cannot append any more.
    stopped: Notify,
}

#[derive(Default)]
struct AppendQueue {
    waiting: Vec<Record>,
    /// The tickets of these.
    tickets: Vec<RecordTicket>,
    /// Stored records that the waiting records replace.
    replaces: Vec<RecordId>,
    /// The names of the stored records that may be replaced, by their tickets, in order.
    stored_as: VecDeque<(RecordTicket, RecordId)>,
    /// Records that are being appended, and are not needed any more.
    outdated: BTreeSet<RecordTicket>,
    /// The number of the next record in the journal.
    next: u64,
    /// The ticket of the next record that is added.
    added: RecordTicket,
    /// Records with lower tickets wait no more.
    stored: RecordTicket,
    /// Something is being appended.
    is_appending: bool,
    failed: Option<Stopped>,
}

impl AppendQueue {
    /// A ticket for a record.
    fn ticket(&mut self) -> RecordTicket {
        let ticket = self.added;
        self.added = RecordTicket(ticket.0 + 1);
        ticket
    }

    /// Records were stored under these names.
    fn written(&mut self, records: impl Iterator<Item = (RecordTicket, RecordId)>) {
        for (ticket, id) in records {
            if self.outdated.remove(&ticket) {
                self.replaces.push(id);
            } else {
                self.stored_as.push_back((ticket, id));
            }
            self.settled(Some(&ticket));
        }
    }

    /// Records up to this one wait no more.
    fn settled(&mut self, last: Option<&RecordTicket>) {
        if let Some(RecordTicket(last)) = last {
            self.stored = self.stored.max(RecordTicket(last + 1));
        }
    }

    /// These records are not needed any more. One that waits is never written.
    fn replace(&mut self, replaced: &[RecordTicket]) {
        for ticket in replaced {
            let stored = self.stored_as.binary_search_by_key(ticket, |(other, _)| *other);
            if let Some((_, id)) = stored.ok().and_then(|at| self.stored_as.remove(at)) {
                self.replaces.push(id);
            } else if let Some(at) = self.tickets.iter().position(|other| other == ticket) {
                self.waiting.remove(at);
                self.tickets.remove(at);
            } else {
                self.outdated.insert(*ticket);
            }
        }
    }
}

/// Why a flow cannot append any more.
#[derive(Clone, Debug)]
pub(crate) enum Stopped {
    /// Another node has the flow, or it has ended.
    Lost,
    /// The journal does not take the records, for this reason.
    Refused(String),
}

/// The answer to an append.
pub(crate) enum AppendAnswer {
    Written(Appended),
    /// The inbox has news on which the append depends.
    Unseen,
    Stopped(Stopped),
}

impl FlowWriter {
    /// `next` is the number that the next record gets.
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        (uid, epoch, version): (Uid, Epoch, u32),
        next: u64,
        seen: u64,
    ) -> Rc<Self> {
        let queue = RefCell::new(AppendQueue { next, ..AppendQueue::default() });
        Rc::new(Self {
            journal,
            uid,
            epoch,
            version,
            held: OnceCell::new(),
            is_awaited: Cell::new(false),
            queue,
            seen: Cell::new(seen),
            inbox: Cell::new(seen),
            is_spawned: Cell::new(false),
            rests: Cell::new(false),
            work: Notify::new(),
            appended: Notify::new(),
            news: Notify::new(),
            stopped: Notify::new(),
        })
    }

    /// The ticket of a record that was stored before.
    pub(crate) fn loaded(&self, id: RecordId) -> RecordTicket {
        let mut queue = self.queue.borrow_mut();
        let ticket = queue.ticket();
        queue.stored = queue.added;
        queue.stored_as.push_back((ticket, id));
        ticket
    }

    /// The flow is held as this says.
    pub(crate) fn hold(&self, held: &Arc<Held>) {
        self.held.get_or_init(|| Arc::clone(held));
    }

    pub(crate) fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// The ticket of the record that is added next.
    pub(crate) fn next(&self) -> RecordTicket {
        self.queue.borrow().added
    }

    /// Adds a record that replaces others, which are removed with it.
    pub(crate) fn add(self: &Rc<Self>, record: Record, replaced: &[RecordTicket]) -> RecordTicket {
        let mut queue = self.queue.borrow_mut();
        // what was not sent stays here, whatever blocks the arbiter
        self.held.get().filter(|_| queue.waiting.is_empty()).inspect(|held| held.keep());
        queue.replace(replaced);
        let ticket = queue.ticket();
        queue.waiting.push(record);
        queue.tickets.push(ticket);
        drop(queue);
        if self.is_spawned.replace(true) {
            self.work.notify_one();
        } else {
            actix_rt::spawn(Rc::clone(self).run());
        }
        ticket
    }

    /// Nothing more is added for long, or ever: waiting records are appended, and then the task ends, which takes more
    /// memory than the flow. A later record begins another one.
    pub(crate) fn rest(&self) {
        if self.is_spawned.get() {
            self.rests.set(true);
            self.work.notify_one();
        }
    }

    /// Notes that the flow has seen the inbox up to this number; returns the number before.
    pub(crate) fn has_seen(&self, number: u64) -> u64 {
        self.seen.replace(self.seen.get().max(number))
    }

    /// There is something in the inbox that the flow has not seen.
    pub(crate) fn has_news(&self) {
        self.tell_inbox(self.seen.get() + 1);
    }

    /// The inbox has entries up to this number.
    pub(crate) fn tell_inbox(&self, number: u64) {
        if number > self.inbox.get() {
            self.inbox.set(number);
            self.news.notify_waiters();
        }
    }

    /// Whether the inbox has something that the flow has not seen.
    pub(crate) fn has_unseen(&self) -> bool {
        self.inbox.get() > self.seen.get()
    }

    /// Completes when it has.
    pub(crate) async fn news(&self) {
        until(&self.news, || self.has_unseen().then_some(())).await;
    }

    /// Completes when all records that were added before are stored.
    pub(crate) fn stored(self: &Rc<Self>) -> impl Future<Output = Result<(), Stopped>> + 'static {
        let (writer, added) = (Rc::clone(self), self.queue.borrow().added);
        async move {
            let look = || {
                let queue = writer.queue.borrow();
                let is_stored = queue.stored >= added;
                is_stored.then_some(Ok(())).or_else(|| queue.failed.clone().map(Err))
            };
            until(&writer.appended, look).await
        }
    }

    /// Whether this record is stored, or was replaced by one that is.
    pub(crate) fn is_stored(&self, record: RecordTicket) -> bool {
        self.queue.borrow().stored > record
    }

    /// Whether this record waits to be appended.
    pub(crate) fn is_waiting(&self, record: RecordTicket) -> bool {
        self.queue.borrow().tickets.contains(&record)
    }

    /// Whether the flow cannot append any more.
    pub(crate) fn has_stopped(&self) -> bool {
        self.queue.borrow().failed.is_some()
    }

    /// Completes when the flow cannot append any more.
    pub(crate) async fn stopped(&self) -> Stopped {
        until(&self.stopped, || self.queue.borrow().failed.clone()).await
    }

    /// Appends queued records at once, as tasks of the arbiter see them.
    async fn run(self: Rc<Self>) {
        loop {
            while let Some((entry, tickets)) = self.next_entry() {
                let ids = self.ids(entry.first);
                match self.append(entry).await {
                    AppendAnswer::Written(written) => {
                        self.queue.borrow_mut().written(tickets.into_iter().zip(ids));
                        self.tell_inbox(written.inbox);
                    }
                    AppendAnswer::Unseen => self.stop(Stopped::Lost),
                    AppendAnswer::Stopped(stopped) => self.stop(stopped),
                }
                self.queue.borrow_mut().is_appending = false;
                self.appended.notify_waiters();
            }
            let (failed, waits) = {
                let queue = self.queue.borrow();
                (queue.failed.is_some(), !queue.waiting.is_empty())
            };
            if failed || !waits && self.rests.replace(false) {
                self.is_spawned.set(false);
                return;
            }
            self.work.notified().await;
        }
    }

    /// The queued records; `None` if there is nothing to append, or something else is being
    /// appended.
    fn next_entry(&self) -> Option<(Append, Vec<RecordTicket>)> {
        let mut queue = self.queue.borrow_mut();
        if queue.is_appending || queue.waiting.is_empty() || queue.failed.is_some() {
            return None;
        }
        queue.is_appending = true;
        self.held.get().inspect(|held| held.let_go());
        let (tickets, records) = (mem::take(&mut queue.tickets), mem::take(&mut queue.waiting));
        let (first, replaces) = (queue.next, mem::take(&mut queue.replaces));
        queue.next += records.len() as u64;
        Some((Append { replaces, ..self.entry(first, records) }, tickets))
    }

    /// Appends an entry after all that were added before; returns the ticket of its first record as
    /// well.
    pub(crate) async fn append_last(
        self: &Rc<Self>,
        change: impl FnOnce(&mut Append),
    ) -> (AppendAnswer, RecordTicket) {
        let turn = match self.turn().await {
            Ok(turn) => turn,
            Err(stopped) => return (AppendAnswer::Stopped(stopped), RecordTicket::default()),
        };
        let mut entry = self.entry(turn.next, Vec::new());
        change(&mut entry);
        let tickets = self.tickets(entry.records.len());
        let ticket = tickets.first().copied().unwrap_or_default();
        let answer = self.append(entry).await;
        match &answer {
            AppendAnswer::Written(written) => turn.written(tickets, *written),
            AppendAnswer::Unseen => self.queue.borrow_mut().settled(tickets.last()),
            AppendAnswer::Stopped(stopped) => self.stop(stopped.clone()),
        }
        (answer, ticket)
    }

    /// Commits the transaction of the step at this path with its record, and with records that come before that, after
    /// all that were added before. Returns the records.
    pub(crate) async fn commit(
        self: &Rc<Self>,
        mut prepared: Box<dyn Prepared>,
        (path, attempt): (Path, u32),
        before: Vec<Record>,
    ) -> Result<Vec<(RecordTicket, Record)>, NotCommitted> {
        let turn = self.turn().await?;
        // records that are added meanwhile come after these
        let tickets = self.tickets(before.len() + 1);
        let append = self.entry(turn.next, before);
        let step = StepEntry { append, path, attempt };
        let (written, record) = match self.answered(async || prepared.commit(&step).await).await? {
            Committed::Written(written, record) => (written, record),
            Committed::Failed(error) => {
                self.queue.borrow_mut().settled(tickets.last());
                return Err(NotCommitted::Failed(error));
            }
            Committed::NotWritten(why) => {
                let stopped = stopped_by(why);
                self.stop(stopped.clone());
                return Err(NotCommitted::Stopped(stopped));
            }
        };
        let StepEntry { mut append, .. } = step;
        append.records.push(record);
        turn.written(tickets.clone(), written);
        Ok(tickets.into_iter().zip(append.records).collect())
    }

    /// Stores an event of the step at this path, beside the records.
    pub(crate) async fn emit(
        &self,
        path: Path,
        key: &str,
        value: Value,
    ) -> Result<Result<(), NotWritten>, Stopped> {
        let (uid, epoch, is_awaited) = (self.uid, self.epoch, self.is_awaited.get());
        let emit = Emit { uid, epoch, path, key: key.to_owned(), value, is_awaited };
        match self.answered(async || self.journal.emit(emit.clone()).await).await? {
            Err(why @ NotWritten::Stale { .. }) => Err(stopped_by(why)),
            stored => Ok(stored),
        }
    }

    /// The names that records from this number on get.
    fn ids(&self, first: u64) -> impl Iterator<Item = RecordId> + use<> {
        let epoch = self.epoch;
        (first..).map(move |sequence| RecordId { epoch, sequence })
    }

    /// Tickets for `count` records.
    fn tickets(&self, count: usize) -> Vec<RecordTicket> {
        let mut queue = self.queue.borrow_mut();
        (0..count).map(|_| queue.ticket()).collect()
    }

    /// Waits until nothing is being appended, and keeps others from it.
    async fn turn(self: &Rc<Self>) -> Result<AppendTurn<'_>, Stopped> {
        let look = || {
            let mut queue = self.queue.borrow_mut();
            if let Some(stopped) = &queue.failed {
                return Some(Err(stopped.clone()));
            }
            if queue.is_appending || !queue.waiting.is_empty() {
                return None;
            }
            queue.is_appending = true;
            Some(Ok(AppendTurn { writer: self, next: queue.next }))
        };
        until(&self.appended, look).await
    }

    /// Waits a moment before the journal is asked again.
    pub(crate) async fn pause(&self) {
        timer::sleep_until(clock::now() + LONGEST_PAUSE).await;
    }

    /// Nothing is appended any more.
    pub(crate) fn stop(&self, stopped: Stopped) {
        self.queue.borrow_mut().failed.get_or_insert(stopped);
        for waiting in [&self.stopped, &self.appended] {
            waiting.notify_waiters();
        }
        self.work.notify_one();
    }

    fn entry(&self, first: u64, records: Vec<Record>) -> Append {
        // a signal is in the inbox no more when its record is stored
        let takes = records.iter().filter_map(|record| {
            if let Event::Signal(taken) = &record.event { Some(taken.number) } else { None }
        });
        let takes = takes.collect();
        Append {
            uid: self.uid,
            epoch: self.epoch,
            version: self.version,
            first,
            records,
            replaces: Vec::new(),
            takes,
            seen: self.seen.get(),
            condition: Condition::None,
            then: Disposition::Keep,
            is_awaited: self.is_awaited.get(),
        }
    }

    async fn append(&self, entry: Append) -> AppendAnswer {
        match self.answered(async || self.journal.append(vec![entry.clone()]).await).await {
            Ok(mut answers) => match answers.pop() {
                Some(answer) => answer_of(answer),
                None => AppendAnswer::Stopped(refused("the journal gave no answer")),
            },
            Err(stopped) => AppendAnswer::Stopped(stopped),
        }
    }

    /// Repeats a request until it is answered.
    async fn answered<T>(
        &self,
        mut ask: impl AsyncFnMut() -> Result<T, Error>,
    ) -> Result<T, Stopped> {
        let mut pause = FIRST_PAUSE;
        loop {
            let answer = tokio::select! {
                biased;
                answer = ask() => answer,
                stopped = self.stopped() => return Err(stopped),
            };
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if error.repeat() == Repeat::Never {
                return Err(refused(error));
            }
            tracing::warn!(flow = %self.uid, %error, "the journal does not answer: trying again");
            tokio::select! {
                biased;
                () = timer::sleep_until(clock::now() + pause) => {}
                stopped = self.stopped() => return Err(stopped),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// The only appender, until this is dropped; then the records that were added meanwhile are
/// appended.
struct AppendTurn<'a> {
    writer: &'a Rc<FlowWriter>,
    /// The number of the next record.
    next: u64,
}

impl AppendTurn<'_> {
    /// Records with these tickets were stored.
    fn written(&self, tickets: Vec<RecordTicket>, written: Appended) {
        let mut queue = self.writer.queue.borrow_mut();
        queue.next += tickets.len() as u64;
        queue.written(tickets.into_iter().zip(self.writer.ids(self.next)));
        drop(queue);
        self.writer.tell_inbox(written.inbox);
    }
}

impl Drop for AppendTurn<'_> {
    fn drop(&mut self) {
        self.writer.queue.borrow_mut().is_appending = false;
        self.writer.appended.notify_waiters();
        self.writer.work.notify_one();
    }
}

/// Why the transaction of a step is not committed.
pub(crate) enum NotCommitted {
    /// Its body failed.
    Failed(asyncsteps_core::Error),
    Stopped(Stopped),
}

impl From<Stopped> for NotCommitted {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

fn answer_of(answer: Result<Appended, NotWritten>) -> AppendAnswer {
    match answer {
        Ok(written) => AppendAnswer::Written(written),
        Err(NotWritten::Unseen { .. }) => AppendAnswer::Unseen,
        Err(why) => AppendAnswer::Stopped(stopped_by(why)),
    }
}

fn stopped_by(why: NotWritten) -> Stopped {
    if matches!(why, NotWritten::Stale { .. }) { Stopped::Lost } else { refused(why) }
}

fn refused(reason: impl ToString) -> Stopped {
    Stopped::Refused(reason.to_string())
}

#[cfg(test)]
mod tests {
    use asyncsteps_journal::memory::{Fault, Memory, Operation};
    use asyncsteps_journal::record::Iteration;
    use asyncsteps_journal::transaction::Local;
    use tokio::task::LocalSet;

    use super::*;

    /// A transaction that takes a second.
    struct Slow;

    impl Prepared for Slow {
        fn commit<'a>(&'a mut self, _: &'a StepEntry) -> Local<'a, Result<Committed, Error>> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(Committed::Written(Appended { inbox: 0 }, record(1)))
            })
        }
    }

    fn record(index: u64) -> Record {
        let state = Value::encode(&()).expect("it is small");
        Record::new(Path::template("test"), Event::Iteration(Iteration { index, state }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_that_is_added_during_a_commit_is_stored_after_it() {
        let never = |_: Operation| Fault::NeverAnswered;
        let journal = Arc::new(Memory::default().faults(never));
        let uid = Uid::random().expect("there is chance");
        let writer = FlowWriter::new(journal, (uid, Epoch::new(1), 1), 1, 0);
        let tasks = LocalSet::new();
        let added = tasks.run_until(async {
            let commit = writer.commit(Box::new(Slow), (Path::template("test"), 1), Vec::new());
            let add = async { writer.add(record(2), &[]) };
            let (committed, added) = tokio::join!(commit, add);
            assert!(committed.is_ok_and(|records| writer.is_stored(records[0].0)));
            added
        });
        assert!(!writer.is_stored(added.await));
    }
}
