//! Deadlocks among mutexes and calls (FTN12 §1.11.5): they are found when they arise, reported, and
//! resolved.
//!
//! A wait matters if other flows may wait for it in turn: its flow has a lock, or was called by a flow that has one. It
//! waits for the holders of its mutex, for all of them if several may be inside, or for the flow that it called. A
//! holder makes no progress while it or a branch below it waits. Each new wait looks for a cycle of itself and older
//! waits. If there is one, the deadlock is reported, and the new wait fails with `InternalError`, unless a time limit
//! ends one of the waits of the cycle: the limit of a step around it, by `set_timeout` or
//! [`timeout`](asyncsteps_core::Added::timeout). The `timeout` of a step with a lock of its own begins when it has the
//! lock, and does not end the wait for it. The deadline of a request does not count. A limit that ends nothing any
//! more, because a durable request is committed inside, does not count either: a deadlock that was left to it is looked
//! at [again](look_again) when it has passed.
//!
//! Locks taken outside of flows, with [`Mutex::lock`](super::Mutex::lock) or by message, are assumed to
//! be released; the same goes for waits for a throttle, a future or another flow.
//!
//! A wait for something that another process has, such as an entity, sends the waits that lead to it there, as a
//! [`WaitPath`]: so deadlocks of several processes are found as well, and of these too the newest wait fails.
//!
//! The search stops nothing. A cycle counts if all of it is still there after it was found: waits of a
//! deadlock do not change, so all of them were there at one time.

mod graph;
mod path;
mod report;
mod wait_path;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use asyncsteps_core::{Error, Identity, codes};

use graph::Graph;
use parking_lot::Mutex;
use watch::WAITS;

pub use report::{Deadlock, DeadlockWait, Resource};
pub use wait_path::WaitPath;

pub(super) use path::ELSEWHERE;
pub(super) use watch::{Contended, GraphWait, Holders, HoldsUp, HoldsUpCaller, WaitGuard};

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
    LAST.lock().iter().cloned().collect()
}

/// The waits that other flows may wait for now, in no particular order.
#[must_use]
pub fn watched() -> Vec<DeadlockWait> {
    WAITS
        .iter()
        .flat_map(|waits| waits.iter().map(|wait| DeadlockWait::of(wait)).collect::<Vec<_>>())
        .collect()
}

/// The decision about a new wait.
pub(in crate::sync) enum WaitOutcome {
    /// Wait.
    Waits,
    /// Fail with this.
    Deadlock(Error),
}

/// Looks whether a new wait closes a cycle.
pub(in crate::sync) fn look(wait: &Arc<GraphWait>) -> WaitOutcome {
    if !wait.may_be_stuck() {
        return WaitOutcome::Waits;
    }
    let is_older = |other: &GraphWait| other.number() <= wait.number();
    let Some(cycle) = Graph::cycle(wait, is_older) else {
        WaitPath::begin(wait);
        return WaitOutcome::Waits;
    };
    // if a time limit ends a wait of each cycle, all waits make progress
    let is_hard = |other: &GraphWait| is_older(other) && !other.is_limited();
    match if wait.is_limited() { None } else { Graph::cycle(wait, is_hard) } {
        Some(hard) => WaitOutcome::Deadlock(report(&hard, false)),
        None => {
            report(&cycle, true);
            WaitOutcome::Waits
        }
    }
}

/// Whether a time limit ends what these branches wait for has changed: a deadlock that was left to a limit which ends
/// none of its waits any more is resolved like one without a limit.
pub fn look_again(branches: &[(Identity, bool)]) {
    for (branch, is_limited) in branches {
        let waits = WAITS.get(&branch.flow).map(|waits| waits.clone()).unwrap_or_default();
        for wait in waits.iter().filter(|wait| wait.identity == *branch) {
            let was_limited = wait.limited.swap(*is_limited, Ordering::Relaxed);
            if was_limited && !is_limited {
                resolve(wait);
            }
        }
    }
}

/// Fails the newest wait of a cycle that this wait is in, if no limit ends one of them.
fn resolve(wait: &Arc<GraphWait>) {
    let Some(mut cycle) = Graph::cycle(wait, |wait| !wait.is_limited()) else { return };
    let failing = (0..cycle.len()).filter(|at| cycle[*at].can_fail());
    let Some(newest) = failing.max_by_key(|at| cycle[*at].number()) else { return };
    cycle.rotate_left(newest);
    cycle[0].fail(&|| report(&cycle, false));
}

/// Reports a cycle; returns the error for its first wait.
fn report(cycle: &[Arc<GraphWait>], left_to_limit: bool) -> Error {
    let waits = cycle.iter().map(|wait| DeadlockWait::of(wait)).collect();
    report_as(Deadlock { waits, left_to_limit, text: None })
}

/// Reports a deadlock that its caller has found: such as a call of an entity that is for a turn of this entity. Returns the
/// error of the wait that it would be.
#[must_use]
pub fn found(text: String) -> Error {
    report_as(Deadlock { waits: Vec::new(), left_to_limit: false, text: Some(text.into()) })
}

fn report_as(deadlock: Deadlock) -> Error {
    let text = deadlock.to_string();
    log(deadlock.clone(), &text);
    // with a cause it is not an error that the function chose: its caller does not learn the locations
    Error::with_info(codes::INTERNAL_ERROR, text).with_cause(deadlock)
}

