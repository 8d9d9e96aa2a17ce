//! The mutex (FTN12 §1.11.1, §2.3): who is inside and who waits, shared by all arbiters.
//!
//! A handle leads straight to the accounting of its key; a key exists while there is a handle to
//! it, and who is inside or waits has one. So any number of keys over time takes no memory.

mod cell;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use asyncsteps::sync::mutex::Options;
use asyncsteps::sync::{ISync, Section};
use asyncsteps::{Arg, AsyncSteps, Error, Stack, StepResult};

use super::deadlock::{self, Awaited, Verdict, Wait};
use super::lock::{Grant, Load, Owner};

use cell::{Cell, Guard, Kind, Waiter};

/// A mutex for flows on all arbiters, and for other code. Cheap to clone.
///
/// Use it with `asi.sync(&mutex, ...)`. The order is first come, first served. The lock is released
/// on every way out of the section: success, error, timeout, cancel, panic, death of the arbiter.
/// A flow that would wait for ever for a lock of another such flow fails, see [`deadlock`].
///
/// ```
/// # use asyncsteps::Flow;
/// # use asyncsteps_actors::{flow::start_flow, sync::Mutex};
/// # actix::System::new().block_on(async {
/// let stock = Mutex::new(Default::default());
/// let mut flow = Flow::new();
/// flow.sync(&stock.key("apple"), |asi, ()| asi.success(42));
/// assert_eq!(start_flow::<i32>(flow).await.unwrap(), 42);
/// # });
/// ```
#[derive(Clone)]
pub struct Mutex(Arc<Cell>);

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

    /// A mutex with a name for people, as in the report of a deadlock.
    ///
    /// # Panics
    /// If `max` is 0, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn named(name: &'static str, options: Options) -> Self {
        if let Err(zero) = options.check() {
            panic!("{zero}");
        }
        Self(Kind::key(&Kind::new(name, options), ""))
    }

    /// The mutex of a key: each key is locked on its own, under the same limits. The empty key is
    /// the mutex that was made first.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        Self(Kind::key(self.0.kind(), key.as_ref()))
    }

    /// Locks outside of flows, by the same queue; ready when the turn has come.
    ///
    /// Every call is an owner of its own, so locking twice waits for oneself. In a flow use
    /// `asi.sync`.
    ///
    /// # Errors
    /// `DefenseRejected` if the queue is full.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub fn lock(&self) -> Locking {
        Locking(Some(Guard::new(&self.0, Owner::call())))
    }

    /// Locks if that needs no waiting.
    #[must_use]
    pub fn try_lock(&self) -> Option<LockGuard> {
        let mut guard = Guard::new(&self.0, Owner::call());
        guard.enter().then_some(LockGuard(guard))
    }

    /// How many owners are inside and how many wait, over all keys.
    #[must_use]
    pub fn load(&self) -> Load {
        self.0.kind().load()
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (holders, queued) = self.0.load();
        f.debug_struct("Mutex")
            .field("name", &self.0.name())
            .field("key", self.0.key())
            .field("holders", &holders)
            .field("queued", &queued)
            .finish()
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
    /// Enters for the running step, until that ends; if that needs waiting, adds a step that does
    /// so, and says `false`.
    pub(super) fn enter(&self, asi: &mut AsyncSteps) -> bool {
        let mut guard = Guard::new(&self.0, Owner::Branch(asi.identity()));
        if guard.enter() {
            asi.hold(guard);
            return true;
        }
        let guard = asi.stack(guard);
        asi.add(move |asi, ()| wait(asi, guard));
        false
    }
}

/// The step of a flow that has to wait.
fn wait(asi: &mut AsyncSteps, guard: Stack<Guard>) -> StepResult {
    let watched = if deadlock::is_enabled() { watched(asi, guard) } else { None };
    let cell = Arc::clone(asi[guard].cell());
    let step = asi.wait_external_for(cell);
    let entered = asi[guard]
        .ask(|| Waiter { grant: Grant::Step(step), watch: watched.as_ref().map(Wait::watch) })?;
    if entered {
        return asi.success(());
    }
    match watched.as_ref().map(deadlock::look) {
        Some(Verdict::Deadlock(error)) => Err(error.into()),
        Some(Verdict::MayGoOn) | None => Ok(()),
    }
}

/// What others need to know of a wait that holds them up: only who has a lock, or is a branch
/// inside of one, does so.
fn watched(asi: &mut AsyncSteps, guard: Stack<Guard>) -> Option<Arc<Wait>> {
    if !holds_up_others(asi) {
        return None;
    }
    let identity = asi.identity();
    let cell: Arc<Cell> = Arc::clone(asi[guard].cell());
    let place = asi.places().nth(1).expect("a step waits for the one around it");
    Some(Arc::new(Wait::new(asi, identity, place, cell)))
}

/// Whether others cannot go on while the running step waits: its flow has a lock here, or was called
/// by one that has.
pub(super) fn holds_up_others(asi: &AsyncSteps) -> bool {
    asi.extension::<Awaited>().is_some() || asi.kept::<Guard>().any(|guard| !guard.is_empty())
}

/// A lock taken outside of flows, until it is dropped.
#[must_use = "dropping it unlocks"]
pub struct LockGuard(Guard);

impl Arg for LockGuard {}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = self.0.cell();
        f.debug_struct("LockGuard").field("name", &cell.name()).field("key", cell.key()).finish()
    }
}

/// The future of [`Mutex::lock`].
#[must_use = "a future does nothing before it is polled"]
pub struct Locking(Option<Guard>);

impl Future for Locking {
    type Output = Result<LockGuard, Error>;

    /// # Panics
    /// After it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut guard) = self.0.take() else { panic!("polled after it was ready") };
        let ready = guard.has_turn(cx)
            || guard.is_empty() && {
                let task = Grant::Task(cx.waker().clone());
                guard.ask(|| Waiter { grant: task, watch: None })?
            };
        if ready {
            return Poll::Ready(Ok(LockGuard(guard)));
        }
        self.0 = Some(guard);
        Poll::Pending
    }
}

impl fmt::Debug for Locking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locking").finish_non_exhaustive()
    }
}
