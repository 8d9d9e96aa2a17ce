//! Deadlocks among mutexes and calls (FTN12 §1.11.5): they are found when they arise, reported, and
//! resolved.
//!
//! A wait matters if other flows may wait for it in turn: its flow has a lock, or was called by a flow
//! that has one. It waits for the holders of its mutex, for all of them if several may be inside, or
//! for the flow that it called. A holder makes no progress while it or a branch below it waits. Each
//! new wait looks for a cycle of itself and older waits. If there is one, the deadlock is reported, and
//! the new wait fails with `InternalError`, unless a time limit ends one of the waits of the cycle: that
//! of a step around it, by `set_timeout` or [`timeout`](asyncsteps_core::Added::timeout). The `timeout` of a
//! step with a lock of its own begins when it has the lock, and does not end the wait for it. The deadline
//! of a request does not count.
//!
//! Locks taken outside of flows, with [`Mutex::lock`](super::Mutex::lock) or by message, are assumed to
//! come free; the same goes for waits for a throttle, a future or another flow.
//!
//! The search stops nothing. A cycle counts if all of it is still there after it was found: waits of a
//! deadlock do not change, so all of them were there at one time.

mod graph;
mod report;
mod watch;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use asyncsteps_core::{Error, codes};

use super::waiter::guarded;
use graph::Graph;
use watch::WAITS;

pub use report::{Deadlock, Resource, Waiting};

pub(super) use watch::{Contended, Holders, HoldsUpCaller, Wait, Watch};

/// Deadlocks that [`last`] knows.
const KEPT: usize = 16;

static ENABLED: AtomicBool = AtomicBool::new(true);
static FOUND: AtomicU64 = AtomicU64::new(0);
static LAST: Mutex<VecDeque<Arc<Deadlock>>> = Mutex::new(VecDeque::new());

/// Detects deadlocks among the waits to come, in the whole process. This is the default, because a
/// search costs little and only flows that hold locks pay for it.
pub fn enable() {
    ENABLED.store(true, Ordering::Relaxed);
}

/// Detects no deadlocks among the waits to come, in the whole process.
pub fn disable() {
    ENABLED.store(false, Ordering::Relaxed);
}

/// Whether deadlocks are detected.
#[must_use]
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// How many deadlocks were found since the start of the process.
#[must_use]
pub fn count() -> u64 {
    FOUND.load(Ordering::Relaxed)
}

/// The last deadlocks found, up to 16, the oldest first.
#[must_use]
pub fn last() -> Vec<Arc<Deadlock>> {
    guarded(&LAST).iter().cloned().collect()
}

/// The waits that other flows may wait for now, in no particular order.
#[must_use]
pub fn watched() -> Vec<Waiting> {
    WAITS
        .iter()
        .flat_map(|waits| waits.iter().map(|wait| Waiting::of(wait)).collect::<Vec<_>>())
        .collect()
}

/// What a new wait does.
pub(in crate::sync) enum Verdict {
    /// Wait.
    Waits,
    /// Fail with this.
    Deadlock(Error),
}

/// Looks whether a new wait closes a cycle.
pub(in crate::sync) fn look(wait: &Arc<Wait>) -> Verdict {
    if !wait.may_be_stuck() {
        return Verdict::Waits;
    }
    let Some(cycle) = Graph::cycle(wait, |_| true) else { return Verdict::Waits };
    // if a time limit ends a wait of each cycle, all waits make progress
    let hard = if wait.limited { None } else { Graph::cycle(wait, |wait| !wait.limited) };
    let left_to_limit = hard.is_none();
    let waits = hard.unwrap_or(cycle).iter().map(|wait| Waiting::of(wait)).collect();
    let deadlock = Deadlock { waits, left_to_limit };
    let text = deadlock.to_string();
    report(deadlock.clone(), &text);
    if left_to_limit {
        return Verdict::Waits;
    }
    // with a cause it is not an error that the function chose: its caller does not learn the locations
    let error = Error::with_info(codes::INTERNAL_ERROR, text);
    Verdict::Deadlock(error.with_cause(deadlock))
}

