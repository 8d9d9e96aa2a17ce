//! The table of waits that other flows wait for in turn.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::SystemTime;

use asyncsteps_core::{AsyncSteps, Completion, Error, FlowId, Identity, StepLocation};
use dashmap::{DashMap, Entry};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::report::{DeadlockWait, Resource};
use super::wait_path::WaitPath;
use crate::clock;

/// The waits by flow.
pub(super) static WAITS: LazyLock<DashMap<FlowId, Waits>> = LazyLock::new(DashMap::new);

/// The waits of one flow: one, as long as it has no branches.
type Waits = SmallVec<[Arc<GraphWait>; 1]>;

/// The flows and branches that hold a mutex.
pub(in crate::sync) type Holders = SmallVec<[Identity; 2]>;

/// Marks a flow that carries out a call while its caller holds locks: others wait for it, too.
#[derive(Default)]
pub(in crate::sync) struct HoldsUpCaller {
    _holds_up: HoldsUp,
}

thread_local! {
    static HOLDING_UP: Cell<usize> = const { Cell::new(0) };
}

/// Counts a reason why flows of this thread hold up others.
pub(in crate::sync) struct HoldsUp(PhantomData<Rc<()>>);

impl HoldsUp {
    /// Whether a flow of this thread may hold up others.
    pub(in crate::sync) fn is_any() -> bool {
        HOLDING_UP.get() > 0
    }
}

impl Default for HoldsUp {
    fn default() -> Self {
        HOLDING_UP.set(HOLDING_UP.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for HoldsUp {
    fn drop(&mut self) {
        // when the thread ends there may be no count any more
        let _ = HOLDING_UP.try_with(|count| count.set(count.get() - 1));
    }
}

/// A lock or a call that flows wait for.
pub(in crate::sync) trait Contended: Send + Sync {
    /// The flows that have it; `None` if something else has it, which is assumed to make progress.
    fn holders(&self) -> Option<Holders>;
    fn resource(&self) -> Resource;

    /// Follows a path to the holders, or sends it to the process that has them.
    fn pass_on(&self, path: &WaitPath) {
        path.follow(&self.holders().unwrap_or_default());
    }

    /// Whether it fails a wait that has no step to fail.
    fn can_fail(&self) -> bool {
        false
    }

    /// Fails that wait, unless it was failed.
    fn fail(&self, _: &dyn Fn() -> Error) {}
}

/// A wait that other flows wait for in turn.
pub(in crate::sync) struct GraphWait {
    pub(super) identity: Identity,
    /// The branches that make no progress meanwhile, its own one first.
    pub(super) lineage: SmallVec<[u32; 2]>,
    /// Whether a time limit ends it.
    pub(super) limited: AtomicBool,
    /// Fails it, unless its resource does.
    pub(super) step: Option<Completion>,
    pub(super) place: StepLocation,
    pub(super) resource: Arc<dyn Contended>,
    pub(super) began: SystemTime,
    /// Numbers the waits of the process in their order; set when the wait joins a queue.
    pub(super) number: OnceLock<u64>,
}

/// Keeps a wait in the table of waits until it is dropped.
///
/// It is made and dropped only while the mutex is locked, so that the table has a wait exactly as long
/// as the queue has. No other lock is taken while the table is locked.
pub(in crate::sync) struct WaitGuard(Arc<GraphWait>);

impl GraphWait {
    /// A wait in the running step, for the step at `place`; `step` completes it.
    pub(in crate::sync) fn new(
        asi: &AsyncSteps,
        identity: Identity,
        place: StepLocation,
        resource: Arc<dyn Contended>,
        step: Option<Completion>,
    ) -> Self {
        Self {
            identity,
            lineage: asi.lineage().collect(),
            limited: asi.is_limited().into(),
            step,
            place,
            resource,
            began: clock::wall(),
            number: OnceLock::new(),
        }
    }

    /// Puts the wait into the table.
    pub(in crate::sync) fn watch(self: &Arc<Self>) -> WaitGuard {
        static COUNT: Mutex<u64> = Mutex::new(0);
        // numbered and entered in one: a wait with a greater number finds this one
        let mut count = COUNT.lock();
        *count += 1;
        self.number.get_or_init(|| *count);
        WAITS.entry(self.identity.flow).or_default().push(Arc::clone(self));
        drop(count);
        WaitGuard(Arc::clone(self))
    }

    pub(super) fn is_limited(&self) -> bool {
        self.limited.load(Ordering::Relaxed)
    }

    /// Whether it can be failed; a call cannot.
    pub(super) fn can_fail(&self) -> bool {
        self.step.is_some() || self.resource.can_fail()
    }

    /// Fails it, unless it was failed or has ended in another way.
    pub(super) fn fail(&self, error: &dyn Fn() -> Error) {
        match &self.step {
            Some(step) if step.is_valid() => drop(step.fail(error())),
            Some(_) => {}
            None => self.resource.fail(error),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number.get().copied().unwrap_or(u64::MAX)
    }

    /// Whether the flow of each holder waits somewhere. Mostly one does not, and there is no cycle.
    pub(super) fn may_be_stuck(&self) -> bool {
        let holders = self.resource.holders();
        holders.is_some_and(|holders| holders.iter().all(|holder| WAITS.contains_key(&holder.flow)))
    }

    pub(super) fn is_watched(self: &Arc<Self>) -> bool {
        let waits = WAITS.get(&self.identity.flow);
        waits.is_some_and(|waits| waits.iter().any(|wait| Arc::ptr_eq(wait, self)))
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        if let Entry::Occupied(mut waits) = WAITS.entry(self.0.identity.flow) {
            waits.get_mut().retain(|wait| !Arc::ptr_eq(wait, &self.0));
            if waits.get().is_empty() {
                waits.remove();
            }
        }
    }
}

impl DeadlockWait {
    pub(super) fn of(wait: &GraphWait) -> Self {
        Self { identity: wait.identity, place: wait.place, resource: wait.resource.resource() }
    }
}
