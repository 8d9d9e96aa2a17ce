//! Locks and limits, as data. Times are in milliseconds.

use schemars::JsonSchema;
use serde::Serialize;

use super::place::StepPlace;

/// The holder of a lock, or a waiter for it: a flow, and the request that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Owner {
    /// The number of the flow among those of the process; absent for a call outside of flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub flow: Option<u64>,
    /// The branch of the flow, 0 for the root.
    #[schemars(with = "f64")]
    pub branch: u32,
    /// The number of the request, as [`FlowInFlight`](super::FlowInFlight) has it; not there for a flow
    /// that is of no request in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub request: Option<u64>,
    /// The function of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The local id of its user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A lock or limit that a flow waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LockWait {
    /// `mutex` or `throttle`; a limiter is one of each.
    pub kind: String,
    /// Its name; empty if it has none.
    pub name: String,
    /// Its key; empty if it has none.
    pub key: String,
    /// How many are in front in the queue; not there if the turn has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub ahead: Option<usize>,
    /// How many wait in all.
    #[schemars(with = "f64")]
    pub queued: usize,
    /// The flows that hold it, at most 16; a throttle has none.
    pub holders: Vec<Owner>,
    /// How many hold it in all.
    #[schemars(with = "f64")]
    pub all_holders: usize,
}

/// A lock that a flow holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct HeldLockInfo {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its key; empty if it has none.
    pub key: String,
    /// The branch that holds it, 0 for the root.
    #[schemars(with = "f64")]
    pub branch: u32,
    /// The step that took it.
    pub step: StepPlace,
}

/// A lock and its keys in use.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LockInfo {
    /// `mutex`, `throttle` or `limiter`.
    pub kind: String,
    /// Its name; empty if it has none.
    pub name: String,
    /// Its limits, for each key.
    pub limits: LockLimits,
    /// Holders inside of sections, over all keys.
    #[schemars(with = "f64")]
    pub holders: usize,
    /// Waiters, over all keys.
    #[schemars(with = "f64")]
    pub queued: usize,
    /// How many have waited for it so far, and got it.
    #[schemars(with = "f64")]
    pub waits: u64,
    /// The time that half of them waited at the most, with an error of a quarter.
    pub wait_p50: f64,
    /// The time that 99 % of them waited at the most.
    pub wait_p99: f64,
    /// How many left the queue before their turn: by a time limit, a cancel or an error beside them.
    #[schemars(with = "f64")]
    pub given_up: u64,
    /// How many were refused because the queue was full.
    #[schemars(with = "f64")]
    pub rejected: u64,
    /// How many keys are in use.
    #[schemars(with = "f64")]
    pub all_keys: usize,
    /// The keys with the longest queues, at most a hundred.
    pub keys: Vec<KeyInfo>,
}

/// The limits of a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LockLimits {
    /// How many may be inside at once; not there for a throttle.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub concurrent: Option<u32>,
    /// How many may enter in a period; not there for a mutex.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub rate: Option<u32>,
    /// The period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<f64>,
    /// How many may wait; not there if any number may.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub max_queue: Option<u32>,
}

/// A key of a lock that is in use.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct KeyInfo {
    /// The key; empty for the lock itself.
    pub key: String,
    /// Holders inside of a section; a throttle has none.
    #[schemars(with = "f64")]
    pub holders: usize,
    /// Waiters.
    #[schemars(with = "f64")]
    pub queued: usize,
    /// Entries in the current period; a mutex has none.
    #[schemars(with = "f64")]
    pub entered: u32,
    /// Those inside, at most 16.
    pub inside: Vec<Owner>,
    /// The first ones in the queue, at most 16.
    pub waiting: Vec<Waiter>,
}

/// A waiter in the queue of a lock.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Waiter {
    /// The waiter.
    pub owner: Owner,
    /// For how long.
    pub waited: f64,
}

/// Who waits for whom: the waits for the locks that an executor watches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WaitGraph {
    /// The waits, at most a thousand: those in a cycle first, then those for the longest queues.
    pub waits: Vec<WaitEdge>,
    /// How many there are in all.
    #[schemars(with = "f64")]
    pub all: usize,
    /// The deadlocks that were found so far.
    #[schemars(with = "f64")]
    pub deadlocks: u64,
    /// The last of them as texts, at most 16, the oldest first.
    pub last_deadlocks: Vec<String>,
}

/// A wait for a lock: its waiter waits for all holders, or in a throttle for the next period.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WaitEdge {
    /// The waiter.
    pub waiter: Owner,
    /// For how long.
    pub waited: f64,
    /// `mutex`, `throttle` or `limiter`.
    pub kind: String,
    /// The name of the lock; empty if it has none.
    pub name: String,
    /// Its key; empty if it has none.
    pub key: String,
    /// Those inside, at most 16.
    pub holders: Vec<Owner>,
    /// Whether it waits, over other flows, for itself.
    #[serde(rename = "in_cycle")]
    pub is_in_cycle: bool,
}