fn report(deadlock: Deadlock, text: &str) {
    if deadlock.left_to_limit {
        tracing::warn!(deadlock = text, "left to a time limit");
    } else {
        tracing::error!(deadlock = text, "the newest wait fails");
    }
    FOUND.fetch_add(1, Ordering::Relaxed);
    let mut last = guarded(&LAST);
    if last.len() == KEPT {
        last.pop_front();
    }
    last.push_back(Arc::new(deadlock));
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use asyncsteps_core::{Flow, Identity, StepLocation};
    use smallvec::SmallVec;

    use super::watch::{Contended, Holders};
    use super::*;

    /// A mutex with these holders for ever.
    struct Held(Holders);

    impl Contended for Held {
        fn holders(&self) -> Option<Holders> {
            Some(self.0.clone())
        }

        fn resource(&self) -> Resource {
            Resource::Mutex { name: "", key: Arc::default() }
        }
    }

    fn owners<const N: usize>() -> [Identity; N] {
        std::array::from_fn(|_| Identity { flow: Flow::new().id(), branch: 0 })
    }

    fn wait(identity: Identity, holders: &[Identity], limited: bool) -> Arc<Wait> {
        let mut flow = Flow::new();
        flow.add(|asi, ()| {
            let place = asi.locations().next();
            asi.success((place,))
        });
        let (place,) =
            asyncsteps_core::run_to_end::<(Option<StepLocation>,)>(flow).expect("it ends");
        Arc::new(Wait {
            identity,
            lineage: SmallVec::from_slice(&[identity.branch]),
            limited,
            place: place.expect("a step is running"),
            resource: Arc::new(Held(holders.into())),
            number: OnceLock::new(),
        })
    }

    fn fails(wait: &Arc<Wait>) -> bool {
        matches!(look(wait), Verdict::Deadlock(_))
    }

    #[test]
    fn of_two_waits_that_come_at_once_only_the_newest_fails() {
        let [a, b] = owners();
        let (first, second) = (wait(a, &[b], false), wait(b, &[a], false));
        let _watches = (first.watch(), second.watch());
        assert!(!fails(&first));
        assert!(fails(&second));
    }

    #[test]
    fn a_holder_that_waits_for_somebody_who_goes_on_goes_on() {
        let [a, b, other, free] = owners();
        let (first, detour) = (wait(a, &[b], false), wait(other, &[free], false));
        let newest = wait(b, &[a, other], false);
        let _watches = (first.watch(), detour.watch(), newest.watch());
        assert!(!fails(&newest));
    }

    /// The wait of a branch of `flow`, below the root.
    fn below(flow: Identity, branch: u32, holders: &[Identity], limited: bool) -> Arc<Wait> {
        let mut below = wait(Identity { branch, ..flow }, holders, limited);
        Arc::get_mut(&mut below).expect("it is new").lineage.push(0);
        below
    }

    #[test]
    fn of_two_cycles_one_without_a_limit_is_enough_to_fail() {
        let [a, b] = owners();
        for limited in [true, false] {
            let (one, other) = (below(a, 1, &[b], limited), below(a, 2, &[b], true));
            let newest = wait(b, &[a], false);
            let _watches = (one.watch(), other.watch(), newest.watch());
            assert_eq!(fails(&newest), !limited);
        }
    }

    #[test]
    fn with_room_for_two_a_limit_of_one_holder_is_enough_to_wait_for() {
        let [a, b, c] = owners();
        for limited in [true, false] {
            let (one, other) = (wait(a, &[c], false), wait(b, &[c], limited));
            let newest = wait(c, &[a, b], false);
            let _watches = (one.watch(), other.watch(), newest.watch());
            assert_eq!(fails(&newest), !limited);
        }
    }

    #[test]
    fn a_wait_that_is_over_is_forgotten() {
        let [a, b] = owners();
        let (first, second) = (wait(a, &[b], false), wait(b, &[a], false));
        drop(first.watch());
        let _watch = second.watch();
        assert!(!fails(&second));
    }
}
