//! Flows in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::emits::FlowEvents;
use crate::check;
use crate::coding::{CLOSING, DONE, Encoded, EventKind};
use crate::error::{Error, NotWritten, Refused};
use crate::head::{FlowHead, InFlight, OpenEffect, Turns, WaitingSignals};
use crate::id::{Incarnation, RecordId, Uid};
use crate::limits::{BATCH, COUNTED, Limits, TAKEN_SIGNALS};
use crate::moment::{ClockState, Look, Moment};
use crate::path::Path;
use crate::quota::{CallerRange, WaitingCounts};
use crate::record::{Event, Record, StoredRecord};
use crate::request::{
    Append, Appended, CallerKey, Cancelled, CancelledBy, Claim, Claimed, Counts, Emit, EmittedPage,
    FirstOwner, FlowInfo, FlowState, Inbox, Loaded, News, OpenFlows, Query, ReadSchedule,
    Registered, Resume, Signal, Status, StoredSchedule, StoredSignal, Submit, Submitted,
};
use crate::seal::Seal;
use crate::sealed::Place;
use crate::time::{Reading, Timestamp};

pub(super) struct MemoryStore {
    pub(super) limits: Limits,
    pub(super) seal: Seal,
    /// By number, so oldest first.
    flows: BTreeMap<u64, StoredFlow>,
    /// The numbers of flows that have not ended, and of some that have since the last claim.
    open: BTreeSet<u64>,
    numbers: HashMap<Uid, u64>,
    keys: HashMap<CallerKey, u64>,
    /// Flows that count for a caller, until they are found to have ended.
    of_callers: BTreeSet<(String, u64)>,
    schedules: BTreeMap<String, Vec<u8>>,
    pub(super) times: ClockState,
    /// When leases end, as [`Moment::seen`] has it.
    nodes: HashMap<Incarnation, Timestamp>,
    last_flow: u64,
    last_node: u64,
}

pub(super) struct StoredFlow {
    pub(super) head: FlowHead,
    key: Option<CallerKey>,
    /// Whom it acts for.
    local_id: Option<String>,
    tags: BTreeSet<String>,
    records: BTreeMap<RecordId, Encoded>,
    /// By number.
    signals: BTreeMap<u64, KeptSignal>,
    pub(super) events: FlowEvents,
}

/// A signal; without its value when it was taken.
struct KeptSignal {
    id: Uid,
    name: String,
    value: Option<Vec<u8>>,
}

