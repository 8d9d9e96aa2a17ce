//! The mutex actor (FTN12 §1.11.1, §2.3): owns the queues, takes lock and unlock messages.
//!
//! One actor serves one mutex, or one mutex for each key of a kind: a key exists while somebody
//! is inside or waits, so any number of keys over time takes no memory.

use std::collections::HashMap;
use std::collections::hash_map;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::{Actor, Addr, ArbiterHandle, Context, Handler, Message};
use asyncsteps::sync::mutex::{Lock as Answer, Options, Queue, Ticket};
use asyncsteps::sync::{ISync, Section};
use asyncsteps::{AsyncSteps, Completion, Identity, StepResult, codes};

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
#[derive(Clone)]
pub struct Mutex {
    actor: Addr<MutexActor>,
    key: Arc<str>,
}

impl Mutex {
    /// Starts a mutex actor on this arbiter.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    #[must_use]
    pub fn start(options: Options) -> Self {
        Self { actor: MutexActor::new(options).start(), key: Arc::from("") }
    }

    /// Starts a mutex actor on another arbiter.
    #[must_use]
    pub fn start_on(arbiter: &ArbiterHandle, options: Options) -> Self {
        let actor = MutexActor::start_in_arbiter(arbiter, move |_| MutexActor::new(options));
        Self { actor, key: Arc::from("") }
    }

    /// The mutex of a key: each key is locked on its own, under the same limits.
    #[must_use]
    pub fn key(&self, key: impl Into<Arc<str>>) -> Self {
        Self { actor: self.actor.clone(), key: key.into() }
    }

    /// How many owners are inside and how many wait, over all keys.
    ///
    /// # Errors
    /// `MailboxError` if the actor died.
    pub async fn load(&self) -> Result<Load, actix::MailboxError> {
        self.actor.send(GetLoad).await
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("key", &self.key).finish_non_exhaustive()
    }
}

impl ISync for Mutex {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let lock = LockId::next();
        asi.stack(Guard { mutex: self.clone(), lock });
        let mutex = self.clone();
        asi.add(move |asi, ()| {
            let identity = asi.identity();
            let grant = Grant(asi.wait_external());
            mutex.tell(Lock { key: Arc::clone(&mutex.key), lock, identity, grant });
        });
        section.add(asi);
        Ok(())
    }
}

impl Mutex {
    /// Lock messages are as many as admitted flows; a lost one would be a lost lock, so the
    /// mailbox bound does not apply to them.
    #[expect(clippy::disallowed_methods, reason = "see above; a dead actor drops the grant")]
    fn tell<M>(&self, message: M)
    where
        M: Message<Result = ()> + Send + 'static,
        MutexActor: Handler<M>,
    {
        self.actor.do_send(message);
    }
}

/// Ends what one `sync` began, whatever came of it: it is a value of the step around the section.
struct Guard {
    mutex: Mutex,
    lock: LockId,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.mutex.tell(Unlock { key: Arc::clone(&self.mutex.key), lock: self.lock });
    }
}

/// Names one `sync` of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockId(u64);

impl LockId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Asks to enter; the grant is given when it is the owner's turn.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Lock {
    key: Arc<str>,
    lock: LockId,
    identity: Identity,
    grant: Grant,
}

/// Lets a waiting step go on. Dropped without an answer, because the actor died, it fails the step;
/// for a step that is over, all of this does nothing.
#[derive(Debug)]
struct Grant(Completion);

impl Grant {
    /// If the step is over, its `Unlock` is on the way and passes the turn on.
    fn enter(self) {
        let _ = self.0.success(());
    }

    fn reject(self) {
        let _ = self.0.error(codes::DEFENSE_REJECTED, "Mutex queue limit");
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let _ = self.0.error(codes::INTERNAL_ERROR, "the actor of the mutex is gone");
    }
}

/// Leaves the section or the queue; follows every [`Lock`].
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Unlock {
    key: Arc<str>,
    lock: LockId,
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
            Answer::Rejected => return grant.into_iter().for_each(Grant::reject),
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
