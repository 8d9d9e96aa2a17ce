//! The journal as a node reaches it: slow, and at times not at all.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::clock;
use asyncsteps_cluster::store::ClusterNodeId;
use asyncsteps_core::sim::Random;
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::record::Event;
use asyncsteps_journal::request::{
    Append, Appended, CallerKey, Cancelled, CancelledBy, Claim, Claimed, Counts, Emit, EmittedPage,
    FlowInfo, Inbox, Loaded, News, Query, ReadSchedule, Registered, Resume, Signal, Status,
    StoredSchedule, Submit, Submitted,
};
use asyncsteps_journal::{
    Answer, Clock, Incarnation, Journal, NotWritten, Path, Reading, Timestamp, Uid,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::history::ClusterHistory;
use crate::wall::moved;

/// How long an operation of the journal takes, typically.
const LATENCY: Duration = Duration::from_millis(2);

/// The journal of a cluster as one node reaches it. Cloning shares.
#[derive(Clone, derive_more::Debug)]
#[debug("Disk {{ .. }}")]
pub struct Disk {
    memory: Memory,
    state: Arc<Mutex<DiskState>>,
    history: ClusterHistory,
}

/// The faults of the disk of a node, and the node's use of it.
#[derive(Debug)]
pub(crate) struct DiskState {
    node: usize,
    random: Random,
    /// The fault of the next operation.
    next: Fault,
    /// By how many milliseconds the clock of the journal is ahead of the right time.
    journal_ahead: i64,
    /// The same of the clock of the node.
    node_ahead: i64,
    is_full: bool,
    /// How much longer operations take, which begin from now on.
    stall: Option<Duration>,
    /// Who the node is now: in the journal, and among those that have locks.
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) holder: Option<ClusterNodeId>,
    /// Whether it has a session, by which others know that it lives.
    has_session: bool,
    /// The number of the session that the journal has for its lease.
    leased: Option<u64>,
    /// How many records of an intent it wrote.
    pub(crate) effects: usize,
}

/// Who a node was when it lost its session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeNames {
    session: u64,
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) holder: Option<ClusterNodeId>,
}

/// The time of day of the journal, as it is while an operation of this node is done.
#[derive(Debug)]
struct DiskClock(Arc<Mutex<DiskState>>);

impl Clock for DiskClock {
    fn now(&self) -> Timestamp {
        self.0.lock().journal_time().into()
    }
}

impl DiskState {
    pub(crate) const fn fail_next(&mut self, fault: Fault) {
        self.next = fault;
    }

    pub(crate) const fn set_clocks(&mut self, journal_ahead: i64, node_ahead: i64) {
        (self.journal_ahead, self.node_ahead) = (journal_ahead, node_ahead);
    }

    fn journal_time(&self) -> SystemTime {
        moved(clock::wall(), self.journal_ahead - self.node_ahead)
    }

    /// The time of day, which the clock of the node may not know.
    pub(crate) fn right_time(&self) -> SystemTime {
        moved(clock::wall(), -self.node_ahead)
    }

    pub(crate) const fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    pub(crate) const fn set_stall(&mut self, stall: Option<Duration>) {
        self.stall = stall;
    }

    pub(crate) const fn heal(&mut self) {
        (self.next, self.is_full, self.stall) = (Fault::None, false, None);
    }

    pub(crate) const fn fault(&mut self, writes: bool) -> Fault {
        let next = mem::replace(&mut self.next, Fault::None);
        // a full disk may have had room for the last one whose answer is lost
        let is_refused = matches!(next, Fault::None) && self.is_full && writes;
        if is_refused { Fault::DiskFull } else { next }
    }
}

impl Disk {
    pub(crate) fn new(memory: &Memory, node: usize, seed: u64, history: ClusterHistory) -> Self {
        let state = DiskState {
            node,
            random: Random::new(seed),
            next: Fault::None,
            journal_ahead: 0,
            node_ahead: 0,
            is_full: false,
            stall: None,
            incarnation: None,
            holder: None,
            has_session: false,
            leased: None,
            effects: 0,
        };
        let state = Arc::new(Mutex::new(state));
        let faults = Arc::clone(&state);
        let faults = move |operation: Operation| faults.lock().fault(operation.writes());
        let memory = memory.clone().clock(DiskClock(Arc::clone(&state))).faults(faults);
        Self { memory, state, history }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock()
    }

    /// The node has a new session, which takes the place of the last one.
    pub(crate) fn begin_session(&self) {
        self.memory.change_session();
        let session = *self.memory.session().borrow();
        let state = &mut *self.state();
        state.has_session = true;
        state.leased = state.leased.map(|_| session);
    }

    /// The session is gone; returns who the node is without it.
    pub(crate) fn end_session(&self) -> NodeNames {
        let session = *self.memory.session().borrow();
        self.memory.change_session();
        let state = &mut *self.state();
        state.has_session = false;
        NodeNames { session, incarnation: state.incarnation, holder: state.holder }
    }

    /// Whether the lease of the node is still known by the session that is gone.
    pub(crate) fn is_gone(&self, names: NodeNames) -> bool {
        let state = &*self.state();
        state.incarnation == names.incarnation && state.leased == Some(names.session)
    }

    /// The journal has a lease of the node, and its session.
    fn leased(&self, session: Option<u64>) {
        self.state().leased = session;
    }