impl MemoryStore {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            seal: Seal::default(),
            flows: BTreeMap::new(),
            open: BTreeSet::new(),
            numbers: HashMap::new(),
            keys: HashMap::new(),
            of_callers: BTreeSet::new(),
            schedules: BTreeMap::new(),
            times: ClockState::default(),
            nodes: HashMap::new(),
            last_flow: 0,
            last_node: 0,
        }
    }

    pub(super) fn flow(&mut self, uid: Uid) -> Result<&mut StoredFlow, Refused> {
        let flow = self.numbers.get(&uid).and_then(|number| self.flows.get_mut(number));
        flow.ok_or(Refused::NoFlow(uid))
    }

    fn check_lease(&self, node: Incarnation, now: Moment) -> Result<(), Refused> {
        let is_alive = self.nodes.get(&node).is_some_and(|end| *end > now.seen);
        if is_alive { Ok(()) } else { Err(Refused::NoLease(node)) }
    }

    pub(super) fn submit(&mut self, submit: Submit, now: Moment) -> Result<Submitted, Error> {
        let started = check::submit(&submit, &self.seal)?;
        let by_key = submit.key.as_ref().and_then(|key| self.keys.get(key));
        let known = self.numbers.get(&submit.uid).or(by_key).copied();
        let known = known.and_then(|number| self.flows.get(&number));
        let mut left = None;
        if let Some(StoredFlow { head, records, .. }) = known {
            let answer = check::known(&submit, head.uid, records.values().next(), &self.seal)?;
            left = head.left_scope(&submit).map(|scope| (head.number, scope));
            if left.is_none() {
                return Ok(answer);
            }
        }
        if let Some(quota) = &submit.quota {
            let mut waiting = WaitingCounts::default();
            quota.counted().for_each(|it| waiting.set(it.from, self.waiting(&it)));
            waiting.check(quota)?;
        }
        if let FirstOwner::Node(node) = submit.owner {
            self.check_lease(node, now)?;
        }
        if let Some((earlier, scope)) = left {
            let key = self.flows.get_mut(&earlier).and_then(|flow| flow.key.as_mut());
            key.into_iter().for_each(|key| key.scope.clone_from(&scope));
        }
        self.last_flow += 1;
        let head = FlowHead { number: self.last_flow, ..FlowHead::new(&submit, now) };
        self.numbers.insert(submit.uid, head.number);
        if let Some(key) = &submit.key {
            self.keys.insert(key.clone(), head.number);
        }
        if let Some(quota) = submit.quota {
            self.of_callers.insert((quota.caller, head.number));
        }
        let records = BTreeMap::from([(RecordId::FIRST, started)]);
        let local_id = submit.started.local_id();
        let flow = StoredFlow {
            key: submit.key,
            local_id,
            tags: submit.tags.into_iter().collect(),
            records,
            signals: BTreeMap::new(),
            events: FlowEvents::default(),
            head,
        };
        self.flows.insert(self.last_flow, flow);
        self.open.insert(self.last_flow);
        Ok(Submitted::New)
    }

    /// How many flows of these callers wait; forgets ended flows.
    fn waiting(&mut self, counted: &CallerRange<'_>) -> u64 {
        let callers = (counted.from.to_owned(), 0)..(counted.till.clone(), 0);
        let (mut waiting, mut ended) = (0, Vec::new());
        for of_caller @ (_, number) in self.of_callers.range(callers) {
            match self.flows.get(number).map(|flow| flow.head.state) {
                None | Some(FlowState::Ended) => ended.push(of_caller.clone()),
                Some(state) => waiting += u64::from(state.waits()),
            }
        }
        ended.iter().for_each(|of_caller| _ = self.of_callers.remove(of_caller));
        waiting
    }

    pub(super) fn emit(&mut self, emit: Emit, now: Moment) -> Result<(), NotWritten> {
        let (value, limits) = (check::emit(&emit, &self.seal)?, self.limits);
        let flow = self.flow(emit.uid)?;
        flow.head.check_owner(emit.epoch)?;
        flow.events.add(emit, (value, flow.head.run), &limits, now.now)
    }

    pub(super) fn emitted(
        &mut self,
        uid: Uid,
        after: u64,
        most: usize,
    ) -> Result<EmittedPage, Error> {
        let (seal, most) = (self.seal.clone(), check::limit(most));
        let flow = self.flow(uid)?;
        let events = flow.events.after(uid, after, most, &seal)?;
        let is_last = flow.head.state == FlowState::Ended && events.len() < most;
        Ok(EmittedPage { events, is_last })
    }

    pub(super) fn append(
        &mut self,
        batch: &[Append],
        now: Moment,
    ) -> Result<Vec<Result<Appended, NotWritten>>, Error> {
        check::batch(batch)?;
        let (limits, seal) = (self.limits, self.seal.clone());
        let written = |entry: &Append| {
            let records = check::append(entry, &seal)?;
            self.flow(entry.uid)?.append(entry, records, now, &limits)
        };
        Ok(batch.iter().map(written).collect())
    }

    pub(super) fn claim(&mut self, claim: &Claim, now: Moment) -> Result<Vec<Claimed>, Error> {
        self.check_lease(claim.node, now)?;
        self.expire(now);
        let mut given = Vec::new();
        let mut claimable = Vec::new();
        let mut suspects = 0;
        let awaited: HashSet<Uid> = claim.awaited.iter().take(BATCH).copied().collect();
        let mut turns = [(); 3].map(|()| Turns::default());
        self.open.retain(|number| {
            let Some(StoredFlow { head, .. }) = self.flows.get_mut(number) else { return false };
            if head.is_due(now) {
                head.wake();
            }
            if head.owner == Some(claim.node) {
                suspects += usize::from(head.is_suspect());
                if head.ticket == Some(claim.ticket) {
                    given.push(head.given());
                }
            }
            let first = [FlowState::Suspect, FlowState::Ready, FlowState::New];
            let order = first.iter().position(|state| *state == head.state);
            let order = order.filter(|_| head.suits(claim)).map(|order| {
                let turn = turns[order].next(head);
                let is_awaited = order > 0 && awaited.contains(&head.uid);
                if is_awaited { (0, 0, *number) } else { (order + 1, turn, *number) }
            });
            claimable.extend(order);
            head.state != FlowState::Ended
        });
        if !given.is_empty() {
            return Ok(given);
        }
        claimable.sort_unstable();
        let mut left = check::limit(claim.limit);
        for (order, _, number) in claimable {
            if order > 0 && left == 0 {
                break;
            }
            let Some(StoredFlow { head, .. }) = self.flows.get_mut(&number) else { continue };
            let is_suspect = head.state == FlowState::Suspect;
            if is_suspect && suspects >= claim.suspects.max(1) {
                continue;
            }
            left -= usize::from(order > 0);
            given.push(head.claim(claim));
            suspects += usize::from(is_suspect);
        }
        Ok(given)
    }

    /// How long it takes until a flow that waits for a time is due, or the lease of another node ends.
    pub(super) fn next_look(&self, node: Incarnation, now: Moment) -> Option<Duration> {
        let heads = self.open.iter().filter_map(|number| Some(&self.flows.get(number)?.head));
        let flows = heads.filter_map(|head| head.due_within(now));
        let others = self.nodes.iter().filter(|(other, _)| **other != node);
        let leases = others.map(|(_, end)| end.since(now.seen));
        flows.chain(leases).min().map(Duration::from_millis)
    }

    /// Takes flows from nodes whose lease has ended.
    fn expire(&mut self, now: Moment) {
        let is_dead = |end: &Timestamp| *end <= now.seen;
        let dead: HashSet<Incarnation> =
            self.nodes.iter().filter(|(_, end)| is_dead(end)).map(|(node, _)| *node).collect();
        self.nodes.retain(|node, _| !dead.contains(node));
        if dead.is_empty() {
            return;
        }
        let owner_of = |flow: &StoredFlow| flow.head.owner.filter(|owner| dead.contains(owner));
        let mut in_flight: HashMap<Incarnation, InFlight> = HashMap::new();
        for flow in self.flows.values() {
            if let Some(owner) = owner_of(flow) {
                in_flight.entry(owner).or_default().add(flow.open_effect());
            }
        }
        for flow in self.flows.values_mut() {
            if let Some(owner) = owner_of(flow) {
                let effect = flow.open_effect();
                flow.head.lose_owner(effect, in_flight[&owner], &self.limits);
            }
        }
    }

    pub(super) fn load(&mut self, uid: Uid) -> Result<Loaded, Error> {
        let seal = self.seal.clone();
        let flow = self.flow(uid)?;
        let (records, inbox) = (flow.stored(&seal)?, flow.inbox(&seal)?);
        Ok(Loaded { flow: flow.head.info(), records, inbox })
    }

    pub(super) fn inbox(&mut self, uid: Uid) -> Result<Inbox, Error> {
        let seal = self.seal.clone();
        self.flow(uid)?.inbox(&seal)
    }

    pub(super) fn news(&self, node: Incarnation) -> Vec<News> {
        let heads = self.open.iter().filter_map(|number| self.flows.get(number));
        let unseen = heads
            .map(|flow| &flow.head)
            .filter(|head| head.owner == Some(node) && head.inbox > head.seen);
        unseen.map(|head| News { uid: head.uid, inbox: head.inbox }).take(BATCH).collect()
    }

    pub(super) fn find(&self, key: &CallerKey) -> Option<Uid> {
        let flow = self.keys.get(key).and_then(|number| self.flows.get(number));
        flow.map(|flow| flow.head.uid)
    }

    pub(super) fn status(&mut self, uid: Uid) -> Result<Status, Error> {
        let seal = self.seal.clone();
        let flow = self.flow(uid)?;
        let last =
            flow.records.iter().rev().find(|(_, record)| record.kind == EventKind::Ended as u8);
        let ending = match last.map(|(id, record)| opened(&seal, uid, *id, record)).transpose()? {
            Some(Record { event: Event::Ended(ended), .. }) => Some(ended.ending),
            _ => None,
        };
        Ok(Status { flow: flow.head.info(), ending })
    }

    pub(super) fn list(&self, query: &Query, now: Moment) -> Vec<FlowInfo> {
        let after = self.flows.range(query.after..).map(|(_, flow)| flow);
        let whose = after.filter(|flow| {
            let (key, scope) = flow.key.as_ref().map(|key| (&key.key, &key.scope)).unzip();
            query.user.as_ref().is_none_or(|user| flow.local_id.as_ref() == Some(user))
                && query.key.as_ref().is_none_or(|wanted| key == Some(wanted))
                && query.scope.as_ref().is_none_or(|wanted| scope == Some(wanted))
                && query.tag.as_ref().is_none_or(|tag| flow.tags.contains(tag))
        });
        let wanted = whose.filter(|StoredFlow { head, .. }| {
            head.number > query.after
                && query.uid.is_none_or(|uid| uid == head.uid)
                && query.state.is_none_or(|state| state == head.state)
                && !(query.open && head.state == FlowState::Ended)
                && query.template.as_ref().is_none_or(|template| *template == head.template)
                && query.template_without.is_none_or(|letter| !head.template.contains(letter))
                && query.from.is_none_or(|from| head.created >= from)
                && query.before.is_none_or(|before| head.created < before)
        });
        let listed = wanted.take(check::limit(query.limit)).map(|flow| FlowInfo {
            user: flow.local_id.clone(),
            key: flow.key.as_ref().map(|key| key.key.clone()),
            tags: flow.tags.iter().cloned().collect(),
            ..flow.head.listed(now)
        });
        listed.collect()
    }

    pub(super) fn count(&self, templates: &[String], now: Moment) -> Counts {
        let mut flows = BTreeMap::new();
        let open = self.open.iter().filter_map(|number| self.flows.get(number));
        for FlowHead { template, state, uid, epoch, created, .. } in open.map(|flow| &flow.head) {
            if *state == FlowState::Ended || !templates.contains(template) {
                continue;
            }
            let counted = flows.entry((template, *state)).or_insert_with(|| OpenFlows {
                template: template.clone(),
                state: *state,
                count: 0,
                oldest: *uid,
                epoch: *epoch,
                created: *created,
            });
            counted.count = (counted.count + 1).min(COUNTED as u64);
        }
        let first = self.flows.keys().next();
        let stored = first.map_or(0, |first| self.last_flow - first + 1);
        Counts { time: now.now, flows: flows.into_values().collect(), stored, ..Counts::default() }
    }

    pub(super) fn schedules(&self) -> Vec<ReadSchedule> {
        let stored = self.schedules.iter();
        stored.map(|(name, value)| self.seal.open_schedule(name.clone(), value)).collect()
    }

    pub(super) fn put_schedule(&mut self, schedule: StoredSchedule) -> Result<(), Error> {
        let StoredSchedule { name, value } = schedule;
        let others = self.schedules.keys().filter(|other| **other != name).count();
        check::schedule(&name, others)?;
        let value = self.seal.seal_value(&Place::Schedule { name: &name }, &value)?;
        self.schedules.insert(name, value);
        Ok(())
    }

    pub(super) fn remove_schedule(&mut self, name: &str) -> bool {
        self.schedules.remove(name).is_some()
    }

    pub(super) fn signal(&mut self, uid: Uid, signal: Signal) -> Result<(), Error> {
        check::text("name", &signal.name)?;
        let (limits, seal) = (self.limits, self.seal.clone());
        let flow = self.flow(uid)?;
        if flow.knows(&signal) {
            return Ok(());
        }
        let number = flow.head.signal(signal.bytes(), flow.waiting_signals(), &limits)?;
        flow.keep(number, signal, &seal)
    }

    pub(super) fn cancel(
        &mut self,
        uid: Uid,
        by: &CancelledBy,
        unless: Option<&Path>,
        now: Moment,
    ) -> Result<Cancelled, Error> {
        check::cancel(by)?;
        let flow = self.flow(uid)?;
        if unless
            .is_some_and(|path| flow.records.values().any(|it| it.path == *path && it.kind == DONE))
        {
            return Ok(Cancelled::TooLate);
        }
        Ok(flow.head.cancel(by, now.now))
    }

    pub(super) fn resume(&mut self, uid: Uid, how: Resume) -> Result<(), Error> {
        check::resume(&how)?;
        let seal = self.seal.clone();
        let flow = self.flow(uid)?;
        if let Resume::Signal(signal) = &how
            && flow.knows(signal)
        {
            return Ok(());
        }
        flow.head.check_stopped()?;
        let records = if how.removes_records() { flow.stored(&seal)? } else { Vec::new() };
        flow.head.resume(&how, &records)?;
        let before = flow.records.len();
        match how {
            Resume::Again => flow.records.retain(|id, _| *id == RecordId::FIRST),
            Resume::Without(records) => {
                let gone: HashSet<_> = records.into_iter().collect();
                flow.records.retain(|id, _| *id == RecordId::FIRST || !gone.contains(id));
            }
            Resume::Signal(signal) => flow.keep(flow.head.inbox, signal, &seal)?,
            Resume::Continue | Resume::OnItsVersion => {}
        }
        flow.head.removed += (before - flow.records.len()) as u64;
        Ok(())
    }

    pub(super) fn trim(&mut self, before: Timestamp) -> usize {
        let has_ended =
            |flow: &&StoredFlow| flow.head.ended_seen.is_some_and(|ended| ended <= before);
        let old = self.flows.values().filter(has_ended).take(BATCH);
        let old: Vec<_> = old.map(|flow| flow.head.number).collect();
        self.drop_flows(&old);
        old.len()
    }

    pub(super) fn remove(&mut self, uids: &[Uid]) -> Result<(), Error> {
        check::remove(uids)?;
        let numbers = uids.iter().filter_map(|uid| self.numbers.get(uid)).copied();
        let ended = |number: &u64| self.flows[number].head.state == FlowState::Ended;
        let ended: Vec<_> = numbers.filter(ended).collect();
        self.drop_flows(&ended);
        Ok(())
    }

    fn drop_flows(&mut self, numbers: &[u64]) {
        for flow in numbers.iter().filter_map(|number| self.flows.remove(number)) {
            self.numbers.remove(&flow.head.uid);
            flow.key.as_ref().map(|key| self.keys.remove(key));
        }
        self.of_callers.retain(|(_, number)| self.flows.contains_key(number));
    }

    pub(super) fn register(&mut self, lease: Duration, wall: Timestamp) -> Registered {
        let (seen, time) = self.look(wall, Look::Register);
        self.last_node += 1;
        let node = Incarnation::new(self.last_node);
        self.nodes.insert(node, seen.after(lease));
        Registered { node, time }
    }

    pub(super) fn end_lease(&mut self, node: Incarnation) {
        if let Some(ends) = self.nodes.get_mut(&node) {
            *ends = Timestamp::default();
        }
    }

    /// A node looks at the clock: returns the time that leases run by, and the reading of the node.
    fn look(&mut self, wall: Timestamp, look: Look) -> (Timestamp, Reading) {
        let reading;
        (self.times, reading) = self.times.look(wall, look);
        (self.times.seen, reading)
    }

    pub(super) fn renew(
        &mut self,
        node: Incarnation,
        lease: Duration,
        now: Moment,
    ) -> Result<Reading, Error> {
        self.check_lease(node, now)?;
        let (seen, time) = self.look(now.wall, Look::Renew);
        self.nodes.insert(node, seen.after(lease));
        Ok(time)
    }
}

