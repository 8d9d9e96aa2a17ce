//! A durable flow while a node runs it: the history that its steps learn, and the records that they
//! write.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{Error, Time, codes};
use asyncsteps_executor::recorder::{DefinedStep, Part};
use asyncsteps_journal::record::{Done, Ending, TakenSignal};
use asyncsteps_journal::request::{Condition, Inbox, Loaded, StoredSignal};
use asyncsteps_journal::{Event, POLL, Path, PathPart, Record, Timestamp, Uid, Value};
use tokio::sync::Notify;

use crate::activity::FlowActivity;
use crate::cancels::{CANCELLED, error_of_cancel};
use crate::detached::detached;
use crate::held::HeldGuard;
use crate::lease::Lease;
use crate::left::JournalClock;
use crate::records::{failure_of, started};
use crate::replay::Replay;
use crate::settled::Settled;
use crate::storage_waits::StorageWaits;
use crate::suspects::Suspects;
use crate::until::until;
use crate::writer::{AppendAnswer, FlowWriter, RecordTicket, Stopped};

/// How long a flow has to wait at least to be put aside: to go on costs a claim.
const PARKED_FOR: Duration = Duration::from_secs(10);

/// How long a body blocks its arbiter at least if that is noted.
const BLOCKED: Duration = POLL;

/// How long a flow waits before it looks again how long it is until its deadline: the clock may be set meanwhile.
const LOOK: Duration = Duration::from_secs(60);

/// A flow that this node owns.
#[derive(derive_more::Debug)]
#[debug("DurableFlow {{ uid: {uid:?}, .. }}")]
pub(crate) struct DurableFlow {
    uid: Uid,
    /// The uid and the run, from which the keys of its effects are made.
    id: String,
    root: Path,
    pub(crate) writer: Rc<FlowWriter>,
    pub(crate) replay: RefCell<Replay>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) held: HeldGuard,
    deadline: Option<Timestamp>,
    /// Owners died with this flow.
    has_died: bool,
    /// The suspects of the node.
    suspects: Rc<Suspects>,
    has_locks: Cell<bool>,
    /// How often a body of it has blocked the arbiter.
    blocked: Cell<u32>,
    pub(crate) activity: Rc<FlowActivity>,
    /// Results that wait for storage, because a lock is held around their steps.
    pub(crate) results: Rc<StorageWaits>,
    stage: Cell<RunPhase>,
    interrupt: RefCell<Option<Error>>,
    /// A cancel was requested, or the limit of a caller has cancelled it.
    is_cancelled: Cell<bool>,
    interrupted: Notify,
    /// Signals that no step has taken.
    signals: RefCell<Vec<StoredSignal>>,
    pub(crate) signalled: Notify,
    /// The numbers of the signals by which operators pause it.
    pub(crate) pauses: RefCell<Vec<u64>>,
    /// A step has just taken a signal.
    is_resting: Cell<bool>,
    /// How many steps are about to commit it, which the journal decides.
    pub(crate) deciding: Cell<usize>,
    /// Why this node does not run it any more.
    dropped: OnceCell<LeaveReason>,
    was_dropped: Notify,
}

/// How far a flow is in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunPhase {
    /// Its function was not entered.
    New,
    Begun,
    /// Its function ended by itself: only the check of the result, or undo, is left.
    Ended,
}

/// Why a node leaves a flow that has not ended.
#[derive(Clone, Debug)]
pub(crate) enum LeaveReason {
    /// Another node has it, or may have it.
    Lost,
    /// The node stops.
    Released,
    /// It only waits: so long at the most.
    Parked(Option<Duration>),
    /// Something has refused it or is away, for this reason: it tries again after so long.
    Refused(Duration, String),
    /// It waits for an operator, for this reason.
    Paused(String),
}

/// Turns of an arbiter in which a race is decided, and its losers are cut.
const TURNS: usize = 3;

