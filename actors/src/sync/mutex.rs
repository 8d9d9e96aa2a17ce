//! The mutex (FTN12 §1.11.1, §2.3): who is inside and who waits, shared by all arbiters.
//!
//! A handle leads straight to the accounting of its key; a key exists while there is a handle to
//! it, and who is inside or waits has one. So any number of keys over time takes no memory.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as Guarded, MutexGuard};
use std::task::{Context, Poll};

use asyncsteps::sync::mutex::{Lock as Answer, Options, Queue, Ticket};
use asyncsteps::sync::{ISync, Section};
use asyncsteps::{Arg, AsyncSteps, Error, Stack, StepResult};

use super::deadlock::{self, Contended, Holders, Verdict, Wait, Watch};
use super::keys::Keys;
use super::lock::{Grant, Load, Owner, guarded, rejected};

const QUEUE_LIMIT: &str = "Mutex queue limit";

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

/// The mutex of one key.
///
/// While one owner comes and goes alone, only `sole` changes; as soon as a second one comes, or the
/// same one again, `queue` has the accounting, until nobody is inside or waits.
struct Cell {
    /// [`FREE`], the only owner inside, or [`QUEUE`].
    sole: AtomicU64,
    queue: Guarded<Queue<Waiter, Owner>>,
    key: Arc<str>,
    kind: Arc<Kind>,
}

/// What the mutexes of all keys have in common.
struct Kind {
    name: &'static str,
    options: Options,
    keys: Keys<Cell>,
}

/// Nobody is inside or waits.
const FREE: u64 = 0;

/// The queue has the accounting.
const QUEUE: u64 = u64::MAX;

/// The accounting of a mutex, locked.
struct Accounting<'a> {
    queue: MutexGuard<'a, Queue<Waiter, Owner>>,
    sole: &'a AtomicU64,
}

struct Waiter {
    grant: Grant,
    /// Set for one that holds up others while it waits. It is taken off whenever the waiter leaves
    /// the queue, before the queue is unlocked.
    watch: Option<Watch>,
}

impl Mutex {
    /// A mutex without a name.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::named("", options)
    }

    /// A mutex with a name for people, as in the report of a deadlock.
    #[must_use]
    pub fn named(name: &'static str, options: Options) -> Self {
        Self(Kind::key(&Arc::new(Kind { name, options, keys: Keys::new() }), ""))
    }

    /// The mutex of a key: each key is locked on its own, under the same limits. The empty key is
    /// the mutex that was made first.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        Self(Kind::key(&self.0.kind, key.as_ref()))
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
        let guard = Guard { cell: Arc::clone(&self.0), owner: Owner::call(), held: Held::Nothing };
        Locking(Some(guard))
    }

    /// Locks if that needs no waiting.
    #[must_use]
    pub fn try_lock(&self) -> Option<LockGuard> {
        let mut guard =
            Guard { cell: Arc::clone(&self.0), owner: Owner::call(), held: Held::Nothing };
        guard.enter().then_some(LockGuard(guard))
    }

    /// How many owners are inside and how many wait, over all keys.
    #[must_use]
    pub fn load(&self) -> Load {
        self.0.kind.keys.all().iter().fold(Load::NONE, |load, cell| {
            let accounting = cell.accounting();
            let queue = &accounting.queue;
            let (holders, queued) = (queue.holders(), queue.queued());
            load.with(holders + queued > 0, holders, queued)
        })
    }
}

impl Kind {
    fn key(kind: &Arc<Self>, key: &str) -> Arc<Cell> {
        kind.keys.get(key, |key| Cell {
            sole: AtomicU64::new(FREE),
            queue: Guarded::new(Queue::new(kind.options)),
            key,
            kind: Arc::clone(kind),
        })
    }
}

impl Cell {
    /// Enters if that needs no waiting.
    fn enter(&self, owner: Owner) -> bool {
        self.enter_alone(owner) || self.accounting().queue.enter(owner)
    }

    fn enter_alone(&self, owner: Owner) -> bool {
        self.sole.load(Ordering::Relaxed) == FREE
            && owner.to_bits().is_some_and(|bits| self.sole_becomes(FREE, bits))
    }

    /// Leaves if nobody else came meanwhile.
    fn leave_alone(&self, owner: Owner) -> bool {
        owner.to_bits().is_some_and(|bits| {
            self.sole.load(Ordering::Relaxed) == bits && self.sole_becomes(bits, FREE)
        })
    }

    fn sole_becomes(&self, from: u64, to: u64) -> bool {
        self.sole.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives the accounting to the queue, and locks it.
    fn accounting(&self) -> Accounting<'_> {
        let mut queue = guarded(&self.queue);
        // while it is locked, only this thread takes the accounting back
        if self.sole.load(Ordering::Relaxed) != QUEUE
            && let Some(owner) = Owner::from_bits(self.sole.swap(QUEUE, Ordering::AcqRel))
        {
            let entered = queue.enter(owner);
            debug_assert!(entered, "the queue was empty");
        }
        Accounting { queue, sole: &self.sole }
    }
}

