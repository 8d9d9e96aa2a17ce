//! The accounting of a mutex: for each key the holders and the waiters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use asyncsteps_core::sync::mutex::{Options, Queue};
use asyncsteps_core::{Awaitable, Contention, Identity};
use parking_lot::{Mutex, MutexGuard};

use crate::sync::deadlock::{Contended, Holders, Resource, WaitGuard};
use crate::sync::keys::KeyTable;
use crate::sync::limits::Limits;
use crate::sync::load::{KeyReport, LockReport};
use crate::sync::on_demand::OnDemand;
use crate::sync::owners::{KeyOwners, WaitingOwner};
use crate::sync::waiter::{Holder, Label, LockWaiter};
use crate::sync::waits::{QueuedSince, WaitCounts};

/// The state of one key.
///
/// While a single owner comes and goes, only `single_owner` changes. As soon as a second one comes, or
/// the same one again, `queue` has the accounting, until it is empty.
pub(super) struct MutexKeyState {
    /// [`FREE`], the only owner inside, or [`QUEUE`].
    single_owner: AtomicU64,
    queue: Mutex<Queue<MutexWaiter, Holder>>,
    key: Arc<str>,
    family: Arc<MutexFamily>,
}

/// The state that all keys of a mutex share.
pub(super) struct MutexFamily {
    name: &'static str,
    options: Options,
    keys: KeyTable<MutexKeyState>,
    pub(super) waits: WaitCounts,
    pub(super) actor: OnDemand<MutexActor>,
}

/// The actor of a [`Mutex`](super::Mutex): it takes [`Lock`](crate::sync::Lock),
/// [`Unlock`](crate::sync::Unlock) and [`Inspect`](crate::sync::Inspect). It has no state of its own: it calls the
/// accounting that all handles share, on any arbiter, so messages and direct use are one queue.
///
/// Its address is [`Mutex::address`](super::Mutex::address), where an example is.
#[derive(derive_more::Debug)]
#[debug("MutexActor({:?})", self.0.report())]
pub struct MutexActor(pub(super) Arc<MutexFamily>);

/// The key is not held.
const FREE: u64 = 0;

/// The accounting is in the queue.
const QUEUE: u64 = u64::MAX;

/// The accounting of a key, locked.
pub(super) struct Accounting<'a> {
    pub(super) queue: MutexGuard<'a, Queue<MutexWaiter, Holder>>,
    single_owner: &'a AtomicU64,
}

/// An entry of the queue.
pub(super) struct MutexWaiter {
    pub(super) waiter: LockWaiter,
    /// Set if others wait for this waiter. It is taken off whenever the entry leaves the queue, before
    /// the queue is unlocked.
    pub(super) watch: Option<WaitGuard>,
    pub(super) since: QueuedSince,
}

impl MutexWaiter {
    /// It joins the queue now.
    pub(super) fn new(waiter: LockWaiter, watch: Option<WaitGuard>) -> Self {
        Self { waiter, watch, since: QueuedSince::now() }
    }
}

impl MutexFamily {
    /// The state of the empty key of a new family.
    ///
    /// # Panics
    /// If `max` is 0, see [`Options::check`].
    #[track_caller]
    pub(super) fn start(name: &'static str, options: Options) -> Arc<MutexKeyState> {
        // refuses limits of zero
        let queue = Queue::new(options);
        let family = Arc::new(Self {
            name,
            options,
            keys: KeyTable::new(),
            waits: WaitCounts::default(),
            actor: OnDemand::default(),
        });
        family.keys.get("", |key| MutexKeyState::new(key, &family, queue))
    }

    /// The state of a key.
    pub(super) fn key(family: &Arc<Self>, key: &str) -> Arc<MutexKeyState> {
        family.keys.get(key, |key| MutexKeyState::new(key, family, Queue::new(family.options)))
    }

    /// The keys that are held or waited for.
    pub(super) fn report(&self) -> LockReport {
        let keys = self.keys.all().into_iter().filter_map(|state| {
            let report = state.report();
            (report.holders + report.queued > 0).then_some(report)
        });
        LockReport {
            name: self.name,
            limits: Some(Limits::Mutex(self.options)),
            keys: keys.collect(),
            waits: self.waits.figures(),
        }
    }
}

impl MutexKeyState {
    fn new(key: Arc<str>, family: &Arc<MutexFamily>, queue: Queue<MutexWaiter, Holder>) -> Self {
        let (single_owner, queue) = (AtomicU64::new(FREE), Mutex::new(queue));
        Self { single_owner, queue, key, family: Arc::clone(family) }
    }

    pub(super) fn report(&self) -> KeyReport {
        let (holders, queued) = self.counts();
        KeyReport { key: Arc::clone(&self.key), holders, queued, entered: 0 }
    }

