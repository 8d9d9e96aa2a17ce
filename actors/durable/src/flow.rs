//! A durable flow while a node runs it: the history that its steps learn, and the records that they
//! write.

use std::cell::{Cell, Ref, RefCell};
use std::fmt::Display;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{Error, codes};
use asyncsteps_journal::request::{Inbox, Loaded};
use asyncsteps_journal::{Event, Path, Record, Timestamp, Uid, Value};
use serde_json::Value as Json;
use tokio::sync::Notify;

use crate::activity::FlowActivity;
use crate::cancels::error_of_cancel;
use crate::left::JournalClock;
use crate::life::{LeaveReason, Life, Turn};
use crate::marks::OVERDUE;
use crate::owned::Owned;
use crate::records::started;
use crate::replay::Replay;
use crate::shared::DurableShared;
use crate::signals::Signals;
use crate::storage_waits::StorageWaits;
use crate::suspects::FlowBodies;
use crate::until::until;
use crate::writer::{RecordTicket, Stopped};

/// How long a flow has to wait at least to be put aside: to go on costs a claim.
const PARKED_FOR: Duration = Duration::from_secs(10);

/// How long a flow waits before it looks again how long it is until its deadline: the clock may be set meanwhile.
pub(crate) const LOOK: Duration = Duration::from_secs(60);

/// A flow that this node owns.
#[derive(derive_more::Debug)]
#[debug("DurableFlow {{ uid: {:?}, .. }}", owned.uid())]
pub(crate) struct DurableFlow {
    pub(crate) owned: Owned,
    /// The uid and the run, from which the keys of its effects are made.
    pub(crate) id: Arc<str>,
    /// The flow as a whole.
    pub(crate) root: Path,
    pub(crate) replay: RefCell<Replay>,
    deadline: Option<Timestamp>,
    pub(crate) bodies: FlowBodies,
    /// A lock is held around a part of it, so a step has to be stored before it ends.
    pub(crate) has_locks: Cell<bool>,
    pub(crate) activity: Rc<FlowActivity>,
    /// Results that wait for storage, because a lock is held around their steps.
    pub(crate) results: Rc<StorageWaits>,
    life: RefCell<Life>,
    /// The error that ends it from outside.
    interruption: RefCell<Option<Error>>,
    /// A cancel was requested, or the limit of a caller has cancelled it.
    is_cancelled: Cell<bool>,
    /// It was left, or is ended from outside.
    ends: Notify,
    pub(crate) signals: Signals,
    pub(crate) shared: Arc<DurableShared>,
    /// The request that began it, and waits for it.
    pub(crate) parent: Option<Uid>,
    /// The schedule that has stored it, and whether it was asked for.
    pub(crate) schedule: Option<String>,
    pub(crate) is_asked_for: bool,
    /// How many steps are about to commit it or to answer, which the journal decides.
    pub(crate) deciding: Cell<usize>,
}

impl DurableFlow {
    pub(crate) fn new(
        (loaded, root): (&Loaded, Path),
        (owned, shared): (Owned, Arc<DurableShared>),
        bodies: FlowBodies,
    ) -> Rc<Self> {
        let mut replay = Replay::of(loaded, |id| owned.writer.loaded(id));
        let started = started(loaded);
        let deadline = started.and_then(|started| started.deadline);
        let parent = started.and_then(|started| started.parent.as_ref()).filter(|it| it.waits);
        let is_over = |deadline| owned.lease().clock.until(deadline).is_zero();
        let was_overdue = replay.at(&root.branch(OVERDUE)).is_some();
        let is_overdue = was_overdue || deadline.is_some_and(is_over);
        replay.knew_end = is_overdue || loaded.inbox.cancel.is_some();
        let flow = Rc::new(Self {
            id: match loaded.flow.run {
                0 => loaded.flow.uid.to_string().into(),
                run => format!("{}.{run}", loaded.flow.uid).into(),
            },
            owned,
            root,
            replay: RefCell::new(replay),
            deadline,
            bodies,
            has_locks: Cell::new(false),
            activity: Rc::default(),
            results: Rc::default(),
            life: RefCell::default(),
            interruption: RefCell::new(None),
            is_cancelled: Cell::new(false),
            ends: Notify::new(),
            signals: Signals::default(),
            shared,
            parent: parent.map(|parent| parent.uid),
            schedule: started.and_then(|started| started.schedule.clone()),
            is_asked_for: started.is_some_and(|started| started.is_asked_for),
            deciding: Cell::new(0),
        });
        flow.signals.add(loaded.inbox.signals.iter());
        flow.see(&loaded.inbox);
        if is_overdue {
            flow.passes_deadline();
        }
        flow
    }

    /// Its deadline has passed, which is recorded before anything is undone: it is decided, also if the clock is set back.
    fn passes_deadline(&self) {
        let path = self.root.branch(OVERDUE);
        let is_known = self.is_interrupted() || self.replay.borrow().at(&path).is_some();
        if !is_known {
            self.record(&path, [Event::Timer(self.clock().time_of_day())]);
        }
        self.interrupt(error_of_deadline());
    }