fn log(deadlock: Deadlock, text: &str) {
    if deadlock.left_to_limit {
        tracing::warn!(deadlock = text, "left to a time limit");
    } else {
        tracing::error!(deadlock = text, "the newest wait fails");
    }
    FOUND.fetch_add(1, Ordering::Relaxed);
    let mut last = LAST.lock();
    if last.len() == KEPT {
        last.pop_front();
    }
    last.push_back(Arc::new(deadlock));
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::OnceLock;
    use std::task::Waker;

    use asyncsteps_core::{Completion, Flow, StepLocation, Time};
    use smallvec::SmallVec;

    use super::watch::{Contended, Holders};
    use super::*;
    use crate::clock;

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

    fn wait(identity: Identity, holders: &[Identity], limited: bool) -> Arc<GraphWait> {
        let mut flow = Flow::new();
        flow.add(|asi, ()| {
            let place = asi.locations().next();
            asi.success((place,))
        });
        let (place,) =
            asyncsteps_core::run_to_end::<(Option<StepLocation>,)>(flow).expect("it ends");
        Arc::new(GraphWait {
            identity,
            lineage: SmallVec::from_slice(&[identity.branch]),
            limited: limited.into(),
            step: None,
            place: place.expect("a step is running"),
            resource: Arc::new(Held(holders.into())),
            began: clock::wall(),
            number: OnceLock::new(),
        })
    }

    fn fails(wait: &Arc<GraphWait>) -> bool {
        matches!(look(wait), WaitOutcome::Deadlock(_))
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
    fn below(flow: Identity, branch: u32, holders: &[Identity], limited: bool) -> Arc<GraphWait> {
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

    #[test]
    fn when_a_limit_ends_no_wait_any_more_the_newest_wait_of_the_cycle_fails() {
        for is_newest in [false, true] {
            let [a, b] = owners();
            let mut flow = Flow::new();
            let steps: Rc<RefCell<Vec<Completion>>> = Rc::default();
            let kept = Rc::clone(&steps);
            flow.parallel(|branches| {
                for _ in 0..2 {
                    let kept = Rc::clone(&kept);
                    branches.add(move |asi, ()| kept.borrow_mut().push(asi.wait_external()));
                }
            });
            let mut execution = flow.execute();
            let _ = execution.run(Time::ZERO, Waker::noop());
            let of = |identity, holder, limited, step: usize| {
                let mut wait = wait(identity, &[holder], limited);
                let step = Some(steps.borrow()[step].clone());
                Arc::get_mut(&mut wait).expect("it is new").step = step;
                wait
            };
            let (first, second) = (of(a, b, !is_newest, 0), of(b, a, is_newest, 1));
            let _watches = (first.watch(), second.watch());
            assert!(!fails(&first) && !fails(&second), "it is left to the limit");
            let limited = if is_newest { b } else { a };
            look_again(&[(limited, true)]);
            let are_valid = || steps.borrow().iter().map(Completion::is_valid).collect::<Vec<_>>();
            assert_eq!(are_valid(), [true, true]);
            look_again(&[(limited, false)]);
            assert_eq!(are_valid(), [true, false], "the newest wait fails");
        }
    }

    /// What another process has: paths that were sent there, and how often its wait was failed.
    #[derive(Default)]
    struct Elsewhere {
        sent: Mutex<Option<WaitPath>>,
        failed: AtomicU64,
    }

    impl Contended for Elsewhere {
        fn holders(&self) -> Option<Holders> {
            None
        }

        fn resource(&self) -> Resource {
            Resource::Mutex { name: "", key: Arc::default() }
        }

        fn pass_on(&self, path: &WaitPath) {
            *self.sent.lock() = Some(path.clone());
        }

        fn can_fail(&self) -> bool {
            true
        }

        fn fail(&self, _: &dyn Fn() -> Error) {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_cycle_of_several_processes_is_followed_twice_before_its_newest_wait_fails() {
        for is_over_after in [1, 2, 9] {
            let [a, b] = owners();
            let elsewhere = [(); 2].map(|()| Arc::new(Elsewhere::default()));
            let [older, newest] = [(a, 0), (b, 1)].map(|(identity, at)| {
                let mut wait = wait(identity, &[], false);
                let resource: Arc<Elsewhere> = Arc::clone(&elsewhere[at]);
                Arc::get_mut(&mut wait).expect("it is new").resource = resource;
                wait
            });
            let (older_watch, _newest_watch) = (older.watch(), newest.watch());
            let mut older_watch = Some(older_watch);
            let mut path = WaitPath::of(&older);
            let mut visits = 0;
            while let Some(at_process) = path.take() {
                let (holder, at) = if visits % 2 == 0 { (b, 1) } else { (a, 0) };
                at_process.follow(&[holder]);
                path = elsewhere[at].sent.lock().take();
                visits += 1;
                if visits == is_over_after {
                    drop(older_watch.take());
                }
            }
            let failed = elsewhere.map(|elsewhere| elsewhere.failed.load(Ordering::Relaxed));
            assert_eq!(failed, [0, u64::from(is_over_after > 4)], "{is_over_after}: {visits}");
        }
    }
}
