//! The rules of a flow that do not depend on where it is stored.
//!
//! A journal reads the head of a flow, has it changed here, and writes it back in the same transaction
//! as the records: so each rule is written once, for all journals.

use std::collections::HashMap;
use std::time::Duration;

use crate::effects;
use crate::error::{NotWritten, Refused};
use crate::id::{Epoch, Incarnation, Uid};
use crate::limits::Limits;
use crate::moment::Moment;
use crate::record::{Ending, Event, StoredRecord};
use crate::request::{
    Append, Appended, Cancelled, CancelledBy, Claim, Claimed, Condition, Disposition, FirstOwner,
    FlowInfo, FlowState, Resume, StoredCancel, Submit,
};
use crate::time::Timestamp;

/// The signals of a flow that were not taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitingSignals {
    pub(crate) count: u64,
    /// Of their names and values.
    pub(crate) bytes: u64,
}

/// The events of a flow that are stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EmittedSoFar {
    pub(crate) count: u64,
    /// Of their steps, keys and values.
    pub(crate) bytes: u64,
}

impl EmittedSoFar {
    /// The same with an event of so many bytes.
    pub(crate) const fn with(self, bytes: u64, limits: &Limits) -> Result<Self, NotWritten> {
        let with = Self { count: self.count + 1, bytes: self.bytes.saturating_add(bytes) };
        if with.count > limits.events || with.bytes > limits.event_bytes {
            return Err(NotWritten::TooManyEvents { events: self.count, bytes: self.bytes });
        }
        Ok(with)
    }
}

/// The stored state of a flow in addition to its records and signals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlowHead {
    pub(crate) uid: Uid,
    /// Assigned by the storage: older flows have lower numbers.
    pub(crate) number: u64,
    pub(crate) template: String,
    pub(crate) version: u32,
    /// Only nodes whose program has the version, not a compatible one, may claim it.
    pub(crate) pinned: bool,
    pub(crate) state: FlowState,
    pub(crate) epoch: Epoch,
    pub(crate) owner: Option<Incarnation>,
    /// The claim by which its owner received it.
    pub(crate) ticket: Option<Uid>,
    pub(crate) run: u32,
    /// 1 if an owner died with an open effect, and one more for each death in a row of an owner that had no
    /// other flow in flight.
    pub(crate) claims: u32,
    /// How often in a row an owner died.
    pub(crate) deaths: u32,
    /// The highest number in the inbox.
    pub(crate) inbox: u64,
    /// The highest number in the inbox that an owner has seen.
    pub(crate) seen: u64,
    /// How many records were removed.
    pub(crate) removed: u64,
    pub(crate) created: Timestamp,
    pub(crate) due: Option<Timestamp>,
    /// The same, as [`Moment::passed`] has it, if it waits for a length of time.
    pub(crate) due_passed: Option<Timestamp>,
    pub(crate) ended: Option<Timestamp>,
    /// The same, as [`Moment::seen`] has it.
    pub(crate) ended_seen: Option<Timestamp>,
    pub(crate) reason: Option<String>,
    pub(crate) cancel: Option<StoredCancel>,
}

impl FlowHead {
    /// A flow that is submitted. The storage assigns it a number.
    pub(crate) fn new(submit: &Submit, moment: Moment) -> Self {
        let (state, owner, due) = match submit.owner {
            FirstOwner::Node(node) => (FlowState::Running, Some(node), None),
            FirstOwner::AnyFrom(due) if due > moment.now => (FlowState::Parked, None, Some(due)),
            FirstOwner::AnyAfter(_) => (FlowState::Parked, None, None),
            FirstOwner::Any | FirstOwner::AnyFrom(_) => (FlowState::New, None, None),
        };
        let due_passed = match submit.owner {
            FirstOwner::AnyAfter(within) => Some(moment.passed.after(within)),
            FirstOwner::Node(_) | FirstOwner::Any | FirstOwner::AnyFrom(_) => None,
        };
        Self {
            uid: submit.uid,
            number: 0,
            template: submit.started.template.clone(),
            version: submit.started.version,
            pinned: false,
            state,
            epoch: Epoch::new(u64::from(owner.is_some())),
            owner,
            ticket: None,
            run: 0,
            claims: 0,
            deaths: 0,
            inbox: 0,
            seen: 0,
            removed: 0,
            created: moment.now,
            due,
            due_passed,
            ended: None,
            ended_seen: None,
            reason: None,
            cancel: None,
        }
    }