impl Drop for Accounting<'_> {
    fn drop(&mut self) {
        if self.queue.holders() + self.queue.queued() == 0 {
            self.sole.store(FREE, Ordering::Release);
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.kind.keys.forget(&self.key);
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accounting = self.0.accounting();
        f.debug_struct("Mutex")
            .field("name", &self.0.kind.name)
            .field("key", &self.0.key)
            .field("holders", &accounting.queue.holders())
            .field("queued", &accounting.queue.queued())
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
        let owner = Owner::Branch(asi.identity());
        let mut guard = Guard { cell: Arc::clone(&self.0), owner, held: Held::Nothing };
        let entered = guard.enter();
        let guard = asi.stack(guard);
        if !entered {
            asi.add(move |asi, ()| wait(asi, guard));
        }
        entered
    }
}

/// The step of a flow that has to wait.
fn wait(asi: &mut AsyncSteps, guard: Stack<Guard>) -> StepResult {
    let watched = if deadlock::is_enabled() { watched(asi, guard) } else { None };
    let step = asi.wait_external();
    let Guard { cell, owner, .. } = &asi[guard];
    let answer = cell.accounting().queue.lock(*owner, || Waiter {
        grant: Grant::Step(step),
        watch: watched.as_ref().map(Wait::watch),
    });
    match answer {
        Answer::Entered => {
            asi[guard].held = Held::Inside;
            asi.success(())
        }
        Answer::Queued(ticket) => {
            asi[guard].held = Held::Place(ticket);
            match watched.as_ref().map(deadlock::look) {
                Some(Verdict::Deadlock(error)) => Err(error.into()),
                Some(Verdict::MayGoOn) | None => Ok(()),
            }
        }
        Answer::Rejected => Err(rejected(QUEUE_LIMIT).into()),
    }
}

/// What others need to know of a wait that holds them up: only who has a lock, or is a branch
/// inside of one, does so.
fn watched(asi: &mut AsyncSteps, guard: Stack<Guard>) -> Option<Arc<Wait>> {
    let holds = asi.kept::<Guard>().any(|guard| !matches!(guard.held, Held::Nothing));
    if !holds {
        return None;
    }
    let identity = asi.identity();
    let cell: Arc<Cell> = Arc::clone(&asi[guard].cell);
    Some(Arc::new(Wait::new(asi, identity, cell)))
}

impl Contended for Cell {
    fn holders(&self) -> Option<Holders> {
        let of_branch = |owner| match owner {
            Owner::Branch(identity) => Some(identity),
            Owner::Call(_) => None,
        };
        self.accounting().queue.inside().map(of_branch).collect()
    }

    fn name(&self) -> &'static str {
        self.kind.name
    }

    fn key(&self) -> &Arc<str> {
        &self.key
    }
}

/// Holds the lock, or a place in the queue, until it is dropped.
struct Guard {
    cell: Arc<Cell>,
    owner: Owner,
    held: Held,
}

#[derive(Clone, Copy)]
enum Held {
    Nothing,
    /// A place in the queue, or the lock once the place came to its turn.
    Place(Ticket),
    Inside,
}

impl Guard {
    /// Enters if that needs no waiting.
    fn enter(&mut self) -> bool {
        let entered = self.cell.enter(self.owner);
        if entered {
            self.held = Held::Inside;
        }
        entered
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let ticket = match self.held {
            Held::Nothing => return,
            Held::Place(ticket) => Some(ticket),
            Held::Inside if self.cell.leave_alone(self.owner) => return,
            Held::Inside => None,
        };
        let mut accounting = self.cell.accounting();
        let queue = &mut accounting.queue;
        let mut given_up = ticket.and_then(|ticket| queue.take(ticket));
        let mut next = match given_up {
            None => queue.unlock(self.owner).map(|(_, waiter)| waiter),
            Some(_) => None,
        };
        for waiter in [&mut given_up, &mut next].into_iter().flatten() {
            waiter.watch = None;
        }
        drop(accounting);
        if let Some(waiter) = next {
            waiter.grant.enter();
        }
    }
}

/// A lock taken outside of flows, until it is dropped.
#[must_use = "dropping it unlocks"]
pub struct LockGuard(Guard);

impl Arg for LockGuard {}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { key, kind, .. } = &*self.0.cell;
        f.debug_struct("LockGuard").field("name", &kind.name).field("key", key).finish()
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
        let ready = match guard.held {
            Held::Nothing => guard.enter() || guard.ask(cx)?,
            Held::Place(ticket) => guard.has_turn(ticket, cx),
            Held::Inside => true,
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

impl Guard {
    /// Joins the queue; says whether that was not needed.
    fn ask(&mut self, cx: &Context<'_>) -> Result<bool, Error> {
        let waiter = Waiter { grant: Grant::Task(cx.waker().clone()), watch: None };
        let answer = self.cell.accounting().queue.lock(self.owner, || waiter);
        self.held = match answer {
            Answer::Entered => Held::Inside,
            Answer::Queued(ticket) => Held::Place(ticket),
            Answer::Rejected => return Err(rejected(QUEUE_LIMIT)),
        };
        Ok(matches!(self.held, Held::Inside))
    }

    /// Says whether the place has come to its turn; if not, `cx` is woken when it has.
    fn has_turn(&mut self, ticket: Ticket, cx: &Context<'_>) -> bool {
        let waker = cx.waker().clone();
        let mut accounting = self.cell.accounting();
        let Some(waiter) = accounting.queue.tell_mut(ticket) else {
            drop(accounting);
            self.held = Held::Inside;
            return true;
        };
        let before = std::mem::replace(&mut waiter.grant, Grant::Task(waker));
        drop(accounting);
        drop(before);
        false
    }
}
