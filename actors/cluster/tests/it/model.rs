//! What a store does to a few locks, a quota and a counter, without a store. Leases and periods end by themselves in no run.

use std::collections::{BTreeMap, BTreeSet};

use asyncsteps_cluster::store::{ClusterNodeId, Taken};
use asyncsteps_core::sim::linear::Model;

/// What is asked. Locks are named by small numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    Register,
    Leave(ClusterNodeId),
    Take(usize, ClusterNodeId),
    GiveBack(usize, u64),
    /// A share for a node that has some units.
    Share(ClusterNodeId, u32),
    ReturnShare(ClusterNodeId),
    Count,
}

/// What is answered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Registered(ClusterNodeId),
    Done,
    Taken(Taken),
    /// The units of the node, if it has a lease.
    Share(Option<u32>),
    /// Whether the entry was counted.
    Counted(bool),
}

/// All nodes and locks, as they are at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    alive: BTreeSet<ClusterNodeId>,
    /// The holder of each lock, and its number.
    held: BTreeMap<usize, (ClusterNodeId, u64)>,
    /// The highest number of each lock.
    highest: BTreeMap<usize, u64>,
    shares: BTreeMap<ClusterNodeId, u32>,
    entries: u32,
}

/// Locks, a quota of this number of units, and a counter that counts so far.
pub(super) struct Locks {
    pub(super) total: u32,
    pub(super) max: u32,
}

impl Model for Locks {
    type State = State;
    type Operation = Asked;
    type Answer = Answer;

    fn start(&self) -> State {
        State::default()
    }

    fn apply(&self, state: &State, asked: &Asked, answer: Option<&Answer>) -> Option<State> {
        let mut state = state.clone();
        let is_possible = match (asked, answer) {
            (Asked::Register, Some(Answer::Registered(node))) => state.alive.insert(*node),
            (Asked::Leave(node), Some(Answer::Done)) => state.alive.remove(node),
            (Asked::Take(lock, node), Some(Answer::Taken(taken))) => {
                state.take(*lock, *node, *taken)
            }
            (Asked::GiveBack(lock, epoch), Some(Answer::Done)) => {
                if state.held.get(lock).is_some_and(|(_, held)| held == epoch) {
                    state.held.remove(lock);
                }
                true
            }
            (Asked::Share(node, has), Some(Answer::Share(units))) => {
                state.share(*node, *has, *units, self.total)
            }
            (Asked::ReturnShare(node), Some(Answer::Done)) => {
                state.shares.remove(node);
                true
            }
            (Asked::Count, Some(Answer::Counted(is_counted))) => {
                let has_room = state.entries < self.max;
                state.entries += u32::from(has_room);
                has_room == *is_counted
            }
            _ => false,
        };
        is_possible.then_some(state)
    }
}

impl State {
    /// A lock has one holder that is alive, and each holder has a higher number than those before.
    fn take(&mut self, lock: usize, node: ClusterNodeId, taken: Taken) -> bool {
        let holder = self.held.get(&lock).map(|(holder, _)| *holder);
        let is_held = holder.is_some_and(|holder| holder != node && self.alive.contains(&holder));
        match (self.alive.contains(&node), taken) {
            (true, Taken::Epoch(epoch)) => {
                self.held.insert(lock, (node, epoch));
                let before = self.highest.insert(lock, epoch);
                !is_held && before.is_none_or(|before| before < epoch)
            }
            (true, Taken::Held(_)) => is_held,
            (false, Taken::NoLease) => true,
            _ => false,
        }
    }

    /// The nodes that are alive never have more units together than there are.
    fn share(&mut self, node: ClusterNodeId, has: u32, units: Option<u32>, total: u32) -> bool {
        let Some(units) = units else { return !self.alive.contains(&node) };
        self.shares.retain(|node, _| self.alive.contains(node));
        let before = self.shares.get(&node).copied().unwrap_or_default();
        self.shares.insert(node, has.min(before).max(units));
        self.alive.contains(&node) && self.shares.values().sum::<u32>() <= total
    }
}