impl StoredFlow {
    /// Its records, oldest first.
    fn stored(&self, seal: &Seal) -> Result<Vec<StoredRecord>, Error> {
        let uid = self.head.uid;
        let read = |(id, encoded): (&RecordId, &Encoded)| {
            Ok(StoredRecord { id: *id, record: opened(seal, uid, *id, encoded)? })
        };
        self.records.iter().map(read).collect()
    }

    fn append(
        &mut self,
        entry: &Append,
        records: Vec<Encoded>,
        now: Moment,
        limits: &Limits,
    ) -> Result<Appended, NotWritten> {
        let ids: Vec<_> = (entry.first..)
            .map(|sequence| RecordId { epoch: entry.epoch, sequence })
            .take(records.len())
            .collect();
        let known = ids.iter().filter(|id| self.records.contains_key(id)).count();
        if let Some(written) = check::repeated(entry, known as u64, &self.head)? {
            return Ok(written);
        }
        let written = self.head.append(entry, now, limits)?;
        let replaced = entry.replaces.iter().filter(|id| **id != RecordId::FIRST);
        let replaced = replaced.filter(|id| self.records.remove(id).is_some());
        self.head.removed += replaced.count() as u64;
        self.records.extend(ids.into_iter().zip(records));
        for number in &entry.takes {
            if let Some(signal) = self.signals.get_mut(number) {
                signal.value = None;
            }
        }
        if let Some(oldest) = self.head.inbox.checked_sub(TAKEN_SIGNALS) {
            self.signals.retain(|number, signal| *number > oldest || signal.value.is_some());
        }
        Ok(written)
    }