impl DurableFlow {
    pub(crate) fn new(
        (loaded, root): (&Loaded, Path),
        writer: Rc<FlowWriter>,
        (lease, held): (Arc<Lease>, HeldGuard),
        deaths: u32,
        suspects: Rc<Suspects>,
    ) -> Rc<Self> {
        let mut replay = Replay::of(loaded, |id| writer.loaded(id));
        let deadline = started(loaded).and_then(|started| started.deadline);
        let is_over = |deadline| lease.clock.until(deadline).is_zero();
        writer.hold(&held);
        let knew_end = loaded.inbox.cancel.is_some() || deadline.is_some_and(is_over);
        replay.knew_end = knew_end;
        let flow = Rc::new(Self {
            uid: loaded.flow.uid,
            id: match loaded.flow.run {
                0 => loaded.flow.uid.to_string(),
                run => format!("{}.{run}", loaded.flow.uid),
            },
            root,
            writer,
            replay: RefCell::new(replay),
            lease,
            held,
            deadline,
            has_died: deaths > 0,
            suspects,
            has_locks: Cell::new(false),
            blocked: Cell::new(0),
            activity: Rc::default(),
            results: Rc::default(),
            stage: Cell::new(RunPhase::New),
            interrupt: RefCell::new(None),
            is_cancelled: Cell::new(false),
            interrupted: Notify::new(),
            signals: RefCell::new(loaded.inbox.signals.clone()),
            signalled: Notify::new(),
            pauses: RefCell::default(),
            is_resting: Cell::default(),
            deciding: Cell::new(0),
            dropped: OnceCell::new(),
            was_dropped: Notify::new(),
        });
        flow.see(&loaded.inbox);
        if knew_end {
            flow.end_with(error_of_deadline());
        }
        flow
    }

    /// Whether each body that begins is recorded: if the process dies then, this or a suspect may have killed it.
    pub(crate) fn records_bodies(&self) -> bool {
        self.has_died || self.suspects.are_there()
    }

    pub(crate) fn uid(&self) -> Uid {
        self.uid
    }

    /// The flow as a whole.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether its function was entered.
    pub(crate) fn has_begun(&self) -> bool {
        self.stage.get() != RunPhase::New
    }

    /// Whether its function ended by itself. If not, it was cut as by a crash.
    pub(crate) fn has_ended(&self) -> bool {
        self.stage.get() == RunPhase::Ended
    }

    /// Takes in what others have sent to the flow.
    pub(crate) fn see(&self, inbox: &Inbox) {
        if let Some(cancel) = &inbox.cancel {
            self.end_with(error_of_cancel(cancel));
            self.is_cancelled.set(true);
        }
        let seen = self.writer.has_seen(inbox.last);
        let new = inbox.signals.iter().filter(|signal| signal.number > seen);
        self.signals.borrow_mut().extend(new.cloned());
        self.obey();
        self.signalled.notify_waiters();
        // the step that waits for it has its turn before the flow is put aside: the journal takes it for seen
        self.activity.happens();
    }

    /// Waits for a signal with one of these names, no longer than `until`; returns its value, or
    /// null.
    pub(crate) async fn signal(
        self: Rc<Self>,
        path: &Path,
        names: &[&str],
        until: Option<Time>,
    ) -> Value {
        loop {
            let signalled = self.signalled.notified();
            if let Some(StoredSignal { number, name, value }) = self.take_signal(names) {
                self.rests();
                let taken = TakenSignal { number, name, value: value.clone() };
                self.record(path, [Event::Signal(taken)]);
                return value;
            }
            let Some(until) = until else {
                signalled.await;
                continue;
            };
            tokio::select! {
                biased;
                () = signalled => {}
                () = timer::sleep_until(until) => {
                    let times_out = Rc::clone(&self).times_out(path.clone());
                    if let Some(nothing) = detached(times_out).await {
                        return nothing;
                    }
                }
            }
        }
    }

    /// Takes all signals that are so.
    pub(crate) fn take_signals(&self, is_so: impl Fn(&StoredSignal) -> bool) -> Vec<StoredSignal> {
        let mut signals = self.signals.borrow_mut();
        signals.extract_if(.., |signal| is_so(signal)).collect()
    }

    /// No other step takes a signal before the steps behind this one have had their turn: if they win a race in it, the
    /// other one is cut, and takes nothing.
    fn rests(self: &Rc<Self>) {
        self.is_resting.set(true);
        let flow = Rc::clone(self);
        actix_rt::spawn(async move {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            flow.is_resting.set(false);
            flow.signalled.notify_waiters();
        });
    }

    fn take_signal(&self, names: &[&str]) -> Option<StoredSignal> {
        if self.is_resting.get() {
            return None;
        }
        let mut signals = self.signals.borrow_mut();
        let at = signals.iter().position(|signal| names.contains(&&*signal.name))?;
        Some(signals.remove(at))
    }