    fn present(&self) -> Option<u64> {
        let session = *self.memory.session().borrow();
        self.state().has_session.then_some(session)
    }

    /// Does something within the time that the disk takes, and notes it: others see it before who has asked for it, long
    /// before if the disk is slow.
    pub(crate) fn after_latency<'a, T: Send + 'a, E: Send + 'a>(
        &'a self,
        what: &'static str,
        work: impl Future<Output = Result<T, E>> + Send + 'a,
    ) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>> {
        Box::pin(async move {
            let (before, after, node) = {
                let state = &mut *self.state();
                let stall = state.stall.unwrap_or_default();
                let first = state.random.within(stall);
                let mut half = || state.random.delay(LATENCY / 2);
                (half() + first, half() + (stall - first), state.node)
            };
            tokio::time::sleep(before).await;
            let result = work.await;
            self.history.note((what, node, result.is_ok(), now()));
            tokio::time::sleep(after).await;
            result
        })
    }
}

/// The time of the node, in milliseconds.
fn now() -> u128 {
    clock::now().since_epoch().as_millis()
}

impl Journal for Disk {
    fn submit(&self, submit: Submit) -> Answer<'_, Submitted> {
        self.history.note(submit.uid);
        self.after_latency("submit", self.memory.submit(submit))
    }

    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, NotWritten>>> {
        for append in &batch {
            self.history.note((append.uid, append.first));
            append.records.iter().for_each(|record| self.history.note(record.path.as_str()));
            let intents = append.records.iter().filter(|it| matches!(it.event, Event::Intent(_)));
            self.state().effects += intents.count();
        }
        self.after_latency("append", self.memory.append(batch))
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Vec<Claimed>> {
        self.after_latency("claim", self.memory.claim(claim))
    }

    fn load(&self, uid: Uid) -> Answer<'_, Loaded> {
        self.after_latency("load", self.memory.load(uid))
    }

    fn inbox(&self, uid: Uid) -> Answer<'_, Inbox> {
        self.after_latency("inbox", self.memory.inbox(uid))
    }

    fn news(&self, node: Incarnation) -> Answer<'_, Vec<News>> {
        self.after_latency("news", self.memory.news(node))
    }

    fn find(&self, key: CallerKey) -> Answer<'_, Option<Uid>> {
        self.after_latency("find", self.memory.find(key))
    }

    fn status(&self, uid: Uid) -> Answer<'_, Status> {
        self.after_latency("status", self.memory.status(uid))
    }

    fn list(&self, query: Query) -> Answer<'_, Vec<FlowInfo>> {
        self.after_latency("list", self.memory.list(query))
    }

    fn count(&self, templates: Vec<String>) -> Answer<'_, Counts> {
        self.after_latency("count", self.memory.count(templates))
    }

    fn signal(&self, uid: Uid, signal: Signal) -> Answer<'_, ()> {
        self.after_latency("signal", self.memory.signal(uid, signal))
    }

    fn emit(&self, emit: Emit) -> Answer<'_, Result<(), NotWritten>> {
        self.history.note((emit.uid, emit.path.as_str(), emit.key.as_str()));
        self.after_latency("emit", self.memory.emit(emit))
    }

    fn emitted(&self, uid: Uid, after: u64, most: usize) -> Answer<'_, EmittedPage> {
        self.after_latency("emitted", self.memory.emitted(uid, after, most))
    }

    fn cancel(&self, uid: Uid, by: CancelledBy, unless: Option<Path>) -> Answer<'_, Cancelled> {
        self.after_latency("cancel", self.memory.cancel(uid, by, unless))
    }

    fn resume(&self, uid: Uid, how: Resume) -> Answer<'_, ()> {
        self.after_latency("resume", self.memory.resume(uid, how))
    }

    fn trim(&self, age: Duration) -> Answer<'_, usize> {
        self.after_latency("trim", self.memory.trim(age))
    }

    fn remove(&self, uids: Vec<Uid>) -> Answer<'_, ()> {
        self.after_latency("remove", self.memory.remove(uids))
    }

    fn schedules(&self) -> Answer<'_, Vec<ReadSchedule>> {
        self.after_latency("schedules", self.memory.schedules())
    }

    fn put_schedule(&self, schedule: StoredSchedule) -> Answer<'_, ()> {
        self.after_latency("put_schedule", self.memory.put_schedule(schedule))
    }

    fn remove_schedule(&self, name: String) -> Answer<'_, bool> {
        self.after_latency("remove_schedule", self.memory.remove_schedule(name))
    }

    fn register(&self, lease: Duration) -> Answer<'_, Registered> {
        self.after_latency("register", async move {
            let session = self.present();
            let registered = self.memory.register(lease).await;
            self.leased(session);
            self.state().incarnation = registered.as_ref().ok().map(|registered| registered.node);
            registered
        })
    }

    fn renew(&self, node: Incarnation, lease: Duration) -> Answer<'_, Reading> {
        self.after_latency("renew", async move {
            let session = self.present();
            let renewed = self.memory.renew(node, lease).await;
            if renewed.is_ok() {
                self.leased(session);
            }
            renewed
        })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.memory.changes()
    }

    fn session(&self) -> watch::Receiver<u64> {
        self.memory.session()
    }
}
