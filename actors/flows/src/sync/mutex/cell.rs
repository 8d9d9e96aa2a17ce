//! The accounting of a mutex of one key: who is inside and who waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Context;

use asyncsteps::sync::mutex::{Lock as Answer, Options, Queue, Ticket};
use asyncsteps::{Awaitable, Error, Identity};

use crate::sync::deadlock::{Contended, Holders, Target, Watch};
use crate::sync::keys::Keys;
use crate::sync::lock::{Grant, Label, Load, Owner, guarded, rejected};

/// The mutex of one key.
///
/// While one owner comes and goes alone, only `sole` changes; as soon as a second one comes, or the
/// same one again, `queue` has the accounting, until nobody is inside or waits.
pub(super) struct Cell {
    /// [`FREE`], the only owner inside, or [`QUEUE`].
    sole: AtomicU64,
    queue: Mutex<Queue<Waiter, Owner>>,
    key: Arc<str>,
    kind: Arc<Kind>,
}

/// What the mutexes of all keys have in common.
pub(super) struct Kind {
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

/// One that stands in the queue.
pub(super) struct Waiter {
    pub(super) grant: Grant,
    /// Set for one that holds up others while it waits. It is taken off whenever the waiter leaves
    /// the queue, before the queue is unlocked.
    pub(super) watch: Option<Watch>,
}

impl Kind {
    pub(super) fn new(name: &'static str, options: Options) -> Arc<Self> {
        Arc::new(Self { name, options, keys: Keys::new() })
    }

    /// The mutex of a key.
    pub(super) fn key(kind: &Arc<Self>, key: &str) -> Arc<Cell> {
        kind.keys.get(key, |key| Cell {
            sole: AtomicU64::new(FREE),
            queue: Mutex::new(Queue::new(kind.options)),
            key,
            kind: Arc::clone(kind),
        })
    }

    pub(super) fn load(&self) -> Load {
        self.keys.all().iter().fold(Load::NONE, |load, cell| {
            let (holders, queued) = cell.load();
            load.with(holders + queued > 0, holders, queued)
        })
    }
}

impl Cell {
    pub(super) fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    pub(super) fn name(&self) -> &'static str {
        self.kind.name
    }

    pub(super) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// How many are inside and how many wait.
    pub(super) fn load(&self) -> (usize, usize) {
        let Accounting { queue, .. } = &self.accounting();
        (queue.holders(), queue.queued())
    }

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

impl Contended for Cell {
    fn holders(&self) -> Option<Holders> {
        let of_branch = |owner| match owner {
            Owner::Branch(identity) => Some(identity),
            Owner::Call(_) => None,
        };
        self.accounting().queue.inside().map(of_branch).collect()
    }

    fn target(&self) -> Target {
        Target::Mutex { name: self.kind.name, key: Arc::clone(&self.key) }
    }
}

impl Awaitable for Cell {
    fn describe(&self, who: Identity) -> String {
        let label = Label { kind: "mutex", name: self.kind.name, key: &self.key };
        let Accounting { queue, .. } = &self.accounting();
        match queue.ahead_of(Owner::Branch(who)) {
            Some(ahead) => format!("{label}, place {} of {}", ahead + 1, queue.queued()),
            None => format!("{label}, which it just got"),
        }
    }
}

/// Holds the lock, or a place in the queue, until it is dropped.
pub(super) struct Guard {
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
    /// A guard that holds nothing yet.
    pub(super) fn new(cell: &Arc<Cell>, owner: Owner) -> Self {
        Self { cell: Arc::clone(cell), owner, held: Held::Nothing }
    }

    pub(super) fn cell(&self) -> &Arc<Cell> {
        &self.cell
    }

    /// Whether it holds nothing, not even a place in the queue.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.held, Held::Nothing)
    }

    /// Enters if that needs no waiting.
    pub(super) fn enter(&mut self) -> bool {
        let entered = self.cell.enter(self.owner);
        if entered {
            self.held = Held::Inside;
        }
        entered
    }

    /// Enters, or joins the queue; says whether it entered.
    pub(super) fn ask(&mut self, waiter: impl FnOnce() -> Waiter) -> Result<bool, Error> {
        let answer = self.cell.accounting().queue.lock(self.owner, waiter);
        self.held = match answer {
            Answer::Entered => Held::Inside,
            Answer::Queued(ticket) => Held::Place(ticket),
            Answer::Rejected => return Err(rejected("Mutex queue limit")),
        };
        Ok(matches!(self.held, Held::Inside))
    }

    /// Says whether it is inside; if not, `cx` is woken when its turn has come.
    pub(super) fn has_turn(&mut self, cx: &Context<'_>) -> bool {
        let Held::Place(ticket) = self.held else { return self.enter() };
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