    /// Records that a wait returns null, unless there is a signal that it has not seen.
    async fn times_out(self: Rc<Self>, path: Path) -> Option<Value> {
        let Ok(value) = Value::encode(&None::<()>) else { unreachable!("null can be written") };
        let done = Done { value: value.clone(), attempt: 1, millis: 0 };
        let record = Record::new(path, Event::Done(done));
        let known = record.clone();
        let answer = self.writer.append_last(|entry| {
            entry.records = vec![record];
            entry.condition = Condition::AllSeen;
        });
        let (answer, ticket) = answer.await;
        match answer {
            AppendAnswer::Written(_) => {
                self.replay.borrow_mut().add_stored(vec![(ticket, known)]);
                Some(value)
            }
            AppendAnswer::Unseen => {
                // `read_news` is notified, and delivers the signal
                self.writer.has_news();
                self.signalled.notified().await;
                None
            }
            AppendAnswer::Stopped(stopped) => {
                self.stopped(stopped);
                pending().await
            }
        }
    }

    /// Ends the flow from outside with this error, unless something else did before.
    pub(crate) fn end_with(&self, error: Error) {
        self.interrupt.borrow_mut().get_or_insert(error);
        self.interrupted.notify_waiters();
    }

    /// Whether it was ended from outside.
    pub(crate) fn is_ending(&self) -> bool {
        self.interrupt().is_some()
    }