    fn knows(&self, signal: &Signal) -> bool {
        self.signals.values().any(|kept| kept.id == signal.id)
    }

    fn waiting_signals(&self) -> WaitingSignals {
        let mut waiting = WaitingSignals::default();
        for kept in self.signals.values() {
            if let Some(value) = &kept.value {
                waiting.count += 1;
                waiting.bytes += (kept.name.len() + value.len()) as u64;
            }
        }
        waiting
    }

    fn keep(&mut self, number: u64, signal: Signal, seal: &Seal) -> Result<(), Error> {
        let Signal { id, name, value } = signal;
        let place = Place::Signal { flow: self.head.uid, id, name: &name };
        let value = Some(seal.seal_value(&place, &value)?);
        self.signals.insert(number, KeptSignal { id, name, value });
        Ok(())
    }

    fn open_effect(&self) -> OpenEffect {
        let mut open = HashMap::new();
        for (id, record) in &self.records {
            if record.kind == EventKind::Intent as u8 {
                open.insert(&record.path, id.epoch);
            } else if CLOSING.iter().any(|kind| *kind as u8 == record.kind) {
                open.remove(&record.path);
            }
        }
        match open.values().max() {
            None => OpenEffect::None,
            Some(epoch) if *epoch == self.head.epoch => OpenEffect::OfOwner,
            Some(_) => OpenEffect::OfEarlier,
        }
    }

    fn inbox(&self, seal: &Seal) -> Result<Inbox, Error> {
        let waiting = self.signals.iter().filter_map(|(number, KeptSignal { id, name, value })| {
            let place = Place::Signal { flow: self.head.uid, id: *id, name };
            let value = seal.open_value(&place, value.as_ref()?);
            Some(value.map(|value| StoredSignal { number: *number, name: name.clone(), value }))
        });
        let signals = waiting.collect::<Result<_, _>>()?;
        Ok(Inbox { signals, cancel: self.head.cancel.clone(), last: self.head.inbox })
    }
}

fn opened(seal: &Seal, uid: Uid, id: RecordId, encoded: &Encoded) -> Result<Record, Error> {
    encoded.opened(seal, uid, id).map_err(|reason| Error::UnknownRecord {
        uid,
        sequence: id.sequence,
        program: "this process".to_owned(),
        reason,
    })
}
