//! A journal in memory, for tests and simulations: it forgets everything with its process, keeps to
//! all other rules, and fails on demand.

mod emits;
mod faults;
mod store;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::error::{Error, NotWritten};
use crate::id::{Incarnation, Uid};
use crate::journal::{Answer, Journal};
use crate::limits::Limits;
use crate::moment::Moment;
use crate::path::Path;
use crate::request::{
    Append, Appended, CallerKey, Cancelled, CancelledBy, Claim, Claimed, Counts, Emit, EmittedPage,
    FlowInfo, Inbox, Loaded, News, POLL, Query, ReadSchedule, Registered, Resume, Signal, Status,
    StoredSchedule, Submit, Submitted,
};
use crate::time::{Clock, Reading, SystemClock};
use store::MemoryStore;

pub use faults::{Fault, Faults, NoFaults, Operation, SeededFaults};

/// How long a node waits until it looks again if nothing becomes due.
const LONGEST_LOOK: Duration = Duration::from_secs(86_400);

/// A journal in memory. Clones share it, so a test that lets a node crash passes a clone to the next
/// one.
///
/// It has no time of its own and starts nothing, so in a simulation it is as deterministic as its clock
/// and its faults. A claim looks at every flow that has not ended, a list at every flow: it is made for thousands of them.
#[derive(Clone, derive_more::Debug)]
#[debug("Memory {{ .. }}")]
pub struct Memory {
    store: Arc<Mutex<MemoryStore>>,
    faults: Arc<Mutex<dyn Faults>>,
    clock: Arc<dyn Clock>,
    changes: Arc<Mutex<Subscriptions>>,
    session: Arc<Mutex<Subscriptions>>,
}

/// A number, and the receivers of its changes, each with a channel of its own: the waiters of one channel wake in a random
/// order, which a simulation could not repeat.
#[derive(Default)]
struct Subscriptions {
    number: u64,
    senders: Vec<watch::Sender<u64>>,
}

impl Subscriptions {
    fn add(&mut self) -> watch::Receiver<u64> {
        let (sender, receiver) = watch::channel(self.number);
        self.senders.retain(|sender| !sender.is_closed());
        self.senders.push(sender);
        receiver
    }

    /// Notifies all of a change, in the order in which they subscribed.
    fn notify(&mut self) {
        self.number += 1;
        for sender in &self.senders {
            sender.send_replace(self.number);
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(SystemClock)
    }
}

impl Memory {
    /// An empty journal with this clock.
    #[must_use]
    pub fn new(clock: impl Clock) -> Self {
        Self {
            store: Arc::new(Mutex::new(MemoryStore::new(Limits::default()))),
            faults: Arc::new(Mutex::new(NoFaults)),
            clock: Arc::new(clock),
            changes: Arc::default(),
            session: Arc::default(),
        }
    }

    /// Sets its limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        self.store.lock().limits = limits;
        self
    }

    /// Sets the keys that seal what is recorded, for all clones.
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn keys(self, keys: crate::Keys) -> Self {
        self.store.lock().seal = Some(keys).into();
        self
    }

    /// The same journal seen by this clock, as by another machine.
    #[must_use]
    pub fn clock(self, clock: impl Clock) -> Self {
        Self { clock: Arc::new(clock), session: Arc::default(), ..self }
    }

    /// The same journal as seen by another machine, with faults, which are asked before each operation of this clone and
    /// its clones.
    #[must_use]
    pub fn faults(self, faults: impl Faults) -> Self {
        let faults = Arc::new(Mutex::new(faults));
        Self { faults, session: Arc::default(), ..self }
    }

    /// The [session](Journal::session) of this clone and its clones begins or ends.
    pub fn change_session(&self) {
        self.session.lock().notify();
    }

    /// Ends the lease of a node at once, as when its [session](Journal::session) has been gone for
    /// [`GONE`](crate::GONE).
    pub fn end_lease(&self, node: Incarnation) {
        self.store.lock().end_lease(node);
        self.changes.lock().notify();
    }

    fn answer<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        work: impl FnOnce(&mut MemoryStore, Moment) -> Result<T, Error> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let fault = self.faults.lock().next(operation);
            if let Fault::Delayed(turns) = fault {
                wait(turns).await;
            }
            if fault == Fault::NotDone {
                return Err(Error::Unavailable(Arc::new(Injected)));
            }
            if fault == Fault::DiskFull {
                return Err(Error::DiskFull(Arc::new(Injected)));
            }
            let result = {
                let mut store = self.store.lock();
                let moment = store.times.at(self.clock.now());
                work(&mut store, moment)
            };
            if operation.may_wake() {
                self.changes.lock().notify();
            }
            match fault {
                Fault::AnswerLost => Err(Error::AnswerLost(Arc::new(Injected))),
                Fault::NeverAnswered => std::future::pending().await,
                Fault::None | Fault::Delayed(_) | Fault::NotDone | Fault::DiskFull => result,
            }
        })
    }
}