    /// Whether it was cancelled. Callers who were notified of the cancel get no result of it.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.get() && !self.replay.borrow().is_committed()
    }

    /// A step failed.
    pub(crate) fn failed(&self, path: &Path) {
        if *path == self.root {
            self.stage.set(RunPhase::Ended);
        }
        self.replay.borrow_mut().failed(path);
    }

    /// Takes in what operators have said while the flow was paused.
    pub(crate) fn take_settled(&self) {
        for signal in self.take_signals(|signal| Settled::path_in(signal).is_some()) {
            let Some(path) = Settled::path_in(&signal) else { continue };
            let StoredSignal { number, name, value } = signal;
            self.record(&path, [Event::Signal(TakenSignal { number, name, value })]);
        }
    }

    /// How it ends, if that was decided outside.
    pub(crate) fn interruption(&self) -> Option<Ending> {
        let error = self.interrupt()?;
        Some(match error.code() {
            CANCELLED => Ending::Cancelled,
            _ => Ending::Failed(failure_of(&error)),
        })
    }

    /// This node does not run the flow any more: no body begins, and nothing is recorded or undone.
    pub(crate) fn leave(&self, why: LeaveReason) {
        if matches!(why, LeaveReason::Lost) {
            self.writer.stop(Stopped::Lost);
        }
        if self.dropped.set(why).is_ok() {
            self.was_dropped.notify_waiters();
        }
    }

    pub(crate) fn is_left(&self) -> bool {
        self.dropped.get().is_some()
    }

    /// Whether this node has left it before it came to an end or a wait.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self.dropped.get(), Some(LeaveReason::Lost | LeaveReason::Released))
    }

    /// Whether it went back to the journal.
    pub(crate) fn is_released(&self) -> bool {
        matches!(self.dropped.get(), Some(LeaveReason::Released))
    }

    /// A body of the flow ran this long without letting others run on its arbiter.
    pub(crate) fn ran(&self, without_a_pause: Duration) {
        if without_a_pause >= BLOCKED {
            self.blocked.set(self.blocked.get() + 1);
        }
    }

    /// A body begins. If two have blocked the arbiter before, it runs without any other flow at first, until this is
    /// dropped.
    pub(crate) fn alone(&self) -> Option<Rc<()>> {
        (self.blocked.get() >= 2).then(|| self.suspects.alone(BLOCKED * self.blocked.get()))
    }

    /// Completes when this node does not run the flow any more.
    pub(crate) async fn left(&self) -> LeaveReason {
        until(&self.was_dropped, || self.dropped.get().cloned()).await
    }

    /// Completes when the flow can be put aside: it only waits, for long enough, and holds no lock. Returns how long.
    pub(crate) async fn can_be_parked(&self) -> Option<Duration> {
        loop {
            self.activity.idle().await;
            let wait = self.activity.first_end().map(|end| end.saturating_since(clock::now()));
            let left = [wait, self.until_limit()].into_iter().flatten().min();
            let is_long = left.is_none_or(|left| left >= PARKED_FOR);
            if is_long && !self.has_locks() && !self.is_ending() {
                return left;
            }
            self.activity.changed().await;
        }
    }

    /// How long it is until the first end of a limit that has not ended, or until the deadline.
    pub(crate) fn until_limit(&self) -> Option<Duration> {
        let limit = self.replay.borrow().until_next_end(self.clock());
        let deadline = self.deadline.map(|deadline| self.clock().until(deadline));
        limit.into_iter().chain(deadline).min()
    }

    /// Records what happened at a path.
    pub(crate) fn record(&self, path: &Path, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.record_for(path, event, &[]);
        }
    }

    /// Records what happened at a path, instead of these records.
    pub(crate) fn record_for(&self, path: &Path, event: Event, replaced: &[RecordTicket]) {
        if !self.is_left() {
            let record = Record::new(path.clone(), event);
            let ticket = self.writer.add(record.clone(), replaced);
            self.replay.borrow_mut().add(&record, ticket);
        }
    }

    /// Records the end of an iteration of the loop at this path, instead of what happened in it.
    pub(crate) fn replace_iteration(&self, path: &Path, index: u64, end: Event) {
        let replaced = self.replay.borrow_mut().forget_iteration(path, index);
        self.record_for(path, end, &replaced);
    }

    /// Completes when all that was recorded so far is stored; never, if this node has lost the flow, or it
    /// only replays.
    pub(crate) fn stored(self: &Rc<Self>) -> impl Future<Output = ()> + 'static {
        let (flow, stored) = (Rc::clone(self), self.writer.stored());
        async move {
            if let Err(stopped) = stored.await {
                flow.stopped(stopped);
            }
            if flow.is_left() {
                pending::<()>().await;
            }
        }
    }

    /// The flow cannot append any more.
    pub(crate) fn stopped(&self, stopped: Stopped) {
        self.leave(match stopped {
            Stopped::Lost => LeaveReason::Lost,
            Stopped::Refused(reason) => LeaveReason::Paused(reason),
        });
    }

    /// Whether the flow holds locks, so that a step has to be stored before it ends.
    pub(crate) fn has_locks(&self) -> bool {
        self.has_locks.get()
    }

    /// The clock of the journal.
    pub(crate) fn clock(&self) -> &JournalClock {
        &self.lease.clock
    }

    /// The path of a step.
    pub(crate) fn path(&self, parts: impl IntoIterator<Item = Part>) -> Path {
        let mut parts = parts.into_iter().peekable();
        if parts.peek().is_none() {
            return self.root.clone();
        }
        self.root.inside(parts.map(|part| match part {
            Part::Step(name) => PathPart::Step(Cow::Borrowed(name)),
            Part::Nth(number) => PathPart::Branch(number.to_string().into()),
            Part::Attempt(number) => PathPart::Attempt(number),
            Part::Iteration(index) => PathPart::Iteration(index),
            Part::Item(key) => PathPart::Key(Cow::Owned((*key).to_owned())),
        }))
    }

    pub(crate) fn path_of(&self, step: &DefinedStep) -> Path {
        self.path(step.parts())
    }

    /// The uid and the run.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Its function is entered.
    pub(crate) fn begins(&self) {
        self.stage.set(RunPhase::Begun);
    }

    /// Its function ended by itself.
    pub(crate) fn finishes(&self) {
        self.stage.set(RunPhase::Ended);
    }

    /// A lock is held around a part of it.
    pub(crate) fn locks(&self) {
        if !self.has_locks.replace(true) {
            self.held.keep();
        }
    }

    /// The error that ends it, if it is known already, and no step has committed it.
    pub(crate) fn interrupt(&self) -> Option<Error> {
        self.interrupt.borrow().clone().filter(|_| !self.replay.borrow().is_committed())
    }

    /// Waits for the error that ends it.
    pub(crate) async fn interrupted(self: &Rc<Self>) -> Error {
        loop {
            self.uncommitted().await;
            let interrupted = self.interrupted.notified();
            if let Some(error) = self.interrupt() {
                if self.replay.borrow().awaited_within(&self.root).is_some() {
                    // it is loaded again, and undoes from the records the steps that it has not
                    // reached
                    self.leave(LeaveReason::Released);
                    return pending().await;
                }
                return error;
            }
            let Some(deadline) = self.deadline else {
                interrupted.await;
                continue;
            };
            let left = self.clock().until(deadline);
            if left.is_zero() {
                self.end_with(error_of_deadline());
                continue;
            }
            tokio::select! {
                biased;
                () = interrupted => {}
                () = timer::sleep_until(clock::now() + left.min(LOOK)) => {}
            }
        }
    }
}

fn error_of_deadline() -> Error {
    Error::with_info(codes::TIMEOUT, "the deadline of the request")
}

impl Drop for DurableFlow {
    fn drop(&mut self) {
        self.writer.rest();
    }
}
