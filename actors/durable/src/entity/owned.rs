//! An entity that a node owns: its state, and what is stored of its calls.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::clock;
use asyncsteps_actors::sync::FencingToken;
use asyncsteps_core::{Error, Time, codes};
use asyncsteps_journal::record::{Done, Ended, Ending, Iteration, Keys};
use asyncsteps_journal::request::{Disposition, Loaded, StoredSignal};
use asyncsteps_journal::{Epoch, Event, Path, Record, RecordId, Uid, Value, ValueError};
use tokio::sync::Notify;

use super::answers::{Answers, CallKey, StoredAnswer};
use super::asks::Asks;
use super::kind::{EntityKind, EntityName};
use super::mail::{MessageId, WAITING};
use super::post::cancel;
use super::state::{AnyState, Draft};
use crate::answered::answered;
use crate::held::HeldFlows;
use crate::lease::Lease;
use crate::on_drop::on_drop;
use crate::owned::{Owned, Taken};
use crate::turns::{EntityFigures, EntityTurn};
use crate::until::until;
use crate::writer::{AppendAnswer, FlowWriter, RecordTicket, RestingWriter, Stopped};

/// An entity that this node owns.
pub(crate) struct OwnedEntity {
    kind: Arc<EntityKind>,
    pub(super) name: EntityName,
    pub(super) owned: Owned<RefCell<RestingWriter>>,
    /// The number of its flow.
    number: u64,
    state: RefCell<OwnedState>,
    /// How many calls are in it.
    uses: Cell<usize>,
    used: Cell<Time>,
    /// What others see of it.
    pub(super) figures: Arc<EntityFigures>,
    /// The turn that runs has ended well.
    is_done: Cell<bool>,
    pub(super) is_leaving: Cell<bool>,
    is_forgotten: Cell<bool>,
    /// Another node has asked for it: this one lets that have it first.
    pub(super) is_wanted: Cell<bool>,
    /// Up to which number of the inbox paths of waits were followed.
    pub(super) followed: Cell<u64>,
    /// Nodes have asked for it before it was claimed.
    has_inbox: bool,
    /// The last call has left it, or the node has forgotten it.
    changed: Notify,
}

/// The state of an entity, and what else is recorded of it.
struct OwnedState {
    /// As the next call finds it.
    latest: AnyState,
    /// The number of the call that left it so, and its record.
    calls: u64,
    record: Option<RecordTicket>,
    /// As it is stored, as far as that was noticed.
    stored: AnyState,
    /// As later calls left it, with their records, oldest first.
    unstored: VecDeque<(RecordTicket, AnyState)>,
    /// `None` until a call with a key has ended.
    answers: Option<Box<Answers>>,
    /// The messages that it has sent, and that were not carried out, and their record.
    sent: BTreeSet<Uid>,
    sent_record: Option<RecordTicket>,
    /// An earlier version has written it.
    is_outdated: bool,
}

impl OwnedState {
    /// The state as it was loaded, and how many bytes it has.
    fn load(
        kind: &EntityKind,
        loaded: &Loaded,
        ticket: impl Fn(RecordId) -> RecordTicket,
    ) -> Result<(Self, usize), String> {
        let latest = match kind.stored_state(loaded)? {
            Some(state) => state,
            None => kind.new_state()?,
        };
        let mut state = Self {
            stored: Rc::clone(&latest),
            latest,
            calls: 0,
            record: None,
            unstored: VecDeque::new(),
            answers: None,
            sent: BTreeSet::new(),
            sent_record: None,
            is_outdated: false,
        };
        let mut bytes = 0;
        for stored in &loaded.records {
            let ticket = ticket(stored.id);
            if let Event::Iteration(last) = &stored.record.event {
                (state.calls, state.record, bytes) = (last.index, Some(ticket), last.state.len());
                state.is_outdated = loaded.flow.version < kind.form.version;
            } else if let Event::Done(done) = &stored.record.event {
                let answer = done.value.decode();
                let answer =
                    answer.map_err(|error| format!("its answers cannot be read: {error}"))?;
                let answers = state.answers.get_or_insert_default();
                answers.keep(stored.record.path.clone(), (answer, done.value.len()), ticket);
            } else if let Event::Keys(keys) = &stored.record.event {
                state.sent = keys.keys.iter().filter_map(|id| id.parse().ok()).collect();
                state.sent_record = Some(ticket);
            }
        }
        Ok((state, bytes))
    }

    /// Whether something is recorded: a call has changed it, has sent something, or has an answer that is kept.
    fn is_recorded(&self) -> bool {
        self.record.is_some() || self.sent_record.is_some() || self.answers.is_some()
    }

    /// Notices what has been stored, whoever waited for it.
    fn settle(&mut self, is_stored: impl Fn(RecordTicket) -> bool) {
        while self.unstored.front().is_some_and(|(record, _)| is_stored(*record))
            && let Some((_, state)) = self.unstored.pop_front()
        {
            self.stored = state;
        }
    }
}

