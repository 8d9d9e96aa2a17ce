//! The mutex actor (FTN12 §1.11.1, §2.3): owns the queues, takes lock and unlock messages.
//!
//! One actor serves one mutex, or one mutex for each key of a kind: a key exists while somebody
//! is inside or waits, so any number of keys over time takes no memory.

use std::collections::HashMap;
use std::collections::hash_map;
use std::sync::Arc;

use actix::{Actor, ArbiterHandle, Context, Handler, Message};
use asyncsteps::sync::mutex::{Lock as Answer, Options, Queue, Ticket};
use asyncsteps::sync::{ISync, Section};
use asyncsteps::{AsyncSteps, Identity, StepResult};

use super::lock::{Grant, Lock, LockId, Locker, Unlock};

/// A mutex for flows on all arbiters: a cheap handle to a [`MutexActor`].
///
/// Use it with `asi.sync(&mutex, ...)`. The order is first come, first served. The lock is released
/// on every way out of the section; an actor that died fails the waiting steps with
/// `InternalError` instead of leaving them waiting.
///
/// ```
/// # use asyncsteps::Flow;
/// # use asyncsteps_actors::{flow::start_flow, sync::Mutex};
/// # actix::System::new().block_on(async {
/// let stock = Mutex::start(Default::default());
/// let mut flow = Flow::new();
/// flow.sync(&stock.key("apple"), |asi, ()| asi.success(42));
/// assert_eq!(start_flow::<i32>(flow).await.unwrap(), 42);
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Mutex(Locker<MutexActor>);

impl Mutex {
    /// Starts a mutex actor on this arbiter.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    #[must_use]
    pub fn start(options: Options) -> Self {
        Self(Locker::new(MutexActor::new(options).start()))
    }

    /// Starts a mutex actor on another arbiter.
    #[must_use]
    pub fn start_on(arbiter: &ArbiterHandle, options: Options) -> Self {
        let actor = MutexActor::start_in_arbiter(arbiter, move |_| MutexActor::new(options));
        Self(Locker::new(actor))
    }

    /// The mutex of a key: each key is locked on its own, under the same limits.
    #[must_use]
    pub fn key(&self, key: impl Into<Arc<str>>) -> Self {
        Self(self.0.with_key(key.into()))
    }

    /// How many owners are inside and how many wait, over all keys.
    ///
    /// # Errors
    /// `MailboxError` if the actor died.
    pub async fn load(&self) -> Result<Load, actix::MailboxError> {
        self.0.actor().send(GetLoad).await
    }
}

impl ISync for Mutex {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        self.0.sync(asi, section)
    }
}

#[derive(Debug, Message)]
#[rtype(result = "Load")]
struct GetLoad;

/// How busy a mutex actor is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, actix::MessageResponse)]
pub struct Load {
    /// Keys with somebody inside or waiting.
    pub keys: usize,
    /// Owners inside a section.
    pub holders: usize,
    /// Owners that wait.
    pub queued: usize,
}

/// The actor behind [`Mutex`].
#[derive(Debug)]
pub struct MutexActor {
    options: Options,
    keys: HashMap<Arc<str>, Keyed>,
}

#[derive(Debug)]
struct Keyed {
    queue: Queue<Option<Grant>>,
    /// The locks that were neither released nor rejected.
    locks: HashMap<LockId, Held>,
}

#[derive(Debug)]
struct Held {
    identity: Identity,
    /// The place in the queue; it may have come to its turn since.
    ticket: Option<Ticket>,
}

impl MutexActor {
    fn new(options: Options) -> Self {
        Self { options, keys: HashMap::new() }
    }
}

impl Actor for MutexActor {
    type Context = Context<Self>;
}

impl Handler<Lock> for MutexActor {
    type Result = ();

    fn handle(&mut self, message: Lock, _: &mut Context<Self>) {
        let Lock { key, lock, identity, grant } = message;
        let options = self.options;
        let keyed = self
            .keys
            .entry(key)
            .or_insert_with(|| Keyed { queue: Queue::new(options), locks: HashMap::new() });
        let mut grant = Some(grant);
        let answer = keyed.queue.lock(identity, || grant.take());
        let ticket = match answer {
            Answer::Entered => None,
            Answer::Queued(ticket) => Some(ticket),
            Answer::Rejected => {
                return grant.into_iter().for_each(|grant| grant.reject("Mutex queue limit"));
            }
        };
        grant.into_iter().for_each(Grant::enter);
        keyed.locks.insert(lock, Held { identity, ticket });
    }
}

impl Handler<Unlock> for MutexActor {
    type Result = ();

    fn handle(&mut self, Unlock { key, lock }: Unlock, _: &mut Context<Self>) {
        let hash_map::Entry::Occupied(mut entry) = self.keys.entry(key) else { return };
        let keyed = entry.get_mut();
        if let Some(Held { identity, ticket }) = keyed.locks.remove(&lock)
            && !ticket.is_some_and(|ticket| keyed.queue.withdraw(ticket))
            && let Some((_, grant)) = keyed.queue.unlock(identity)
        {
            grant.into_iter().for_each(Grant::enter);
        }
        if keyed.locks.is_empty() {
            entry.remove();
        }
    }
}

impl Handler<GetLoad> for MutexActor {
    type Result = Load;

    fn handle(&mut self, _: GetLoad, _: &mut Context<Self>) -> Load {
        let keys = self.keys.values();
        keys.fold(Load { keys: self.keys.len(), ..Load::default() }, |load, keyed| Load {
            holders: load.holders + keyed.queue.holders(),
            queued: load.queued + keyed.queue.queued(),
            ..load
        })
    }
}
