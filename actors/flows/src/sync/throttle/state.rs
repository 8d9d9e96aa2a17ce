//! The accounting of a throttle: for each key the entries of the current period and the waiters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use actix::{Actor, Addr, Arbiter};
use asyncsteps_core::sim::Sim;
use asyncsteps_core::sync::throttle::{Options, Queue};
use asyncsteps_core::{AsyncSteps, Awaitable, Contention, Error, Identity, Time, turn_time};
use parking_lot::Mutex;

use super::schedule::{PeriodOpened, PeriodSchedule};
use crate::clock::Clock;
use crate::sync::keys::KeyTable;
use crate::sync::limits::Limits;
use crate::sync::load::{KeyReport, LockReport};
use crate::sync::owners::{KeyOwners, LockOwner, WaitingOwner};
use crate::sync::waiter::{Label, LockWaiter};
use crate::sync::waits::{QueuedSince, WaitCounts};

/// The state of one key.
pub(super) struct ThrottleKeyState {
    pub(super) entries: Mutex<ThrottleEntries>,
    pub(super) key: Arc<str>,
    pub(super) family: Arc<ThrottleFamily>,
}

pub(super) struct ThrottleEntries {
    pub(super) queue: Queue<ThrottleWaiter>,
    /// Whether the key is in the schedule, which keeps it alive.
    scheduled: bool,
}

/// An entry of the queue.
pub(super) struct ThrottleWaiter {
    pub(super) waiter: LockWaiter,
    owner: LockOwner,
    since: QueuedSince,
}

impl ThrottleWaiter {
    /// It joins the queue now.
    pub(super) fn new(waiter: LockWaiter, owner: LockOwner) -> Self {
        Self { waiter, owner, since: QueuedSince::now() }
    }
}

/// Who ends the periods, and the time by which they end.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// The actor, by the clock that arbiters share.
    Actor(Time),
    /// The flows that wait, by the time of their host: in a simulation, or on another event loop.
    Waiters(Time),
}

impl Pace {
    pub(super) fn now(self) -> Time {
        match self {
            Self::Actor(now) | Self::Waiters(now) => now,
        }
    }
}

/// The state that all keys of a throttle share.
pub(super) struct ThrottleFamily {
    name: &'static str,
    options: Options,
    pub(super) clock: Clock,
    keys: KeyTable<ThrottleKeyState>,
    pub(super) schedule: Mutex<PeriodSchedule<ThrottleKeyState>>,
    pub(super) waits: WaitCounts,
    /// Set when the throttle is first used on an arbiter, or before.
    actor: OnceLock<Addr<ThrottleActor>>,
    /// The actor is gone.
    closed: AtomicBool,
}

/// The actor of a [`Throttle`](super::Throttle): it ends the periods of all keys, and takes
/// [`Enter`](crate::sync::Enter) and [`Inspect`](crate::sync::Inspect).
///
/// It has one timer, and none while all keys are idle. The accounting, and the periods that are open, are shared by all
/// handles, on any arbiter.
#[derive(derive_more::Debug)]
#[debug("ThrottleActor {{ handles: {:?} }}", family.strong_count())]
pub struct ThrottleActor {
    pub(super) family: Weak<ThrottleFamily>,
}

impl ThrottleFamily {
    /// The state of the empty key of a new family, which has no actor yet.
    ///
    /// # Panics
    /// If `max` is 0 or `period` is zero, see [`Options::check`].
    #[track_caller]
    pub(super) fn start(name: &'static str, options: Options) -> Arc<ThrottleKeyState> {
        // refuses limits of zero
        let queue = Queue::new(options);
        let family = Arc::new(Self {
            name,
            options,
            clock: Clock::start(),
            keys: KeyTable::new(),
            schedule: Mutex::default(),
            waits: WaitCounts::default(),
            actor: OnceLock::new(),
            closed: AtomicBool::new(false),
        });
        family.keys.get("", |key| ThrottleKeyState::new(key, &family, queue))
    }