    /// Applies an append to the flow. The storage has checked that the records are new.
    pub(crate) fn append(
        &mut self,
        entry: &Append,
        moment: Moment,
        limits: &Limits,
    ) -> Result<Appended, NotWritten> {
        self.check_owner(entry.epoch)?;
        let ending = entry.records.iter().find_map(|record| {
            if let Event::Ended(ended) = &record.event { Some(&ended.ending) } else { None }
        });
        let ends = ending.is_some();
        let news_matters = match entry.condition {
            Condition::AllSeen => self.inbox > entry.seen,
            Condition::None => {
                ends && self.cancel.as_ref().is_some_and(|cancel| cancel.number > entry.seen)
            }
        };
        if news_matters {
            return Err(NotWritten::Unseen { inbox: self.inbox });
        }
        let end = entry.first.saturating_add(entry.records.len() as u64);
        let removed = self.removed + entry.replaces.len() as u64;
        if !entry.records.is_empty() && !ends && end.saturating_sub(removed) > limits.records {
            return Err(NotWritten::TooManyRecords(limits.records));
        }
        self.seen = self.seen.max(entry.seen.min(self.inbox));
        self.version = self.version.max(entry.version);
        if entry.records.iter().any(|record| record.event.kind().is_progress()) {
            (self.claims, self.deaths, self.reason) = (0, 0, None);
        }
        if matches!(entry.then, Disposition::Park(_) | Disposition::Release) {
            // an owner that gives it back lives, so the death of one before it is not why it waits
            self.reason = None;
        }
        match &entry.then {
            _ if ends => {
                self.leave(FlowState::Ended, None);
                (self.ended, self.ended_seen) = (Some(moment.now), Some(moment.seen));
                self.reason = ending.map(outcome);
            }
            Disposition::Keep => {}
            Disposition::Release => self.leave(FlowState::Ready, None),
            Disposition::Park(_) | Disposition::Retry { .. } if self.inbox > entry.seen => {
                self.leave(FlowState::Ready, None);
            }
            Disposition::Park(within) => self.park(*within, moment),
            Disposition::Retry { within, reason } => {
                self.park(Some(*within), moment);
                self.reason = Some(reason.clone());
            }
            Disposition::Pause(reason) => {
                self.leave(FlowState::Paused, None);
                self.reason = Some(reason.clone());
            }
        }
        Ok(Appended { inbox: self.inbox })
    }

    /// Whether the flow is of the owner with this epoch.
    pub(crate) fn check_owner(&self, epoch: Epoch) -> Result<(), NotWritten> {
        if self.state == FlowState::Running && self.epoch == epoch {
            Ok(())
        } else {
            Err(NotWritten::Stale { epoch: self.epoch })
        }
    }

    /// Stores a signal of so many bytes while others were not taken. Returns its number.
    pub(crate) fn signal(
        &mut self,
        bytes: u64,
        waiting: WaitingSignals,
        limits: &Limits,
    ) -> Result<u64, Refused> {
        if self.state == FlowState::Ended {
            return Err(Refused::HasEnded(self.uid));
        }
        if waiting.count >= limits.signals {
            return Err(Refused::TooManySignals(limits.signals));
        }
        if waiting.bytes.saturating_add(bytes) > limits.signal_bytes {
            return Err(Refused::TooManySignalBytes(limits.signal_bytes));
        }
        self.inbox += 1;
        // one that has not begun waits for its time
        if self.epoch > Epoch::new(0) {
            self.wake();
        }
        Ok(self.inbox)
    }

    /// Cancels the flow, unless it has ended or was cancelled before. One that waits for an operator goes
    /// on, to undo: also by a second cancel, if it stopped while it undid because of the first.
    pub(crate) fn cancel(&mut self, by: &CancelledBy, at: Timestamp) -> Cancelled {
        if self.state == FlowState::Ended {
            return Cancelled::TooLate;
        }
        let cancel = match &self.cancel {
            Some(cancel) => cancel.clone(),
            None => {
                self.inbox += 1;
                let cancel = StoredCancel { number: self.inbox, by: by.clone(), at };
                self.cancel.insert(cancel).clone()
            }
        };
        if matches!(self.state, FlowState::Paused | FlowState::Dead) {
            self.go_on();
        } else {
            self.wake();
        }
        Cancelled::Recorded(cancel)
    }