    /// Who is inside and who waits, at most `most` of each.
    pub(super) fn owners(&self, most: usize) -> KeyOwners {
        let Accounting { queue, .. } = &self.accounting();
        let waiting = queue.waiting().take(most).map(|(owner, queued)| WaitingOwner {
            owner: owner.into(),
            waited: queued.since.elapsed(),
        });
        let inside = queue.inside().take(most).map(Into::into);
        KeyOwners { inside: inside.collect(), waiting: waiting.collect() }
    }

    pub(super) fn family(&self) -> &Arc<MutexFamily> {
        &self.family
    }

    pub(super) fn name(&self) -> &'static str {
        self.family.name
    }

    /// The name of steps that wait for it.
    pub(super) fn wait_name(&self) -> &'static str {
        if self.family.name.is_empty() { "lock" } else { self.family.name }
    }

    pub(super) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// How many hold it and how many wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let Accounting { queue, .. } = &self.accounting();
        (queue.holders(), queue.queued())
    }

    /// Enters if that needs no waiting.
    pub(super) fn enter(&self, owner: Holder) -> bool {
        self.enter_alone(owner) || self.accounting().queue.enter(owner)
    }

    /// A call outside of steps as a holder: a holder of its own, unless it is part of the undo of a
    /// step whose branch is inside.
    pub(super) fn caller(&self) -> Holder {
        let undone = Identity::undone().map(Holder::Branch);
        let inside =
            undone.filter(|branch| self.accounting().queue.inside().any(|in_| in_ == *branch));
        inside.unwrap_or_else(Holder::call)
    }

    fn enter_alone(&self, owner: Holder) -> bool {
        self.single_owner.load(Ordering::Relaxed) == FREE
            && owner.to_bits().is_some_and(|bits| self.change_owner(FREE, bits))
    }

    /// Leaves, unless another owner came meanwhile.
    pub(super) fn leave_alone(&self, owner: Holder) -> bool {
        owner.to_bits().is_some_and(|bits| {
            self.single_owner.load(Ordering::Relaxed) == bits && self.change_owner(bits, FREE)
        })
    }

    fn change_owner(&self, from: u64, to: u64) -> bool {
        self.single_owner.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Switches the accounting to the queue, and locks it.
    pub(super) fn accounting(&self) -> Accounting<'_> {
        let mut queue = self.queue.lock();
        // while it is locked, only this thread takes the accounting back
        if self.single_owner.load(Ordering::Relaxed) != QUEUE
            && let Some(owner) = Holder::from_bits(self.single_owner.swap(QUEUE, Ordering::AcqRel))
        {
            let entered = queue.enter(owner);
            debug_assert!(entered, "the queue was empty");
        }
        Accounting { queue, single_owner: &self.single_owner }
    }
}

impl Drop for Accounting<'_> {
    /// Switches the accounting back as soon as the queue is empty.
    fn drop(&mut self) {
        if self.queue.holders() + self.queue.queued() == 0 {
            self.single_owner.store(FREE, Ordering::Release);
        }
    }
}

impl Drop for MutexKeyState {
    fn drop(&mut self) {
        self.family.keys.forget(&self.key);
    }
}

impl Contended for MutexKeyState {
    fn holders(&self) -> Option<Holders> {
        let inside = self.accounting();
        let holders: Option<Holders> = inside.queue.inside().map(Holder::branch).collect();
        // of many they come in a random order, in which the cycle of a deadlock would be looked for
        holders.map(|mut holders| {
            holders.sort_unstable_by_key(|holder| (holder.flow, holder.branch));
            holders
        })
    }

    fn resource(&self) -> Resource {
        Resource::Mutex { name: self.family.name, key: Arc::clone(&self.key) }
    }
}

impl Awaitable for MutexKeyState {
    fn describe(&self, who: Identity) -> String {
        let label = Label { kind: "mutex", name: self.family.name, key: &self.key };
        let Accounting { queue, .. } = &self.accounting();
        match queue.ahead_of(Holder::Branch(who)) {
            Some(ahead) => format!("{label}, place {} of {}", ahead + 1, queue.queued()),
            None => format!("{label}, which it just got"),
        }
    }

    fn kind(&self) -> &'static str {
        "mutex"
    }

    fn contention(&self, who: Identity) -> Option<Contention> {
        let Accounting { queue, .. } = &self.accounting();
        let flows = queue.inside().filter_map(Holder::branch);
        Some(Contention {
            kind: self.kind(),
            name: self.family.name,
            key: Arc::clone(&self.key),
            holders: flows.take(Contention::MOST).collect(),
            all_holders: queue.holders(),
            ahead: queue.ahead_of(Holder::Branch(who)),
            queued: queue.queued(),
        })
    }
}
