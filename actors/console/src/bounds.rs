//! How much a page is sent: a service may have a hundred thousand requests in flight, each with any
//! number of branches, steps and locks, and people look at the first ones.

use asyncsteps_fabric::NodeInfo;
use asyncsteps_observe::admin::{
    FlowInFlight, FlowsInFlight, KeyInfo, LockInfo, RecentRequest, RefusedInfo, StepPlace,
    WaitEdge, WaitGraph, WaitInfo,
};

/// The most flows in flight, the oldest ones.
pub(crate) const FLOWS: usize = 200;

/// The most ended requests, the newest ones.
pub(crate) const RECENT: usize = 100;

/// The most refused requests, the newest ones.
const REFUSED: usize = 50;

/// The most locks, those with the longest queues.
const LOCKS: usize = 50;

/// The most keys of a lock.
const KEYS: usize = 20;

/// The most holders and the most waiters of a key.
const OWNERS: usize = 8;

/// The most waits in the wait-for graph.
const WAITS: usize = 60;

/// The most deadlocks that are reported, the last ones.
const DEADLOCKS: usize = 3;

/// The most branches of a flow, and the most locks that it holds.
const BRANCHES: usize = 6;

/// The most steps of a branch, the innermost ones.
const STEPS: usize = 12;

/// The most nodes, in the order of their names.
pub(crate) const NODES: usize = 200;

/// The most interfaces of a node.
const INTERFACES: usize = 20;

/// The most durable requests of a page.
pub(crate) const DURABLE: usize = 100;

/// The most entities, those with the longest queues.
pub(crate) const ENTITIES: usize = 50;

/// The most records of a durable request, the newest ones.
pub(crate) const RECORDS: usize = 500;

/// The most steps of a durable request whose effects stay.
pub(crate) const KEPT: usize = 100;

/// The longest text, in bytes: names are shorter, keys of locks are what callers made them.
const TEXT: usize = 400;

/// Data that is cut to the size that a page shows.
pub(crate) trait Bounded {
    #[must_use]
    fn bounded(self) -> Self;
}

impl Bounded for FlowsInFlight {
    fn bounded(mut self) -> Self {
        self.flows.truncate(FLOWS);
        self.flows = each(self.flows);
        self
    }
}

impl Bounded for FlowInFlight {
    fn bounded(mut self) -> Self {
        self.waits.truncate(BRANCHES);
        self.holds.truncate(BRANCHES);
        for held in &mut self.holds {
            cut(&mut held.key);
        }
        self.user.as_mut().map(cut);
        self.waits = each(self.waits);
        self
    }
}

impl Bounded for WaitInfo {
    fn bounded(mut self) -> Self {
        let outer = self.steps.len().saturating_sub(STEPS);
        self.steps.drain(..outer);
        self.steps = each(self.steps);
        cut(&mut self.reason);
        if let Some(lock) = &mut self.lock {
            cut(&mut lock.key);
            lock.holders.truncate(OWNERS);
        }
        self
    }
}

impl Bounded for StepPlace {
    fn bounded(mut self) -> Self {
        self.name.as_mut().map(cut);
        self
    }
}

impl Bounded for RecentRequest {
    fn bounded(mut self) -> Self {
        cut(&mut self.steps);
        self.rid.as_mut().map(cut);
        self.user.as_mut().map(cut);
        self
    }
}

impl Bounded for Vec<RefusedInfo> {
    fn bounded(mut self) -> Self {
        self.truncate(REFUSED);
        for refused in &mut self {
            refused.text.as_mut().map(cut);
        }
        self
    }
}

impl Bounded for Vec<LockInfo> {
    fn bounded(mut self) -> Self {
        if self.len() > LOCKS {
            self.sort_by_key(|lock| std::cmp::Reverse((lock.queued, lock.holders)));
            self.truncate(LOCKS);
        }
        for lock in &mut self {
            lock.keys.truncate(KEYS);
            lock.keys = each(std::mem::take(&mut lock.keys));
        }
        self
    }
}

impl Bounded for KeyInfo {
    fn bounded(mut self) -> Self {
        cut(&mut self.key);
        self.inside.truncate(OWNERS);
        self.waiting.truncate(OWNERS);
        self
    }
}

impl Bounded for WaitGraph {
    fn bounded(mut self) -> Self {
        self.waits.truncate(WAITS);
        self.waits = each(self.waits);
        let old = self.last_deadlocks.len().saturating_sub(DEADLOCKS);
        self.last_deadlocks.drain(..old);
        self.last_deadlocks.iter_mut().for_each(cut);
        self
    }
}

impl Bounded for WaitEdge {
    fn bounded(mut self) -> Self {
        cut(&mut self.key);
        self.holders.truncate(OWNERS);
        self
    }
}

impl Bounded for NodeInfo {
    fn bounded(mut self) -> Self {
        cut(&mut self.node);
        if self.interfaces.len() > INTERFACES {
            self.interfaces.truncate(INTERFACES);
            self.interfaces.push("\u{2026}".to_owned());
        }
        self.interfaces.iter_mut().for_each(cut);
        self
    }
}

fn each<T: Bounded>(items: Vec<T>) -> Vec<T> {
    items.into_iter().map(T::bounded).collect()
}

/// Cuts a text, and says so by an ellipsis.
pub(crate) fn cut(text: &mut String) {
    if text.len() > TEXT {
        let end = (0..=TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
        text.push('\u{2026}');
    }
}
