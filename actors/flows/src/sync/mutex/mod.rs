//! The mutex (FTN12 §1.11.1, §2.3), shared by all arbiters.
//!
//! A handle points to the state of its key. A key exists while there is a handle to it, and each
//! holder and each waiter has one: so any number of keys over time takes no memory.

mod actor;
mod guard;
mod held;
mod state;
mod ticket;

use std::sync::Arc;

use actix::Addr;
pub use asyncsteps_core::sync::mutex::Options;
use asyncsteps_core::sync::{ISync, Section};
use asyncsteps_core::{AsyncSteps, Completion, Stack, StepResult};

use super::deadlock::{self, Contended, GraphWait, HoldsUp, HoldsUpCaller, WaitOutcome, WaitPath};
use super::load::{KeyReport, Load, LockReport};
use super::owners::KeyOwners;
use super::waiter::{Holder, LockWaiter};

use guard::{KeyGuard, StepGuard};
use state::{MutexFamily, MutexKeyState, MutexWaiter};

pub use guard::{LockGuard, Locking};
pub use held::{HeldLock, held};
pub use state::MutexActor;
pub use ticket::{LockTicket, UnlockError};

/// A mutex for flows on all arbiters, and for other code: a semaphore if its `max` is more than 1. Cheap to clone.
///
/// Use it with `asi.sync(&mutex, ...)`. The order is first come, first served. The lock is released on every way out of
/// the section: success, error, timeout, cancel, panic, end of the arbiter. If something inside has to be
/// [undone](asyncsteps_core::Added::undo), it is held until the undo has ended. Flows that wait for each other's locks
/// are a deadlock, which is found, see [`deadlock`].
///
/// | to | directly, from any thread | by message |
/// |---|---|---|
/// | lock in a flow | `asi.sync(&mutex, ...)` | |
/// | lock elsewhere | [`lock`](Self::lock), [`try_lock`](Self::try_lock) | [`Lock`](super::Lock) |
/// | release | drop the guard or the ticket, [`unlock`](Self::unlock) | [`Unlock`](super::Unlock) |
/// | see | [`load`](Self::load), [`key_report`](Self::key_report), [`owners`](Self::owners), [`inspect`](Self::inspect) | [`Inspect`](super::Inspect) |
///
/// All of them share one accounting: a message is never needed, and costs a hop.
///
/// ```
/// # use asyncsteps_core::Flow;
/// # use asyncsteps_actors::{flow::start_flow, sync::Mutex};
/// # actix::System::new().block_on(async {
/// let stock = Mutex::new(Default::default());
/// let mut flow = Flow::new();
/// flow.sync(&stock.key("apple"), |asi, ()| asi.success(42));
/// assert_eq!(start_flow::<i32>(flow).await.unwrap(), 42);
/// # });
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Mutex {{ name: {:?}, key: {:?}, holders: {:?}, queued: {:?} }}",
    self.0.name(), self.0.key(), self.0.counts().0, self.0.counts().1
)]
pub struct Mutex(Arc<MutexKeyState>);