impl OwnedEntity {
    /// The entity as it was loaded.
    pub(super) fn new(
        kind: &Arc<EntityKind>,
        name: &EntityName,
        (taken, held): (Taken, (&HeldFlows, u64, Arc<str>)),
        loaded: &Loaded,
    ) -> Result<Rc<Self>, String> {
        let seen = seen_of_inbox(loaded, &taken.lease);
        let owned = taken.own(held, kind.form.version, (loaded, seen));
        let (state, bytes) = OwnedState::load(kind, loaded, |id| owned.writer.loaded(id))?;
        Ok(Rc::new(Self {
            kind: Arc::clone(kind),
            number: loaded.flow.number,
            name: name.clone(),
            state: RefCell::new(state),
            uses: Cell::new(0),
            used: Cell::new(clock::now()),
            figures: EntityFigures::new(owned.uid(), bytes),
            owned: owned.may_rest(),
            is_done: Cell::new(false),
            is_leaving: Cell::new(false),
            is_forgotten: Cell::new(false),
            is_wanted: Cell::new(false),
            followed: Cell::new(0),
            has_inbox: !loaded.inbox.signals.is_empty(),
            changed: Notify::new(),
        }))
    }

    fn writer(&self) -> Rc<FlowWriter> {
        self.owned.writer(self.kind.form.version)
    }

    /// The token of this owner.
    pub(super) fn fence(&self) -> FencingToken {
        let (lock, key) = (Arc::clone(self.kind.name()), Arc::clone(&self.name.key));
        FencingToken::new(lock, key, token(self.number, self.owned.taken.claimed.epoch))
    }

