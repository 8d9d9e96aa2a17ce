//! The nodes of a cluster, whose turn it is, and its faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_cluster::store::{self, LockStore as _};
use asyncsteps_core::sim::Random;
use asyncsteps_journal::memory::{self, Memory};
use asyncsteps_journal::request::{FlowInfo, FlowState, Query};
use asyncsteps_journal::{GONE, Journal as _};
use futures_util::FutureExt as _;

use crate::context::NodeContext;
use crate::disk::{Disk, NodeNames};
use crate::faults::{Faults, NodeFault};
use crate::figures::{RunFigures, Struck};
use crate::history::ClusterHistory;
use crate::locks::NodeLocks;
use crate::machine::{Birth, NodeMachine, Start, take_turns};
use crate::network::Network;
use crate::node::{NodePhase, SimNode};
use crate::processor::Processor;
use crate::repeat::{FaultId, RepeatedRun};

/// How long a node runs in its turn, at the most: the others see its effects after that.
const MOST_TURN: usize = 50;

const SECOND: Duration = Duration::from_secs(1);

/// Nodes in one process and in virtual time, whose faults follow from a seed.
///
/// # Panics
/// If a node panics, its next turn panics with the same message.
#[derive(derive_more::Debug)]
#[debug("Cluster {{ nodes: {:?}, now: {now:?}, .. }}", self.names().collect::<Vec<_>>())]
pub struct Cluster {
    random: Random,
    processor: Processor,
    journal: Memory,
    locks: store::Memory,
    network: Network,
    /// By how many milliseconds the clock of the journal is ahead of the right time.
    ahead: i64,
    nodes: Vec<SimNode>,
    faults: Faults,
    now: Duration,
    /// The coming events, by time and in the order in which they were decided.
    events: BTreeMap<(Duration, u64), ClusterEvent>,
    decided: u64,
    history: ClusterHistory,
    figures: RunFigures,
    /// The part of the seed that is repeated.
    repeat: RepeatedRun,
    struck: Vec<Struck>,
}

/// An event at a time.
#[derive(Clone, Copy)]
enum ClusterEvent {
    /// The faults of another second are drawn.
    Second,
    Fault(usize, usize, NodeFault),
    /// A node starts or goes on, if it still waits for this.
    Runs(usize),
    /// A disk is as fast as before.
    Fast(usize),
    /// A disk has room again.
    Room(usize),
    /// Nothing is wrong any more with the way between a node and the network.
    Passes,
    /// The session of a node has been gone for [`GONE`], unless the node has another one.
    Gone(usize, NodeNames),
    /// A node has a session again.
    Session(usize),
}

