//! Who waits for whom.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use asyncsteps_actors::sync::{LockOwner, deadlock};
use asyncsteps_core::FlowId;

use super::locks::{WaitEdge, WaitGraph};
use super::naming::Names;
use super::steps::ms;
use crate::locks::{BusyKey, WatchedLock};

/// The most waits that are reported.
const WAITS: usize = 1_000;

/// Which flows each flow waits for.
type WaitsFor = HashMap<FlowId, HashSet<FlowId>>;

impl WaitGraph {
    /// The waits for these locks.
    pub(super) fn of(locks: &[WatchedLock], names: &Names) -> Self {
        let waits_for = waits_for(locks);
        let mut keys: Vec<(&WatchedLock, &BusyKey)> =
            locks.iter().flat_map(|lock| lock.busiest.iter().map(move |key| (lock, key))).collect();
        keys.sort_by_key(|(_, key)| Reverse(key.report.queued));
        let waits = keys.into_iter().flat_map(|(lock, key)| edges(lock, key, &waits_for, names));
        let mut waits: Vec<WaitEdge> = waits.collect();
        waits.sort_by_key(|wait| !wait.is_in_cycle);
        waits.truncate(WAITS);
        Self {
            waits,
            all: locks.iter().map(|lock| lock.report.load().queued).sum(),
            deadlocks: deadlock::count(),
            last_deadlocks: deadlock::last().iter().map(ToString::to_string).collect(),
        }
    }
}

/// The waits for a key.
fn edges(
    lock: &WatchedLock,
    key: &BusyKey,
    waits_for: &WaitsFor,
    names: &Names,
) -> impl Iterator<Item = WaitEdge> {
    key.owners.waiting.iter().map(move |waiting| WaitEdge {
        waiter: names.owner(waiting.owner),
        waited: ms(waiting.waited),
        kind: lock.kind.to_owned(),
        name: lock.report.name.to_owned(),
        key: key.report.key.to_string(),
        holders: key.owners.inside.iter().map(|owner| names.owner(*owner)).collect(),
        is_in_cycle: is_in_cycle(waiting.owner, &key.owners.inside, waits_for),
    })
}

fn waits_for(locks: &[WatchedLock]) -> WaitsFor {
    let mut waits_for = WaitsFor::new();
    for BusyKey { owners, .. } in locks.iter().flat_map(|lock| &lock.busiest) {
        for waiter in owners.waiting.iter().filter_map(|waiting| waiting.owner.flow()) {
            let holders = owners.inside.iter().filter_map(|owner| owner.flow());
            let others = holders.map(|holder| holder.flow).filter(|flow| *flow != waiter.flow);
            waits_for.entry(waiter.flow).or_default().extend(others);
        }
    }
    waits_for
}

/// Whether a waiter for these holders waits, over another flow, for itself.
fn is_in_cycle(waiter: LockOwner, holders: &[LockOwner], waits_for: &WaitsFor) -> bool {
    let Some(waiter) = waiter.flow().map(|waiter| waiter.flow) else { return false };
    let holders = holders.iter().filter_map(|holder| holder.flow()).map(|holder| holder.flow);
    let mut next: Vec<FlowId> = holders.filter(|holder| *holder != waiter).collect();
    let mut seen = HashSet::new();
    while let Some(flow) = next.pop() {
        if flow == waiter {
            return true;
        }
        if seen.insert(flow) {
            next.extend(waits_for.get(&flow).into_iter().flatten());
        }
    }
    false
}
