//! The throttle actor (FTN12 §1.11.2, §2.4): counts entries per period, one throttle per key.
//!
//! A key exists from its first entry until a whole period has passed without one, so any number of
//! keys over time takes no memory. The actor has one timer, and none while all keys are idle.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use actix::{Actor, ArbiterHandle, AsyncContext, Context, Handler, SpawnHandle};
use asyncsteps::sync::mutex::{Lock as Answer, Ticket};
use asyncsteps::sync::throttle::{Options, Queue};
use asyncsteps::sync::{ISync, Section};
use asyncsteps::{AsyncSteps, StepResult, Time};

use super::lock::{Grant, Lock, LockId, Locker, Unlock};
use crate::clock;

/// A throttle for flows on all arbiters: a cheap handle to a [`ThrottleActor`].
///
/// Use it with `asi.sync(&throttle, ...)`. Up to `max` entries per period, first come, first
/// served; who waits longer than its flow lets it leaves the queue.
#[derive(Clone, Debug)]
pub struct Throttle(Locker<ThrottleActor>);

impl Throttle {
    /// Starts a throttle actor on this arbiter.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    #[must_use]
    pub fn start(options: Options) -> Self {
        Self(Locker::new(ThrottleActor::new(options).start()))
    }

    /// Starts a throttle actor on another arbiter.
    #[must_use]
    pub fn start_on(arbiter: &ArbiterHandle, options: Options) -> Self {
        let actor = ThrottleActor::start_in_arbiter(arbiter, move |_| ThrottleActor::new(options));
        Self(Locker::new(actor))
    }

    /// The throttle of a key: each key has periods of its own, under the same limits.
    #[must_use]
    pub fn key(&self, key: impl Into<Arc<str>>) -> Self {
        Self(self.0.with_key(key.into()))
    }
}

impl ISync for Throttle {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        self.0.sync(asi, section)
    }
}

/// The actor behind [`Throttle`].
#[derive(Debug)]
pub struct ThrottleActor {
    options: Options,
    keys: HashMap<Arc<str>, Keyed>,
    /// When the window of each key ends: then it admits others or is forgotten.
    ends: BTreeSet<(Time, Arc<str>)>,
    /// The one timer and what it is set to.
    timer: Option<(Time, SpawnHandle)>,
}

#[derive(Debug)]
struct Keyed {
    queue: Queue<(LockId, Option<Grant>)>,
    tickets: HashMap<LockId, Ticket>,
}

impl Keyed {
    /// Lets those enter whose turn has come.
    fn admit(&mut self, now: Time) {
        while let Some((lock, grant)) = self.queue.admit(now) {
            self.tickets.remove(&lock);
            grant.into_iter().for_each(Grant::enter);
        }
    }
}

impl ThrottleActor {
    fn new(options: Options) -> Self {
        Self { options, keys: HashMap::new(), ends: BTreeSet::new(), timer: None }
    }

    /// The windows of some keys are over.
    fn turn(&mut self, ctx: &mut Context<Self>) {
        let now = clock::now();
        self.timer = None;
        while self.ends.first().is_some_and(|(end, _)| *end <= now)
            && let Some((_, key)) = self.ends.pop_first()
            && let Some(keyed) = self.keys.get_mut(&key)
        {
            keyed.admit(now);
            match keyed.queue.window_end() {
                Some(end) => {
                    self.ends.insert((end, key));
                }
                None => {
                    self.keys.remove(&key);
                }
            }
        }
        self.arm(now, ctx);
    }

    /// Sets the timer to the next end of a window.
    fn arm(&mut self, now: Time, ctx: &mut Context<Self>) {
        let Some((end, _)) = self.ends.first() else { return };
        let end = *end;
        match self.timer {
            Some((at, _)) if at <= end => return,
            Some((_, timer)) => {
                ctx.cancel_future(timer);
            }
            None => {}
        }
        let timer = ctx.run_later(end.saturating_since(now), Self::turn);
        self.timer = Some((end, timer));
    }
}

impl Actor for ThrottleActor {
    type Context = Context<Self>;
}

impl Handler<Lock> for ThrottleActor {
    type Result = ();

    fn handle(&mut self, message: Lock, ctx: &mut Context<Self>) {
        let Lock { key, lock, grant, .. } = message;
        let now = clock::now();
        let options = self.options;
        let keyed = self
            .keys
            .entry(Arc::clone(&key))
            .or_insert_with(|| Keyed { queue: Queue::new(options), tickets: HashMap::new() });
        let before = keyed.queue.window_end();
        keyed.admit(now);
        let mut grant = Some(grant);
        match keyed.queue.lock(now, || (lock, grant.take())) {
            Answer::Entered => grant.into_iter().for_each(Grant::enter),
            Answer::Queued(ticket) => {
                keyed.tickets.insert(lock, ticket);
            }
            Answer::Rejected => {
                grant.into_iter().for_each(|grant| grant.reject("Throttle queue limit"));
            }
        }
        let after = keyed.queue.window_end();
        if before != after {
            if let Some(end) = before {
                self.ends.remove(&(end, Arc::clone(&key)));
            }
            if let Some(end) = after {
                self.ends.insert((end, key));
            }
            self.arm(now, ctx);
        }
    }
}

impl Handler<Unlock> for ThrottleActor {
    type Result = ();

    fn handle(&mut self, Unlock { key, lock }: Unlock, _: &mut Context<Self>) {
        let Some(keyed) = self.keys.get_mut(&key) else { return };
        if let Some(ticket) = keyed.tickets.remove(&lock) {
            keyed.queue.withdraw(ticket);
        }
    }
}