impl Cluster {
    /// A cluster without nodes and without faults, whose choices come from this seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::repeating(RepeatedRun::of(seed))
    }

    pub(crate) fn repeating(repeat: RepeatedRun) -> Self {
        let (mut random, history) = (Random::new(repeat.seed), ClusterHistory::default());
        Self {
            network: Network::new(random.number(), history.clone()),
            random,
            processor: Processor::current(),
            journal: Memory::default(),
            locks: store::Memory::default(),
            ahead: 0,
            nodes: Vec::new(),
            faults: Faults::none(),
            now: Duration::ZERO,
            events: BTreeMap::new(),
            decided: 0,
            history,
            figures: RunFigures::default(),
            repeat,
            struck: Vec::new(),
        }
    }

    /// Adds a node, which starts in its first turn, and again after each kill. What `start` returns is kept while the node
    /// lives.
    pub fn node<F, K>(&mut self, name: impl Into<String>, start: F)
    where
        F: AsyncFn(NodeContext) -> K + Send + Sync + 'static,
        K: 'static,
    {
        self.add(name.into(), starting(start), false);
    }

    /// Adds a node with which nothing goes wrong, such as one whose tasks are the clients of the others.
    pub fn client<F, K>(&mut self, name: impl Into<String>, start: F)
    where
        F: AsyncFn(NodeContext) -> K + Send + Sync + 'static,
        K: 'static,
    {
        self.add(name.into(), starting(start), true);
    }

    /// Another version of the program takes the place of a node's: the node is killed and starts at once with the new one.
    /// The others go on with theirs.
    ///
    /// # Panics
    /// If there is no node of this name.
    pub fn replace<F, K>(&mut self, name: &str, start: F)
    where
        F: AsyncFn(NodeContext) -> K + Send + Sync + 'static,
        K: 'static,
    {
        let number = self.nodes.iter().position(|node| node.name == name);
        let number = number.unwrap_or_else(|| panic!("no node {name}"));
        self.nodes[number].start = starting(start);
        self.kill(number, Duration::ZERO);
    }

    fn add(&mut self, name: String, start: Start, is_safe: bool) {
        let number = self.nodes.len();
        let disk = Disk::new(&self.journal, number, self.random.number(), self.history.clone());
        let seed = self.random.number();
        let is_left_out = self.repeat.without.contains(&name);
        self.nodes.push(SimNode::new(name, start, disk, seed, is_safe));
        if is_left_out {
            self.nodes[number].phase = NodePhase::LeftOut;
        } else {
            self.plan(self.now, ClusterEvent::Runs(number));
        }
    }

    fn plan(&mut self, at: Duration, event: ClusterEvent) {
        // timers of nodes have no part of a millisecond
        let at = Duration::from_millis(at.as_millis().try_into().unwrap_or(u64::MAX));
        self.decided += 1;
        self.events.insert((at, self.decided), event);
    }

    /// The seed, for what the world outside of the cluster draws.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.repeat.seed
    }

    /// Sets the faults from now on.
    pub fn faults(&mut self, faults: Faults) {
        self.faults = faults;
        self.events
            .retain(|_, event| !matches!(event, ClusterEvent::Fault(..) | ClusterEvent::Second));
        self.plan(self.now, ClusterEvent::Second);
    }

    /// Runs the nodes for so long. In each round of turns, of 1 to 50 ms, one node runs after the other.
    pub fn run_for(&mut self, time: Duration) {
        let until = self.repeat.until.filter(|_| !self.faults.is_none());
        let end = (self.now + time).min(until.unwrap_or(Duration::MAX));
        while self.now < end {
            while let Some(event) =
                self.events.first_entry().filter(|event| event.key().0 <= self.now)
            {
                let event = event.remove();
                self.happen(event);
            }
            let next = self.events.first_key_value().map_or(end, |((at, _), _)| *at).min(end);
            self.turns(next - self.now);
            self.now = next;
        }
        self.figures.time = self.now;
    }

    fn turns(&mut self, time: Duration) {
        let mut left = time;
        let mut rounds = Vec::new();
        while !left.is_zero() {
            let length = Duration::from_millis(1 + self.random.below(MOST_TURN) as u64).min(left);
            rounds.push(length);
            left -= length;
        }
        let mut machines: Vec<&mut NodeMachine> =
            self.nodes.iter_mut().filter_map(SimNode::running).collect();
        // so that no node is always the first
        let first = self.random.below(machines.len());
        machines.rotate_left(first);
        take_turns(&mut machines, rounds);
    }

    /// Nothing goes wrong any more: nodes that are down start, stopped ones go on, and clocks are right.
    pub fn heal(&mut self) {
        self.faults(Faults::none());
        self.events.retain(|_, event| {
            matches!(
                event,
                ClusterEvent::Runs(_) | ClusterEvent::Gone(..) | ClusterEvent::Session(_)
            )
        });
        self.ahead = 0;
        self.network.heal();
        for number in 0..self.nodes.len() {
            let node = &mut self.nodes[number];
            (node.ahead, node.drift) = (0, 0);
            self.set_clock(number);
            let node = &mut self.nodes[number];
            node.disk.state().heal();
            if let NodePhase::Down(until) | NodePhase::Stands(_, until) = &mut node.phase {
                *until = self.now;
                self.plan(self.now, ClusterEvent::Runs(number));
            }
        }
    }

    /// The journal, without faults.
    #[must_use]
    pub const fn journal(&self) -> &Memory {
        &self.journal
    }

    /// The requests in this state.
    #[must_use]
    pub fn requests(&self, state: FlowState) -> Vec<FlowInfo> {
        let mut found: Vec<FlowInfo> = Vec::new();
        loop {
            let after = found.last().map_or(0, |last| last.number);
            let query = Query { state: Some(state), after, limit: 1000, ..Query::default() };
            let Some(Ok(page)) = self.journal.list(query).now_or_never() else { return found };
            if page.is_empty() {
                return found;
            }
            found.extend(page);
        }
    }

    /// The figures so far, with the faults that struck.
    #[must_use]
    pub fn figures(&self) -> RunFigures {
        let mut figures = self.figures;
        figures.history = self.history.digest();
        figures.messages_lost = self.network.messages_lost();
        figures.requests = self.requests(FlowState::Ended).len();
        for node in &self.nodes {
            figures.effects += node.disk.state().effects;
        }
        figures
    }

    /// The faults that have struck, in order.
    pub(crate) fn struck(&self) -> &[Struck] {
        &self.struck
    }

    /// The names of its nodes.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| &*node.name)
    }

    fn happen(&mut self, event: ClusterEvent) {
        match event {
            ClusterEvent::Second => self.next_second(),
            ClusterEvent::Fault(node, number, fault) => self.strike(node, number, fault),
            ClusterEvent::Runs(node) => self.go_on(node),
            ClusterEvent::Fast(node) => self.nodes[node].disk.state().set_stall(None),
            ClusterEvent::Room(node) => self.nodes[node].disk.state().set_full(false),
            ClusterEvent::Passes => self.network.pass(self.now),
            ClusterEvent::Gone(node, names) => self.notice(node, names),
            ClusterEvent::Session(node) => self.begin_session(node),
        }
    }

    /// Draws the faults of the next second.
    fn next_second(&mut self) {
        if self.faults.is_none() {
            return;
        }
        for number in 0..self.nodes.len() {
            let node = &mut self.nodes[number];
            if node.is_safe {
                continue;
            }
            if node.drift > 0 {
                node.ahead += i64::from(node.drift);
                self.set_clock(number);
            }
            let node = &mut self.nodes[number];
            for (count, at, fault) in node.schedule.next_second(&self.faults) {
                let id = FaultId { node: number, count };
                if self.repeat.only.as_ref().is_none_or(|only| only.contains(&id)) {
                    self.plan(self.now + at, ClusterEvent::Fault(number, count, fault));
                }
            }
        }
        self.plan(self.now + SECOND, ClusterEvent::Second);
    }

    /// A node starts, or goes on after it stood still.
    fn go_on(&mut self, number: usize) {
        let now = self.now;
        let node = &mut self.nodes[number];
        match node.phase {
            NodePhase::Down(until) if until <= now => {
                node.starts += 1;
                let context = NodeContext {
                    name: node.name.clone(),
                    number,
                    starts: node.starts,
                    disk: node.disk.clone(),
                    locks: NodeLocks::new(&self.locks, node.disk.clone()),
                    network: self.network.clone(),
                };
                let (start, seed) = (Arc::clone(&node.start), node.random.number());
                let (wall, processor) = (node.wall(now), self.processor);
                node.machine =
                    Some(NodeMachine::new(Birth { start, context, seed, wall, processor }));
                node.phase = NodePhase::Runs;
                node.disk.begin_session();
            }
            NodePhase::Stands(since, until) if until <= now => node.go_on(since, now),
            NodePhase::Runs | NodePhase::Stands(..) | NodePhase::Down(_) | NodePhase::LeftOut => {}
        }
    }

    /// A fault strikes a node that runs; one that is down is left alone.
    fn strike(&mut self, number: usize, count: usize, fault: NodeFault) {
        let node = &self.nodes[number];
        if node.phase != NodePhase::Runs {
            return;
        }
        let in_flight = self.in_flight(number);
        self.figures.count(fault.kind(), in_flight);
        let id = FaultId { node: number, count };
        let (at, name) = (self.now, node.name.clone());
        self.struck.push(Struck { id, at, name, fault });
        let node = &mut self.nodes[number];
        match fault {
            NodeFault::Kill(down) => self.kill(number, down),
            NodeFault::NoticedKill(down) => {
                self.end_session(number);
                self.kill(number, down);
            }
            NodeFault::SessionLost(time) => {
                self.end_session(number);
                self.plan(self.now + time, ClusterEvent::Session(number));
            }
            NodeFault::Stop(time) => {
                let until = self.now + time;
                node.phase = NodePhase::Stands(self.now, until);
                self.plan(until, ClusterEvent::Runs(number));
            }
            NodeFault::Jump(by) => {
                node.ahead = by;
                self.set_clock(number);
            }
            NodeFault::JournalJump(by) => {
                self.ahead = by;
                (0..self.nodes.len()).for_each(|number| self.set_clock(number));
            }
            NodeFault::Drift(parts) => node.drift = parts,
            NodeFault::Stall(by) => {
                node.disk.state().set_stall(Some(by));
                self.plan(self.now + 5 * SECOND, ClusterEvent::Fast(number));
            }
            NodeFault::Full(time) => {
                node.disk.state().set_full(true);
                self.plan(self.now + time, ClusterEvent::Room(number));
            }
            NodeFault::Cut(cut, time) => {
                self.network.cut(number, cut, self.now + time);
                self.plan(self.now + time, ClusterEvent::Passes);
            }
            NodeFault::NotDone => node.disk.state().fail_next(memory::Fault::NotDone),
            NodeFault::AnswerLost => node.disk.state().fail_next(memory::Fault::AnswerLost),
        }
    }

    fn kill(&mut self, number: usize, down: Duration) {
        let until = self.now + down;
        if self.nodes[number].phase != NodePhase::LeftOut {
            self.network.kill(number);
            self.nodes[number].kill(until);
            self.plan(until, ClusterEvent::Runs(number));
        }
    }

    /// The session of a node ends, which the others notice if it stays so.
    fn end_session(&mut self, number: usize) {
        let names = self.nodes[number].disk.end_session();
        self.plan(self.now + GONE, ClusterEvent::Gone(number, names));
    }

    /// A node that lives has a session again.
    fn begin_session(&self, number: usize) {
        let SimNode { phase, disk, .. } = &self.nodes[number];
        if matches!(phase, NodePhase::Runs | NodePhase::Stands(..)) {
            disk.begin_session();
        }
    }

    /// The leases of a node end whose session is gone.
    fn notice(&self, number: usize, names: NodeNames) {
        if !self.nodes[number].disk.is_gone(names) {
            return;
        }
        if let Some(node) = names.incarnation {
            self.journal.end_lease(node);
        }
        let is_dead = self.nodes[number].machine.is_none();
        if let Some(node) = names.holder.filter(|_| is_dead) {
            // a store in memory answers at once
            let _ = self.locks.leave(node).now_or_never();
        }
    }

    /// The node and its disk go by their clocks as they are now.
    fn set_clock(&self, number: usize) {
        let node = &self.nodes[number];
        node.set_clock(self.now);
        node.disk.state().set_clocks(self.ahead, node.ahead);
    }

    /// Whether the node has requests that have not ended.
    fn in_flight(&self, number: usize) -> bool {
        let owner = self.nodes[number].disk.state().incarnation;
        let running = self.requests(FlowState::Running);
        owner.is_some() && running.iter().any(|request| request.owner == owner)
    }
}

fn starting<F, K>(start: F) -> Start
where
    F: AsyncFn(NodeContext) -> K + Send + Sync + 'static,
    K: 'static,
{
    let start = Arc::new(start);
    Arc::new(move |context| {
        let start = Arc::clone(&start);
        Box::pin(async move { Box::new(start(context).await) as Box<dyn std::any::Any> })
    })
}