    /// Whether that is not known until the lease is renewed.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.owned.lease().has_ended() && self.owned.lease().is_in_doubt()
    }

    /// Completes when it is known.
    pub(super) async fn settled(&self) {
        self.owned.lease().settled().await;
    }

    /// The inbox has entries up to this number: requests of other nodes.
    pub(super) fn wanted(&self, inbox: u64) {
        self.is_wanted.set(true);
        self.writer().tell_inbox(inbox);
    }

    /// Takes no further calls.
    pub(super) fn begin_leaving(&self) -> bool {
        !self.is_leaving.replace(true)
    }

    /// A call is in it until this is dropped: it is not given back meanwhile.
    pub(super) fn enter(self: &Rc<Self>) -> impl Sized + use<> {
        self.uses.set(self.uses.get() + 1);
        self.owned.held.keep();
        let entity = Rc::clone(self);
        on_drop(move || {
            entity.uses.set(entity.uses.get() - 1);
            entity.owned.held.let_go();
            entity.used.set(clock::now());
            if entity.uses.get() == 0 {
                entity.changed.notify_waiters();
            }
        })
    }

    /// A call has its turn, until this is dropped.
    pub(super) fn begin_turn(self: &Rc<Self>, function: &'static str) -> impl Sized + use<> {
        self.is_done.set(false);
        let (entity, call, began, at) =
            (Rc::clone(self), self.enter(), clock::now(), clock::wall());
        on_drop(move || {
            let took = clock::now().saturating_since(began);
            entity.figures.turn_ends(EntityTurn {
                function,
                at,
                took,
                is_done: entity.is_done.get(),
            });
            drop(call);
        })
    }

    /// How long no call was in it.
    pub(super) fn idle_since(&self) -> Option<Time> {
        (self.uses.get() == 0).then(|| self.used.get())
    }

    /// Whether a call is in it.
    pub(super) fn is_in_use(&self) -> bool {
        self.uses.get() > 0
    }

    /// Completes when no call is in it.
    pub(super) async fn unused(&self) {
        until(&self.changed, || (self.uses.get() == 0).then_some(())).await;
    }

    /// Completes when the node [has forgotten](Self::forgotten) it.
    pub(super) async fn left(&self) {
        until(&self.changed, || self.is_forgotten.get().then_some(())).await;
    }

    /// The node does not know it any more, and may claim it again.
    pub(super) fn forgotten(&self) {
        self.is_forgotten.set(true);
        self.changed.notify_waiters();
    }

    /// Gives it back to the journal, when no call is in it. One of which nothing is recorded is removed: so calls that fail
    /// leave nothing behind, whatever keys they name.
    pub(super) async fn release(self: &Rc<Self>) {
        self.unused().await;
        let taken = &self.owned.taken;
        loop {
            match self.append_last().await {
                // a cancel came meanwhile
                AppendAnswer::Unseen => {
                    self.writer().has_news();
                    continue;
                }
                AppendAnswer::Written(_) if !self.state.borrow().is_recorded() => {
                    if let Err(error) = taken.journal.remove(vec![taken.claimed.uid]).await {
                        // who calls it next removes it
                        tracing::debug!(entity = %self.name.full, %error, "the entity is not removed");
                    }
                }
                AppendAnswer::Stopped(Stopped::Refused(_)) => {
                    // the next owner begins with what is stored
                    taken.give_back(Disposition::Release).await;
                }
                AppendAnswer::Written(_) | AppendAnswer::Stopped(Stopped::Lost) => {}
            }
            break;
        }
        self.lose();
    }

    /// Appends that this node is done with it.
    async fn append_last(&self) -> AppendAnswer {
        let inbox = match self.has_inbox || self.writer().has_unseen() {
            // requests to give it back, each of which is done with it
            true => answered(|| self.kind.journal.inbox(self.owned.uid())).await.ok(),
            false => None,
        };
        let writer = self.writer();
        let answer = writer.append_last(|entry| {
            let state = self.state.borrow();
            match state.is_recorded() {
                true => entry.then = Disposition::Release,
                false => entry.records = vec![ended(&self.kind)],
            }
            if state.is_outdated {
                // its state is still in the form of an earlier version
                entry.version = 0;
            }
            if let Some(inbox) = inbox {
                entry.seen = inbox.last;
                entry.takes = inbox.signals.iter().map(|signal| signal.number).collect();
            }
        });
        answer.await.0
    }

    /// No call has come for a moment: keeps as little as it can.
    pub(super) fn rest(&self) {
        let mut state = self.state.borrow_mut();
        state.settle(|record| self.writer().is_stored(record));
        state.unstored.shrink_to_fit();
        self.figures.rest();
        self.owned.writer.borrow_mut().rest();
    }

    /// The node does not own it any more.
    pub(super) fn lose(&self) {
        self.is_leaving.set(true);
        self.writer().stop(Stopped::Lost);
    }

    /// The state for a call that may change it.
    pub(super) fn draft(&self) -> Draft {
        let of = (Arc::clone(&self.name.key), self.owned.lease().clock.now());
        (self.kind.form.draft)(&self.state.borrow().latest, of, true)
    }

    /// The state for a call that reads it.
    pub(super) fn stored(&self) -> Draft {
        let now = self.owned.lease().clock.now();
        let mut state = self.state.borrow_mut();
        state.settle(|record| self.writer().is_stored(record));
        self.kind.for_reading((&self.name, now), Some(Rc::clone(&state.stored)))
    }

    /// The answer that this call has got before.
    pub(super) fn answer(&self, call: &CallKey) -> Result<Option<serde_json::Value>, Error> {
        self.state.borrow().answers.as_ref().map_or(Ok(None), |answers| answers.find(call))
    }

    /// Whether it has sent this message, which was not carried out.
    pub(super) fn has_sent(&self, message: MessageId) -> bool {
        self.state.borrow().sent.contains(&message.0)
    }

    /// What is stored for a call that ends so; InternalError if it cannot be stored.
    pub(super) fn prepare(&self, changes: Changes) -> Result<PreparedCall, Error> {
        let mail = self.mail(&changes)?;
        let Changes { state, answer, withdrawn, has_failed, .. } = changes;
        let own = self.state.borrow();
        let is_written = own.is_outdated && (answer.is_some() || mail.is_some());
        let state = state.or_else(|| is_written.then(|| Rc::clone(&own.latest)));
        drop(own);
        let state = state.map(|state| (self.kind.form.write)(&*state).map(|value| (state, value)));
        let state = state.transpose().map_err(|error| self.not_stored("state", error))?;
        let answer = answer
            .map(|(path, answer)| Value::encode_json(&answer).map(|value| (path, answer, value)));
        let answer = answer.transpose().map_err(|error| self.not_stored("answer", error))?;
        let withdrawn = withdrawn.into_iter().filter(|message| self.has_sent(*message)).collect();
        Ok(PreparedCall { state, answer, mail, withdrawn, has_failed })
    }

    /// A call has ended: its changes are true for the next one, and are being stored.
    pub(super) fn commit(self: &Rc<Self>, prepared: PreparedCall) -> Committed {
        let PreparedCall { state, answer, mail, withdrawn, has_failed } = prepared;
        self.is_done.set(!has_failed);
        let (writer, own) = (self.writer(), &mut *self.state.borrow_mut());
        let add = |path: &Path, event, replaced: &[RecordTicket]| {
            writer.add(Record::new(path.clone(), event), replaced)
        };
        if let Some((latest, state)) = state {
            self.figures.state_is(state.len());
            own.calls += 1;
            let event = Event::Iteration(Iteration { index: own.calls, state });
            if own.record.is_some_and(|record| writer.is_waiting(record)) {
                // it is never written by itself
                own.unstored.pop_back();
            }
            let ticket = add(&self.kind.root, event, own.record.as_slice());
            (own.record, own.is_outdated) = (Some(ticket), false);
            own.latest = Rc::clone(&latest);
            own.unstored.push_back((ticket, latest));
        }
        if let Some((path, answer, value)) = answer {
            let answers = own.answers.get_or_insert_default();
            let (forgotten, size) = (answers.forget_oldest(), value.len());
            let ticket = add(&path, Event::Done(Done { value, attempt: 1, millis: 0 }), &forgotten);
            answers.keep(path, (answer, size), ticket);
        }
        if let Some(sent) = mail {
            let keys = Keys { keys: sent.iter().map(Uid::to_string).collect() };
            let path = self.kind.root.step(SENT);
            own.sent_record = Some(add(&path, Event::Keys(keys), own.sent_record.as_slice()));
            own.sent = sent;
        }
        own.settle(|record| writer.is_stored(record));
        Committed { entity: Rc::clone(self), withdrawn }
    }

    /// The messages that wait after a call, if it changes that.
    fn mail(&self, changes: &Changes) -> Result<Option<BTreeSet<Uid>>, Error> {
        let Changes { sent, withdrawn, carried_out, .. } = changes;
        let waiting = &self.state.borrow().sent;
        let gone = || withdrawn.iter().chain(carried_out);
        if sent.is_empty() && !gone().any(|message| waiting.contains(&message.0)) {
            return Ok(None);
        }
        let mut waiting = waiting.clone();
        gone().for_each(|message| _ = waiting.remove(&message.0));
        waiting.extend(sent.iter().map(|message| message.0));
        if waiting.len() > WAITING {
            let info = format!("{WAITING} messages of the entity wait already");
            return Err(Error::with_info(codes::INTERNAL_ERROR, info));
        }
        Ok(Some(waiting))
    }

    fn not_stored(&self, what: &str, error: ValueError) -> Error {
        tracing::error!(entity = %self.name.full, %error, "the {what} cannot be stored, so the call has failed");
        let info = format!("The {what} of the entity cannot be stored: {error}");
        Error::with_info(codes::INTERNAL_ERROR, info).with_cause(error)
    }
}