    /// How far it is.
    pub(crate) fn life(&self) -> Ref<'_, Life> {
        self.life.borrow()
    }

    /// This happens to it.
    pub(crate) fn turns(&self, turn: Turn) {
        self.life.borrow_mut().transition(turn);
    }

    /// This node does not run the flow any more.
    pub(crate) fn leave(&self, why: LeaveReason) {
        if matches!(why, LeaveReason::Lost) {
            self.owned.writer.stop(Stopped::Lost);
        }
        if self.life.borrow_mut().transition(Turn::Leaves(why)) {
            self.ends.notify_waiters();
        }
    }

    pub(crate) fn is_left(&self) -> bool {
        self.life().left().is_some()
    }

    /// Completes when this node does not run the flow any more.
    pub(crate) async fn left(&self) -> LeaveReason {
        until(&self.ends, || self.life().left().cloned()).await
    }

    /// Takes in what others have sent to the flow.
    pub(crate) fn see(&self, inbox: &Inbox) {
        if let Some(cancel) = &inbox.cancel {
            self.interrupt(error_of_cancel(cancel));
            self.is_cancelled.set(true);
        }
        let seen = self.owned.writer.has_seen(inbox.last);
        self.signals.add(inbox.signals.iter().filter(|signal| signal.number > seen));
        self.obey();
        self.signals.changed.notify_waiters();
        // the step that waits for it has its turn before the flow is put aside: the journal takes it for seen
        self.activity.happens();
    }

    /// Ends the flow from outside with this error, unless something else did before.
    fn interrupt(&self, error: Error) {
        self.interruption.borrow_mut().get_or_insert(error);
        self.ends.notify_waiters();
    }

    /// Whether it is ended from outside.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interruption.borrow().is_some() && !self.replay.borrow().is_committed()
    }

    /// The error that ends it from outside, if no step has committed it.
    pub(crate) fn interruption(&self) -> Option<Error> {
        self.interruption.borrow().clone().filter(|_| !self.replay.borrow().is_committed())
    }

    /// Whether it was cancelled. Callers who were notified of the cancel get no result of it.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.get() && !self.replay.borrow().is_committed()
    }

    /// A step failed.
    pub(crate) fn failed(&self, path: &Path) {
        if *path == self.root {
            self.turns(Turn::Finishes);
        }
        self.replay.borrow_mut().last_failed = Some(path.clone());
    }

    /// Completes when the flow can be put aside: it only waits, for long enough, and holds no lock. Returns how long.
    pub(crate) async fn can_be_parked(&self) -> Option<Duration> {
        loop {
            self.activity.idle().await;
            let wait = self.activity.first_end().map(|end| end.saturating_since(clock::now()));
            let left = [wait, self.until_limit()].into_iter().flatten().min();
            let is_long = left.is_none_or(|left| left >= PARKED_FOR);
            if is_long && !self.has_locks.get() && !self.is_interrupted() {
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
            self.replay.borrow_mut().add(&record, self.owned.writer.next());
            self.owned.writer.add(record, replaced);
        }
    }

    /// Emits an event of the step at this path, after what was recorded so far.
    pub(crate) async fn emit(
        self: Rc<Self>,
        path: Path,
        key: String,
        event: Json,
    ) -> Result<(), Error> {
        let internal = |why: &dyn Display| Error::with_info(codes::INTERNAL_ERROR, why.to_string());
        let event = Value::encode_json(&event).map_err(|error| internal(&error))?;
        self.stored().await;
        match self.owned.writer.emit(path, &key, event).await {
            Ok(stored) => {
                self.shared.watched.changed(self.owned.uid());
                stored.map_err(|refused| internal(&refused))
            }
            Err(stopped) => {
                self.leave(stopped.into());
                pending().await
            }
        }
    }

    /// Completes when all that was recorded so far is stored; never, if this node has lost the flow, or it
    /// only replays.
    pub(crate) fn stored(self: &Rc<Self>) -> impl Future<Output = ()> + 'static {
        let (flow, stored) = (Rc::clone(self), self.owned.writer.stored());
        async move {
            if let Err(stopped) = stored.await {
                flow.leave(stopped.into());
            }
            if flow.is_left() {
                pending::<()>().await;
            }
        }
    }

    /// The clock of the journal.
    pub(crate) fn clock(&self) -> &JournalClock {
        &self.owned.lease().clock
    }

    /// A lock is held around a part of it.
    pub(crate) fn locks(&self) {
        if !self.has_locks.replace(true) {
            self.owned.held.keep();
        }
    }

    /// Waits for the error that ends it.
    pub(crate) async fn interrupted(self: &Rc<Self>) -> Error {
        loop {
            self.uncommitted().await;
            let interrupted = self.ends.notified();
            if let Some(error) = self.interruption() {
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
                self.passes_deadline();
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
        self.owned.writer.rest();
    }
}