    /// Whether the flow waits for an operator.
    pub(crate) fn check_stopped(&self) -> Result<(), Refused> {
        let is_stopped = matches!(self.state, FlowState::Paused | FlowState::Dead);
        if is_stopped { Ok(()) } else { Err(Refused::NotStopped(self.uid)) }
    }

    /// Lets a flow go on that is paused or a dead letter. `records` has its records if some of them are removed.
    pub(crate) fn resume(&mut self, how: &Resume, records: &[StoredRecord]) -> Result<(), Refused> {
        self.check_stopped()?;
        match how {
            Resume::Continue => {}
            // the storage adds it under this number
            Resume::Signal(_) => self.inbox += 1,
            Resume::Without(without) => effects::may_go_back(self.uid, records, without)?,
            Resume::OnItsVersion => self.pinned = true,
            Resume::Again => {
                effects::may_begin_anew(self.uid, records)?;
                self.run += 1;
            }
        }
        self.go_on();
        Ok(())
    }

    /// The scope that its key has from now on, if it leaves the key to this submit. A submit that is repeated takes no key
    /// from itself. How it ended is not known if a program before format 4 has ended it.
    pub(crate) fn left_scope(&self, submit: &Submit) -> Option<String> {
        let has_failed = self.state == FlowState::Ended
            && self.reason.as_ref().is_some_and(|outcome| !outcome.is_empty());
        let leaves = submit.reruns && submit.uid != self.uid && has_failed;
        leaves.then(|| format!("earlier {}", self.uid))
    }

    /// Whether the node has a program for it.
    pub(crate) fn suits(&self, claim: &Claim) -> bool {
        claim.programs.iter().any(|program| {
            let has_version = program.version == self.version
                || !self.pinned && program.compatible.contains(&self.version);
            has_version && program.template == self.template
        })
    }

    /// Assigns the flow to a node.
    pub(crate) fn claim(&mut self, claim: &Claim) -> Claimed {
        if !self.is_suspect() {
            self.reason = None;
        }
        self.epoch = Epoch::new(self.epoch.get() + 1);
        self.owner = Some(claim.node);
        self.ticket = Some(claim.ticket);
        self.state = FlowState::Running;
        self.given()
    }

    /// The claim's report about it.
    pub(crate) const fn given(&self) -> Claimed {
        let is_suspect = self.is_suspect();
        Claimed { uid: self.uid, epoch: self.epoch, deaths: self.deaths, is_suspect }
    }

    /// Whether an owner died with an open effect of it, and it has not got further since.
    pub(crate) const fn is_suspect(&self) -> bool {
        self.claims > 0
    }

    /// Takes the flow from an owner that is dead, and had these flows in flight. Of several it is not known which
    /// one has killed it, so that counts for none of them, unless it goes on like that.
    pub(crate) fn lose_owner(&mut self, effect: OpenEffect, in_flight: InFlight, limits: &Limits) {
        self.deaths += 1;
        if effect == OpenEffect::None {
            return self.leave(FlowState::Ready, None);
        }
        self.claims += u32::from(!self.is_suspect() || in_flight.is_only(effect));
        self.leave(FlowState::Suspect, None);
        self.reason = Some("its owner died while an effect of it was open".to_owned());
        let reason = if self.claims > limits.claims {
            let alone = self.claims - 1;
            format!("{alone} owners died while an effect of it was open, and of no other flow")
        } else if effect == OpenEffect::OfOwner && self.deaths > limits.deaths() {
            format!(
                "{} owners in a row died with it, the last one while an effect of it was open",
                self.deaths
            )
        } else {
            return;
        };
        self.state = FlowState::Dead;
        self.reason = Some(reason);
    }

    /// Whether it waits for a time that has come.
    pub(crate) fn is_due(&self, moment: Moment) -> bool {
        let is_over = |due: Option<Timestamp>, now| due.is_some_and(|due| due <= now);
        is_over(self.due, moment.now) || is_over(self.due_passed, moment.passed)
    }

    /// How many milliseconds later it does; `None` if it waits for no time.
    pub(crate) fn due_within(&self, moment: Moment) -> Option<u64> {
        let due = self.due.map(|due| due.since(moment.now));
        let due_passed = self.due_passed.map(|due| due.since(moment.passed));
        due.into_iter().chain(due_passed).min()
    }