/// The end of an entity of which nothing is recorded.
fn ended(kind: &EntityKind) -> Record {
    Record::new(kind.root.clone(), Event::Ended(Ended { ending: Ending::Cancelled }))
}

/// Where it is recorded which messages an entity has sent.
const SENT: &str = "sent";

/// What a call leaves behind.
#[derive(Default)]
pub(super) struct Changes {
    /// The state, if it has changed.
    pub(super) state: Option<AnyState>,
    /// Its answer, if it has a key.
    pub(super) answer: Option<(Path, StoredAnswer)>,
    /// The messages that it sends.
    pub(super) sent: Vec<MessageId>,
    /// The messages that it takes back.
    pub(super) withdrawn: Vec<MessageId>,
    /// The message that it has carried out.
    pub(super) carried_out: Option<MessageId>,
    /// The call has failed, and only what it carries out is over.
    pub(super) has_failed: bool,
}

/// The same, as it is stored: the state and the answer in both forms, and the messages that wait after the call.
pub(super) struct PreparedCall {
    state: Option<(AnyState, Value)>,
    answer: Option<(Path, StoredAnswer, Value)>,
    mail: Option<BTreeSet<Uid>>,
    withdrawn: Vec<MessageId>,
    has_failed: bool,
}

/// A call that has ended, whose changes are being stored.
pub(super) struct Committed {
    entity: Rc<OwnedEntity>,
    withdrawn: Vec<MessageId>,
}

impl Committed {
    /// Completes when its changes are stored, and all that it saw.
    pub(super) async fn stored(self) -> Result<(), Stopped> {
        let Self { entity, withdrawn } = self;
        entity.writer().stored().await?;
        // they would stay until their time
        cancel(withdrawn, &entity.kind.journal);
        Ok(())
    }
}

/// How many bits of a token count the owners of an entity.
const OWNERS: u32 = 24;

/// The number of the token of an owner: higher than those of all owners before, also of an entity of the same name that
/// was removed meanwhile, because the journal's numbers of flows do not repeat.
fn token(flow: u64, epoch: Epoch) -> u64 {
    (flow << OWNERS) + epoch.get()
}

/// The last signal that this node has seen: another node that asked for the entity after it was claimed still waits.
fn seen_of_inbox(loaded: &Loaded, lease: &Lease) -> u64 {
    let is_own = |asked: &&StoredSignal| {
        let asked = asked.value.decode();
        asked.is_ok_and(|(by, _): Asks| by.is_none_or(|by| by == lease.node.get()))
    };
    let unseen = loaded.inbox.signals.iter().find(|asked| !is_own(asked));
    unseen.map_or(loaded.inbox.last, |asked| asked.number.saturating_sub(1))
}