impl Mutex {
    /// A mutex without a name.
    ///
    /// # Panics
    /// If `max` is 0, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn new(options: Options) -> Self {
        Self::named("", options)
    }

    /// A mutex with a name, for reports and logs.
    ///
    /// # Panics
    /// If `max` is 0, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn named(name: &'static str, options: Options) -> Self {
        Self(MutexFamily::start(name, options))
    }

    /// The mutex of a key: each key is locked on its own, under the same limits. The empty key is
    /// the mutex that was made first.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        Self(MutexFamily::key(self.0.family(), key.as_ref()))
    }

    /// Locks outside of flows, by the same queue; ready when the turn has come.
    ///
    /// Every call is a holder of its own: a second call waits for the guard of the first one. In a flow
    /// use `asi.sync`. An [undo](asyncsteps_core::Added::undo) is inside of what the branch holds whose step
    /// it undoes.
    ///
    /// # Errors
    /// `DefenseRejected` if the queue is full.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub fn lock(&self) -> Locking {
        Locking::new(KeyGuard::new(&self.0, self.0.caller()))
    }

    /// Locks if that needs no waiting.
    #[must_use]
    pub fn try_lock(&self) -> Option<LockGuard> {
        let mut guard = KeyGuard::new(&self.0, self.0.caller());
        guard.enter().then(|| LockGuard::new(guard))
    }

    /// Releases a lock by its ticket, as [`Unlock`](super::Unlock) does.
    ///
    /// # Errors
    /// [`UnlockError`] if the ticket belongs to another mutex, or its lock was released before.
    pub fn unlock(&self, ticket: &LockTicket) -> Result<(), UnlockError> {
        ticket.unlock(self.0.family())
    }

    /// The address of the actor of this mutex and all of its keys, for code that sends messages.
    ///
    /// The actor is started on the current arbiter when this is first called, and runs until the
    /// last address is dropped. Locks that it granted do not depend on it.
    ///
    /// ```
    /// # use asyncsteps_actors::sync::{Lock, Mutex, Unlock};
    /// # actix::System::new().block_on(async {
    /// let stock = Mutex::new(Default::default());
    /// let address = stock.address();
    /// let apples = address.send(Lock::key("apple")).await.unwrap().unwrap();
    /// assert_eq!(stock.load().holders, 1);
    /// let ticket = apples.into_ticket();
    /// address.send(Unlock { ticket }).await.unwrap().unwrap();
    /// assert_eq!(stock.load().holders, 0);
    /// # });
    /// ```
    ///
    /// # Panics
    /// Outside of an actix arbiter, if the actor has to be started.
    #[must_use]
    pub fn address(&self) -> Addr<MutexActor> {
        let family = self.0.family();
        family.actor.address(|| MutexActor(Arc::clone(family)))
    }

    /// How many hold it and how many wait, over all keys.
    #[must_use]
    pub fn load(&self) -> Load {
        self.inspect().load()
    }

    /// How busy this key is, apart from the others of its object; for metrics.
    #[must_use]
    pub fn key_report(&self) -> KeyReport {
        self.0.report()
    }

    /// Who holds this key and who waits for it, at most `most` of each; for consoles.
    #[must_use]
    pub fn owners(&self, most: usize) -> KeyOwners {
        self.0.owners(most)
    }

    /// Follows a path of waits from another process to the holder of this key, which has what the last of them is for.
    pub fn pass_on(&self, path: &WaitPath) {
        Contended::pass_on(&*self.0, path);
    }

    /// The keys that are held or waited for.
    #[must_use]
    pub fn inspect(&self) -> LockReport {
        self.0.family().report()
    }
}

impl ISync for Mutex {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        if self.enter(asi) {
            return section.enter(asi);
        }
        section.add(asi);
        Ok(())
    }
}

impl Mutex {
    /// Enters for the running step, until that ends. If that needs waiting, it adds a step that waits
    /// and returns `false`.
    pub(super) fn enter(&self, asi: &mut AsyncSteps) -> bool {
        let mut guard = StepGuard::new(KeyGuard::new(&self.0, Holder::Branch(asi.identity())));
        if guard.enter() {
            asi.hold(guard);
            return true;
        }
        let guard = asi.hold_named(guard);
        asi.add_inner(move |asi, ()| wait(asi, guard)).named(self.0.wait_name());
        false
    }
}

/// The step of a flow that has to wait.
fn wait(asi: &mut AsyncSteps, guard: Stack<StepGuard>) -> StepResult {
    let state = Arc::clone(asi[guard].state());
    let step = asi.wait_external_for(state);
    let watched = if deadlock::is_enabled() { watched(asi, guard, &step) } else { None };
    let entered = asi[guard]
        .ask(|| MutexWaiter::new(LockWaiter::Step(step), watched.as_ref().map(GraphWait::watch)))?;
    if entered {
        return asi.success(());
    }
    match watched.as_ref().map(deadlock::look) {
        Some(WaitOutcome::Deadlock(error)) => Err(error.into()),
        Some(WaitOutcome::Waits) | None => Ok(()),
    }
}

/// The wait as deadlock detection sees it; `None` if no other flow waits for this one: it has no lock.
fn watched(
    asi: &mut AsyncSteps,
    guard: Stack<StepGuard>,
    step: &Completion,
) -> Option<Arc<GraphWait>> {
    if !holds_up_others(asi) {
        return None;
    }
    let identity = asi.identity();
    let state: Arc<MutexKeyState> = Arc::clone(asi[guard].state());
    let place = asi.locations().nth(1).expect("a step waits for the one around it");
    Some(Arc::new(GraphWait::new(asi, identity, place, state, Some(step.clone()))))
}

/// Whether other flows may wait for a step of this thread.
pub(super) fn may_hold_up_others() -> bool {
    HoldsUp::is_any()
}

/// Whether other flows may wait for the running step: its flow has a lock, or was called by one that
/// has.
pub(super) fn holds_up_others(asi: &AsyncSteps) -> bool {
    asi.extension::<HoldsUpCaller>().is_some()
        || asi.kept::<StepGuard>().any(|guard| !guard.is_empty())
}