    /// The address of the actor; `start` starts it if there is none.
    pub(super) fn actor(
        self: &Arc<Self>,
        start: impl FnOnce(ThrottleActor) -> Addr<ThrottleActor>,
    ) -> &Addr<ThrottleActor> {
        self.actor.get_or_init(|| start(ThrottleActor { family: Arc::downgrade(self) }))
    }

    /// How the running step sees time.
    pub(super) fn time_of(self: &Arc<Self>, asi: &AsyncSteps) -> Pace {
        let now = asi.now();
        if asi.extension::<Sim>().is_none() && self.has_actor() {
            Pace::Actor(self.clock.at(now))
        } else {
            Pace::Waiters(now)
        }
    }

    /// How a call outside of callbacks sees time.
    ///
    /// # Errors
    /// There is neither an actor nor a flow whose time it is.
    pub(super) fn time(self: &Arc<Self>) -> Result<Pace, Error> {
        if self.has_actor() {
            return Ok(Pace::Actor(self.clock.now()));
        }
        turn_time().map(Pace::Waiters).ok_or_else(|| {
            let info = "the throttle has no actor, and is used neither in a flow nor on an arbiter";
            Error::unexpected(info)
        })
    }

    /// Whether there is an actor that ends the periods; on an arbiter it is started if need be.
    fn has_actor(self: &Arc<Self>) -> bool {
        if self.actor.get().is_none() && Arbiter::try_current().is_some() {
            self.actor(Actor::start);
        }
        self.actor.get().is_some()
    }

    /// Ends the periods that have expired.
    pub(super) fn end_periods(&self, now: Time) {
        let over = self.schedule.lock().take_over(now);
        for state in over {
            let (admitted, end) = state.end_period(now);
            if let Some(end) = end {
                self.schedule.lock().add(end, state);
            }
            self.admit(admitted);
        }
    }

    /// Notifies waiters that they have entered.
    fn admit(&self, admitted: Vec<ThrottleWaiter>) {
        for ThrottleWaiter { waiter, since, .. } in admitted {
            self.waits.admitted(since);
            waiter.admit();
        }
    }

    /// The state of a key.
    pub(super) fn key(family: &Arc<Self>, key: &str) -> Arc<ThrottleKeyState> {
        family.keys.get(key, |key| ThrottleKeyState::new(key, family, Queue::new(family.options)))
    }

