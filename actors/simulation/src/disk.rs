//! The journal as a node reaches it: slow, and at times not at all.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_core::sim::Random;
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::request::{
    Append, Cancelled, CancelledBy, Claim, Claimed, FlowInfo, Inbox, Loaded, News, Query,
    Registered, Resume, Signal, Status, Submit, Submitted, Written,
};
use asyncsteps_journal::{
    Answer, Clock, Error, Incarnation, Journal, NotWritten, Reading, Timestamp, Uid,
};
use tokio::sync::watch;

use crate::history::History;

/// How long an operation of the journal takes, typically.
const LATENCY: Duration = Duration::from_millis(2);

/// The journal of a cluster as one node reaches it. Cloning shares.
#[derive(Clone)]
pub struct Disk {
    memory: Memory,
    state: Arc<Mutex<DiskState>>,
    history: History,
}

/// What goes wrong with the disk of a node.
#[derive(Debug)]
pub(crate) struct DiskState {
    node: usize,
    random: Random,
    /// How many operations of a million fail.
    errors: usize,
    /// How much longer operations take, which begin from now on.
    stall: Option<Duration>,
    pub(crate) not_done: u32,
    pub(crate) answers_lost: u32,
}

/// Every how many operations a probability is one of.
const MILLION: usize = 1_000_000;

/// The time of day of the thread.
#[derive(Debug)]
struct NodeClock;

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        clock::wall().into()
    }
}

impl DiskState {
    pub(crate) fn set_errors(&mut self, probability: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 0 and 1"
        )]
        let errors = (probability.clamp(0.0, 1.0) * MILLION as f64) as usize;
        self.errors = errors;
    }

    pub(crate) fn set_stall(&mut self, stall: Option<Duration>) {
        self.stall = stall;
    }

    fn fault(&mut self) -> Fault {
        if self.random.below(MILLION) >= self.errors {
            return Fault::None;
        }
        if self.random.one_in(2) {
            self.not_done += 1;
            Fault::NotDone
        } else {
            self.answers_lost += 1;
            Fault::AnswerLost
        }
    }
}

impl Disk {
    pub(crate) fn new(memory: &Memory, node: usize, seed: u64, history: History) -> Self {
        let random = Random::new(seed);
        let state =
            DiskState { node, random, errors: 0, stall: None, not_done: 0, answers_lost: 0 };
        let state = Arc::new(Mutex::new(state));
        let faults = Arc::clone(&state);
        let faults = move |_: Operation| lock(&faults).fault();
        let memory = memory.clone().clock(NodeClock).faults(faults);
        Self { memory, state, history }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, DiskState> {
        lock(&self.state)
    }

    /// Does something after the time that the disk takes, and notes it.
    fn after_latency<'a, T: Send + 'a>(
        &'a self,
        what: &'static str,
        work: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let (latency, node) = {
                let mut state = self.state();
                let stall = state.stall.unwrap_or_default();
                (state.random.delay(LATENCY) + stall, state.node)
            };
            tokio::time::sleep(latency).await;
            let result = work.await;
            self.history.note((what, node, result.is_ok(), now()));
            result
        })
    }
}

fn lock(state: &Mutex<DiskState>) -> MutexGuard<'_, DiskState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Written, NotWritten>>> {
        for append in &batch {
            self.history.note((append.uid, append.first));
            append.records.iter().for_each(|record| self.history.note(record.path.as_str()));
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

    fn status(&self, uid: Uid) -> Answer<'_, Status> {
        self.after_latency("status", self.memory.status(uid))
    }

    fn list(&self, query: Query) -> Answer<'_, Vec<FlowInfo>> {
        self.after_latency("list", self.memory.list(query))
    }

    fn signal(&self, uid: Uid, signal: Signal) -> Answer<'_, ()> {
        self.after_latency("signal", self.memory.signal(uid, signal))
    }

    fn cancel(&self, uid: Uid, by: CancelledBy) -> Answer<'_, Cancelled> {
        self.after_latency("cancel", self.memory.cancel(uid, by))
    }

    fn resume(&self, uid: Uid, how: Resume) -> Answer<'_, ()> {
        self.after_latency("resume", self.memory.resume(uid, how))
    }

    fn trim(&self, age: Duration) -> Answer<'_, usize> {
        self.after_latency("trim", self.memory.trim(age))
    }

    fn register(&self, lease: Duration) -> Answer<'_, Registered> {
        self.after_latency("register", self.memory.register(lease))
    }

    fn renew(&self, node: Incarnation, lease: Duration) -> Answer<'_, Reading> {
        self.after_latency("renew", self.memory.renew(node, lease))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.memory.changes()
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}