    /// A parked flow may be claimed.
    pub(crate) fn wake(&mut self) {
        if self.state == FlowState::Parked {
            self.state = self.claimable();
            (self.due, self.due_passed) = (None, None);
        }
    }

    fn go_on(&mut self) {
        self.state = self.claimable();
        (self.claims, self.deaths, self.reason) = (0, 0, None);
    }

    fn claimable(&self) -> FlowState {
        if self.epoch > Epoch::new(0) { FlowState::Ready } else { FlowState::New }
    }

    fn park(&mut self, within: Option<Duration>, moment: Moment) {
        self.leave(FlowState::Parked, within.map(|within| moment.now.after(within)));
        self.due_passed = within.map(|within| moment.passed.after(within));
    }

    fn leave(&mut self, state: FlowState, due: Option<Timestamp>) {
        self.state = state;
        (self.due, self.due_passed) = (due, None);
        (self.owner, self.ticket) = (None, None);
    }

    /// The same as in a list: with the time of day at which a wait for a length of time ends.
    pub(crate) fn listed(&self, moment: Moment) -> FlowInfo {
        let left = self.due_passed.map(|due| Duration::from_millis(due.since(moment.passed)));
        let due = self.due.or_else(|| left.map(|left| moment.now.after(left)));
        FlowInfo { due, ..self.info() }
    }

    pub(crate) fn info(&self) -> FlowInfo {
        let reason = self.reason.clone();
        let has_ended = self.state == FlowState::Ended;
        let (outcome, reason) = if has_ended { (reason, None) } else { (None, reason) };
        FlowInfo {
            uid: self.uid,
            number: self.number,
            template: self.template.clone(),
            version: self.version,
            state: self.state,
            epoch: self.epoch,
            owner: self.owner,
            run: self.run,
            claims: self.claims,
            created: self.created,
            due: self.due,
            ended: self.ended,
            reason,
            cancel: self.cancel.clone(),
            outcome: outcome.map(|code| if code.is_empty() { SUCCESS.to_owned() } else { code }),
            user: None,
            key: None,
            tags: Vec::new(),
        }
    }
}

/// The outcome of a flow that came to a result.
const SUCCESS: &str = "success";

/// How a flow ended, in the place of its reason: the code of its error, and nothing if it has a result.
fn outcome(ending: &Ending) -> String {
    match ending {
        Ending::Completed(_) => String::new(),
        Ending::Failed(failure) => failure.code.clone(),
        Ending::Cancelled => "Cancelled".to_owned(),
    }
}

/// The turns in which flows of a state are claimed: functions take turns, and each has its oldest first.
#[derive(Debug, Default)]
pub(crate) struct Turns(HashMap<String, u64>);

impl Turns {
    /// The turn of a flow, which is asked for the oldest first.
    pub(crate) fn next(&mut self, head: &FlowHead) -> u64 {
        let turn = self.0.entry(head.template.clone()).or_default();
        *turn += 1;
        *turn
    }
}

/// Whether an effect of a flow was begun and not ended: its last intent at some path is newer than what
/// closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenEffect {
    None,
    /// An earlier owner has begun it, and the last one has not come to it: the flow only waited there.
    OfEarlier,
    /// The last owner has begun it.
    OfOwner,
}

impl OpenEffect {
    /// The effects that are open, of a flow that has any; `of_owner` is whether the last owner has begun one.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) const fn open(of_owner: bool) -> Self {
        if of_owner { Self::OfOwner } else { Self::OfEarlier }
    }
}

/// The flows of an owner that have an open effect.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InFlight {
    of_earlier: usize,
    of_owner: usize,
}

impl InFlight {
    pub(crate) fn add(&mut self, effect: OpenEffect) {
        match effect {
            OpenEffect::None => {}
            OpenEffect::OfEarlier => self.of_earlier += 1,
            OpenEffect::OfOwner => self.of_owner += 1,
        }
    }

    /// Whether only the flow with this effect may have killed the owner. One that only waited is in the way of no
    /// other; it may have done so itself if nothing was begun.
    fn is_only(self, effect: OpenEffect) -> bool {
        match effect {
            OpenEffect::None => false,
            OpenEffect::OfEarlier => (self.of_earlier, self.of_owner) == (1, 0),
            OpenEffect::OfOwner => self.of_owner == 1,
        }
    }
}