    /// The name of steps that wait for it.
    pub(super) fn wait_name(&self) -> &'static str {
        if self.name.is_empty() { "throttle" } else { self.name }
    }

    /// The keys that have entries in the current period.
    pub(super) fn report(&self) -> LockReport {
        let keys = self.keys.all().into_iter().filter_map(|state| {
            let is_scheduled = state.entries.lock().scheduled;
            is_scheduled.then(|| state.report())
        });
        LockReport {
            name: self.name,
            limits: Some(Limits::Throttle(self.options)),
            keys: keys.collect(),
            waits: self.waits.figures(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Schedules the end of a period with the actor.
    fn schedule(&self, end: Time, key: Arc<ThrottleKeyState>) {
        let was_told = {
            let mut schedule = self.schedule.lock();
            // an actor that is gone has emptied the schedule for the last time
            if self.is_closed() {
                return;
            }
            schedule.add(end, key);
            schedule.tell()
        };
        if !was_told {
            self.tell_actor();
        }
    }

    /// At most one of these messages is in flight; if the actor ends without handling it, it closes the
    /// throttle.
    #[expect(clippy::disallowed_methods, reason = "see above")]
    fn tell_actor(&self) {
        if let Some(actor) = self.actor.get() {
            actor.do_send(PeriodOpened);
        }
    }

    /// The actor is gone: fails all waiters, and all entries from now on.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        drop(std::mem::take(&mut *self.schedule.lock()));
        for state in self.keys.all() {
            let dismissed: Vec<_> = {
                let mut entries = state.entries.lock();
                std::iter::from_fn(|| entries.queue.dismiss()).collect()
            };
            dismissed.into_iter().for_each(|queued| queued.waiter.fail(gone()));
        }
    }
}

impl ThrottleEntries {
    /// Takes the waiters whose turn has come out of the queue.
    fn admit(&mut self, now: Time) -> Vec<ThrottleWaiter> {
        std::iter::from_fn(|| self.queue.admit(now)).collect()
    }
}

impl ThrottleKeyState {
    fn new(key: Arc<str>, family: &Arc<ThrottleFamily>, queue: Queue<ThrottleWaiter>) -> Self {
        let entries = Mutex::new(ThrottleEntries { queue, scheduled: false });
        Self { entries, key, family: Arc::clone(family) }
    }

    pub(super) fn report(&self) -> KeyReport {
        let queue = &self.entries.lock().queue;
        let (queued, entered) = (queue.queued(), queue.entered());
        KeyReport { key: Arc::clone(&self.key), holders: 0, queued, entered }
    }

    /// Who waits, at most `most` of them.
    pub(super) fn owners(&self, most: usize) -> KeyOwners {
        let entries = self.entries.lock();
        let waiting = entries
            .queue
            .waiting()
            .take(most)
            .map(|queued| WaitingOwner { owner: queued.owner, waited: queued.since.elapsed() });
        KeyOwners { inside: Vec::new(), waiting: waiting.collect() }
    }

    /// Enters if that needs no waiting.
    pub(super) fn enter(self: &Arc<Self>, pace: Pace) -> Result<bool, Error> {
        // without an actor, an entry has to end the periods of other keys, too
        let is_one_more = match pace {
            Pace::Actor(now) if !self.family.is_closed() => {
                self.entries.lock().queue.enter_window(now)
            }
            Pace::Actor(_) | Pace::Waiters(_) => false,
        };
        Ok(is_one_more || self.act(pace, Queue::enter)?)
    }

    /// Admits the waiters whose turn has come, then acts.
    pub(super) fn act<R>(
        self: &Arc<Self>,
        pace: Pace,
        act: impl FnOnce(&mut Queue<ThrottleWaiter>, Time) -> R,
    ) -> Result<R, Error> {
        if let Pace::Waiters(now) = pace {
            self.family.end_periods(now);
        }
        let now = pace.now();
        let mut entries = self.entries.lock();
        // checked within the lock: `close` dismisses a waiter that joined before
        if self.family.is_closed() {
            return Err(gone());
        }
        let admitted = entries.admit(now);
        let result = act(&mut entries.queue, now);
        let opened = if entries.scheduled { None } else { entries.queue.window_end() };
        entries.scheduled |= opened.is_some();
        drop(entries);
        if let Some(end) = opened {
            self.family.schedule(end, Arc::clone(self));
        }
        self.family.admit(admitted);
        Ok(result)
    }

    /// When the current period ends.
    pub(super) fn period_end(&self) -> Option<Time> {
        self.entries.lock().queue.window_end()
    }

    /// Ends a period: takes the waiters that enter in the next one, and returns its end.
    pub(super) fn end_period(&self, now: Time) -> (Vec<ThrottleWaiter>, Option<Time>) {
        let mut entries = self.entries.lock();
        let admitted = entries.admit(now);
        let end = entries.queue.window_end();
        entries.scheduled = end.is_some();
        (admitted, end)
    }
}

impl Drop for ThrottleKeyState {
    fn drop(&mut self) {
        self.family.keys.forget(&self.key);
    }
}

impl Awaitable for ThrottleKeyState {
    fn describe(&self, _: Identity) -> String {
        let label = Label { kind: "throttle", name: self.family.name, key: &self.key };
        format!("{label}, {} in its queue", self.entries.lock().queue.queued())
    }

    fn kind(&self) -> &'static str {
        "throttle"
    }

    fn contention(&self, who: Identity) -> Option<Contention> {
        let entries = self.entries.lock();
        let is_own = |queued: &ThrottleWaiter| queued.owner == LockOwner::Flow(who);
        Some(Contention {
            kind: self.kind(),
            name: self.family.name,
            key: Arc::clone(&self.key),
            holders: Vec::new(),
            all_holders: 0,
            ahead: entries.queue.waiting().position(is_own),
            queued: entries.queue.queued(),
        })
    }
}

pub(super) fn gone() -> Error {
    Error::unexpected("the actor of the throttle is gone")
}