/// A fault that was asked for.
#[derive(Debug, thiserror::Error)]
#[error("the fault was injected")]
struct Injected;

/// Waits for this number of turns of its task.
async fn wait(mut turns: u32) {
    poll_fn(|cx| {
        if turns == 0 {
            return Poll::Ready(());
        }
        turns -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Journal for Memory {
    fn submit(&self, submit: Submit) -> Answer<'_, Submitted> {
        self.answer(Operation::Submit, |store, now| store.submit(submit, now))
    }

    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, NotWritten>>> {
        self.answer(Operation::Append, move |store, now| store.append(&batch, now))
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Vec<Claimed>> {
        self.answer(Operation::Claim, move |store, now| store.claim(&claim, now))
    }

    fn load(&self, uid: Uid) -> Answer<'_, Loaded> {
        self.answer(Operation::Load, move |store, _| store.load(uid))
    }

    fn inbox(&self, uid: Uid) -> Answer<'_, Inbox> {
        self.answer(Operation::Load, move |store, _| store.inbox(uid))
    }

    fn news(&self, node: Incarnation) -> Answer<'_, Vec<News>> {
        self.answer(Operation::Load, move |store, _| Ok(store.news(node)))
    }

    fn find(&self, key: CallerKey) -> Answer<'_, Option<Uid>> {
        self.answer(Operation::Load, move |store, _| Ok(store.find(&key)))
    }

    fn status(&self, uid: Uid) -> Answer<'_, Status> {
        self.answer(Operation::Load, move |store, _| store.status(uid))
    }

    fn list(&self, query: Query) -> Answer<'_, Vec<FlowInfo>> {
        self.answer(Operation::Load, move |store, now| Ok(store.list(&query, now)))
    }

    fn count(&self, templates: Vec<String>) -> Answer<'_, Counts> {
        self.answer(Operation::Load, move |store, now| Ok(store.count(&templates, now)))
    }

    fn signal(&self, uid: Uid, signal: Signal) -> Answer<'_, ()> {
        self.answer(Operation::Signal, move |store, _| store.signal(uid, signal))
    }

    fn emit(&self, emit: Emit) -> Answer<'_, Result<(), NotWritten>> {
        self.answer(Operation::Emit, move |store, now| Ok(store.emit(emit, now)))
    }

    fn emitted(&self, uid: Uid, after: u64, most: usize) -> Answer<'_, EmittedPage> {
        self.answer(Operation::Load, move |store, _| store.emitted(uid, after, most))
    }

    fn cancel(&self, uid: Uid, by: CancelledBy, unless: Option<Path>) -> Answer<'_, Cancelled> {
        self.answer(Operation::Cancel, move |store, now| {
            store.cancel(uid, &by, unless.as_ref(), now)
        })
    }

    fn resume(&self, uid: Uid, how: Resume) -> Answer<'_, ()> {
        self.answer(Operation::Resume, move |store, _| store.resume(uid, how))
    }

    fn trim(&self, age: Duration) -> Answer<'_, usize> {
        self.answer(Operation::Trim, move |store, now| Ok(store.trim(now.seen_before(age))))
    }

    fn remove(&self, uids: Vec<Uid>) -> Answer<'_, ()> {
        self.answer(Operation::Trim, move |store, _| store.remove(&uids))
    }

    fn schedules(&self) -> Answer<'_, Vec<ReadSchedule>> {
        self.answer(Operation::Load, |store, _| Ok(store.schedules()))
    }

    fn put_schedule(&self, schedule: StoredSchedule) -> Answer<'_, ()> {
        self.answer(Operation::Schedule, move |store, _| store.put_schedule(schedule))
    }

    fn remove_schedule(&self, name: String) -> Answer<'_, bool> {
        self.answer(Operation::Schedule, move |store, _| Ok(store.remove_schedule(&name)))
    }

    fn register(&self, lease: Duration) -> Answer<'_, Registered> {
        self.answer(Operation::Lease, move |store, now| Ok(store.register(lease, now.wall)))
    }

    fn renew(&self, node: Incarnation, lease: Duration) -> Answer<'_, Reading> {
        self.answer(Operation::Lease, move |store, now| store.renew(node, lease, now))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.lock().add()
    }

    fn session(&self) -> watch::Receiver<u64> {
        self.session.lock().add()
    }

    /// With the clock of tokio it knows what comes next, so that idle nodes in virtual time do little.
    fn next_look(&self, node: Incarnation) -> Duration {
        let store = self.store.lock();
        let moment = store.times.at(self.clock.now());
        // a clock that has jumped is believed later
        if !self.clock.goes_with_tokio() || moment.now != moment.wall {
            return POLL;
        }
        store.next_look(node, moment).unwrap_or(LONGEST_LOOK)
    }
}
