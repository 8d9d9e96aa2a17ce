//! Deadlocks over several processes: a path of waits that goes from process to process until it comes back (Chandy, Misra
//! and Haas: edge chasing).
//!
//! A wait that begins sends a path along what it waits for, if that leads out of the process. Each process adds its waits,
//! and sends the path on. A path that comes to a wait that it has is a cycle, which it follows once more: waits that are
//! still there then were all there at one time. On the way after that it comes to the newest of them, which fails.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::UNIX_EPOCH;

use asyncsteps_core::{Error, Identity};

use super::found;
use super::report::DeadlockWait;
use super::wait_path::{PathWait, WaitPath};
use super::watch::{GraphWait, WAITS};

/// How many waits a path may have: more than calls of entities may come through.
const MOST: usize = 64;

/// How many waits of this process are for something in another one.
pub(in crate::sync) static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);

impl WaitPath {
    /// Sends a path from a wait that has begun, if it may lead out of the process.
    pub(super) fn begin(wait: &Arc<GraphWait>) {
        if ELSEWHERE.load(Ordering::Relaxed) > 0
            && let Some(path) = Self::of(wait)
        {
            wait.resource.pass_on(&path);
        }
    }

    /// The path that begins with a wait; `None` if a limit ends that.
    pub(in crate::sync) fn of(wait: &Arc<GraphWait>) -> Option<Self> {
        let waits = vec![PathWait::of(wait)];
        (!wait.is_limited()).then_some(Self { waits, left: None })
    }

    /// Goes on with what these flows and branches wait for.
    pub(in crate::sync) fn follow(&self, holders: &[Identity]) {
        // of several holders one is enough to go on
        let [holder] = holders else { return };
        let waits = WAITS.get(&holder.flow).map(|waits| waits.clone()).unwrap_or_default();
        for wait in waits.iter().filter(|wait| wait.lineage.contains(&holder.branch)) {
            // one that a limit ends is no deadlock
            if !wait.is_limited() {
                self.clone().pass(wait);
            }
        }
    }

    fn pass(mut self, wait: &Arc<GraphWait>) {
        let id = id(wait);
        let known = self.waits.iter().position(|known| known.id == id);
        match (known, &mut self.left) {
            (Some(_), Some(left @ 1..)) => {
                *left -= 1;
                if *left <= self.waits.len() && self.newest() == Some(id) {
                    return wait.fail(&|| self.report());
                }
            }
            (_, Some(_)) => return,
            (Some(first), None) => {
                self.waits.drain(..first);
                self.left = Some(2 * self.waits.len());
            }
            (None, None) if self.waits.len() < MOST => self.waits.push(PathWait::of(wait)),
            (None, None) => return,
        }
        wait.resource.pass_on(&self);
    }

    /// The wait that fails.
    fn newest(&self) -> Option<(u64, u64)> {
        let newest = self.waits.iter().max().filter(|newest| newest.began > 0);
        newest.map(|newest| newest.id)
    }

    /// Reports the cycle; returns the error for its newest wait.
    fn report(&self) -> Error {
        let mut waits: Vec<_> = self.waits.iter().map(|wait| &*wait.text).collect();
        let newest = self.waits.iter().position(|wait| self.newest() == Some(wait.id));
        waits.rotate_left(newest.unwrap_or(0));
        found(format!("of several processes: {}", waits.join(", for which ")))
    }
}

impl PathWait {
    fn of(wait: &GraphWait) -> Self {
        let began = wait.began.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let began = if wait.can_fail() { u64::try_from(began).unwrap_or(1).max(1) } else { 0 };
        let text = DeadlockWait::of(wait).to_string();
        Self { began, id: id(wait), text }
    }
}

fn id(wait: &GraphWait) -> (u64, u64) {
    // no random bytes of a simulation: whether there is a path depends on all that the process does
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    (wait.number(), *PROCESS)
}
