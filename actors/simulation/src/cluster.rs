//! The nodes of a cluster, whose turn it is, and what goes wrong.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use asyncsteps_core::sim::Random;
use asyncsteps_journal::Journal as _;
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::request::{FlowInfo, FlowState, Query};
use futures_util::FutureExt as _;

use crate::context::NodeContext;
use crate::disk::Disk;
use crate::faults::{Faults, Struck};
use crate::history::History;
use crate::machine::{Machine, Start};

/// How long a node runs in its turn: what it does is seen by the others after that.
const TURN: Duration = Duration::from_millis(10);

/// How often it is decided whether something goes wrong.
const DECISION: Duration = Duration::from_secs(1);

/// How long a node is down after a kill, or stands still, at the most.
const MOST_DOWN: Duration = Duration::from_secs(20);
const MOST_STOP: Duration = Duration::from_secs(30);

/// How long the journal is slow.
const STALLED: Duration = Duration::from_secs(5);

/// The time of day at which a cluster begins: 2027.
const BEGIN: Duration = Duration::from_secs(1_798_761_600);

/// Nodes in one process and in virtual time, whose faults follow from a seed.
///
/// # Panics
/// If a node panics, its next turn panics with the same message.
pub struct Cluster {
    random: Random,
    journal: Memory,
    nodes: Vec<SimNode>,
    faults: Faults,
    now: Duration,
    history: History,
    struck: Struck,
}

struct SimNode {
    name: String,
    start: Start,
    disk: Disk,
    starts: u32,
    /// Nothing goes wrong with it.
    is_safe: bool,
    state: NodeState,
    /// How far its clock is ahead of the right time, or behind it.
    ahead: Duration,
    behind: Duration,
    /// When its disk is as fast as before.
    slow_until: Option<Duration>,
}

/// What a node does.
enum NodeState {
    Runs(Machine),
    /// It stands still, from one time to another.
    Stands(Machine, Duration, Duration),
    /// It was killed, and starts at this time.
    Down(Duration),
}

impl SimNode {
    fn wall(&self, now: Duration) -> SystemTime {
        SystemTime::UNIX_EPOCH + (BEGIN + now + self.ahead).saturating_sub(self.behind)
    }
}

impl Cluster {
    /// A cluster without nodes and without faults, whose choices are those of this seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            journal: Memory::default(),
            nodes: Vec::new(),
            faults: Faults::none(),
            now: Duration::ZERO,
            history: History::default(),
            struck: Struck::default(),
        }
    }

    /// Adds a node, which starts in its first turn, and again after each kill. What `start` returns is kept while the node
    /// lives.
    pub fn node<F, K>(&mut self, name: &str, start: F)
    where
        F: AsyncFn(NodeContext) -> K + Send + Sync + 'static,
        K: 'static,
    {
        self.add(name, start, false);
    }

    /// Adds a node with which nothing goes wrong, such as one whose tasks are the clients of the others.
    pub fn client<F, K>(&mut self, name: &str, start: F)
    where
        F: AsyncFn(NodeContext) -> K + Send + Sync + 'static,
        K: 'static,
    {
        self.add(name, start, true);
    }

    fn add<F, K>(&mut self, name: &str, start: F, is_safe: bool)
    where
        F: AsyncFn(NodeContext) -> K + Send + Sync + 'static,
        K: 'static,
    {
        let start = Arc::new(start);
        let start: Start = Arc::new(move |context| {
            let start = Arc::clone(&start);
            Box::pin(async move { Box::new(start(context).await) as Box<dyn std::any::Any> })
        });
        let seed = self.random.number();
        let disk = Disk::new(&self.journal, self.nodes.len(), seed, self.history.clone());
        self.nodes.push(SimNode {
            name: name.to_owned(),
            start,
            disk,
            starts: 0,
            is_safe,
            state: NodeState::Down(self.now),
            ahead: Duration::ZERO,
            behind: Duration::ZERO,
            slow_until: None,
        });
    }

    /// What goes wrong from now on.
    pub fn faults(&mut self, faults: Faults) {
        self.faults = faults;
        for node in self.nodes.iter().filter(|node| !node.is_safe) {
            node.disk.state().set_errors(faults.errors);
        }
    }

    /// Runs the nodes for so long, in turns of 10 ms.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            if self.now.as_millis().is_multiple_of(DECISION.as_millis()) {
                self.decide();
            }
            self.turn();
            self.now += TURN;
        }
    }

    /// Nothing goes wrong any more: nodes that are down start, stopped ones go on, and clocks are right.
    pub fn heal(&mut self) {
        self.faults(Faults::none());
        for node in 0..self.nodes.len() {
            self.set_clock(node, Duration::ZERO, Duration::ZERO);
            let node = &mut self.nodes[node];
            node.slow_until = None;
            node.disk.state().set_stall(None);
            match &mut node.state {
                NodeState::Down(until) | NodeState::Stands(.., until) => *until = self.now,
                NodeState::Runs(_) => {}
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

    /// What has gone wrong so far.
    #[must_use]
    pub fn struck(&self) -> Struck {
        let mut struck = self.struck;
        for node in &self.nodes {
            struck.not_done += node.disk.state().not_done;
            struck.answers_lost += node.disk.state().answers_lost;
        }
        struck
    }

    /// A number of what all nodes have asked of the journal, and when: two runs with the same one did the same.
    #[must_use]
    pub fn history(&self) -> u64 {
        self.history.digest()
    }

    /// Each node has its turn.
    fn turn(&mut self) {
        for number in 0..self.nodes.len() {
            let now = self.now;
            let node = &mut self.nodes[number];
            if node.slow_until.is_some_and(|until| until <= now) {
                node.slow_until = None;
                node.disk.state().set_stall(None);
            }
            match &node.state {
                NodeState::Down(until) if *until <= now => {
                    node.starts += 1;
                    let (name, disk) = (node.name.clone(), node.disk.clone());
                    let context = NodeContext { name, starts: node.starts, disk };
                    let seed = self.random.number();
                    let machine = Machine::start(&node.start, context, seed, node.wall(now));
                    node.state = NodeState::Runs(machine);
                }
                NodeState::Stands(.., until) if *until <= now => {
                    let state = std::mem::replace(&mut node.state, NodeState::Down(now));
                    if let NodeState::Stands(mut machine, since, _) = state {
                        machine.skip(now.saturating_sub(since));
                        node.state = NodeState::Runs(machine);
                    }
                }
                NodeState::Runs(_) | NodeState::Stands(..) | NodeState::Down(_) => {}
            }
            if let NodeState::Runs(machine) = &mut node.state {
                machine.run(TURN);
            }
        }
    }

    /// Decides what goes wrong now.
    fn decide(&mut self) {
        for number in 0..self.nodes.len() {
            let Faults { kills, stops, jumps, stalls, most_jump, most_stall, .. } = self.faults;
            let chances = [kills, stops, jumps, stalls].map(|rate| self.happens(rate));
            let node = &self.nodes[number];
            if node.is_safe || !matches!(node.state, NodeState::Runs(_)) {
                continue;
            }
            let [is_killed, is_stopped, jumps, stalls] = chances;
            if jumps {
                self.struck.jumps += 1;
                let by = self.random.within(most_jump);
                let (ahead, behind) =
                    if self.random.one_in(2) { (by, Duration::ZERO) } else { (Duration::ZERO, by) };
                self.set_clock(number, ahead, behind);
            }
            if stalls {
                self.struck.stalls += 1;
                let stall = self.random.within(most_stall);
                let node = &mut self.nodes[number];
                node.slow_until = Some(self.now + STALLED);
                node.disk.state().set_stall(Some(stall));
            }
            let until =
                self.now + self.random.within(if is_killed { MOST_DOWN } else { MOST_STOP });
            if is_killed {
                self.struck.kills += 1;
                self.struck.kills_in_flight += u32::from(self.has_requests());
                self.nodes[number].state = NodeState::Down(until);
            } else if is_stopped {
                self.struck.stops += 1;
                let node = &mut self.nodes[number];
                if let NodeState::Runs(machine) =
                    std::mem::replace(&mut node.state, NodeState::Down(until))
                {
                    node.state = NodeState::Stands(machine, self.now, until);
                }
            }
        }
    }

    fn has_requests(&self) -> bool {
        !self.requests(FlowState::Running).is_empty()
    }

    /// Whether an event of this rate, in events per second, happens in a second.
    fn happens(&mut self, rate: f64) -> bool {
        const PARTS: u32 = 1_000_000;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 0 and 1"
        )]
        let parts = (rate.clamp(0.0, 1.0) * f64::from(PARTS)) as usize;
        self.random.below(PARTS as usize) < parts
    }

    fn set_clock(&mut self, number: usize, ahead: Duration, behind: Duration) {
        let now = self.now;
        let node = &mut self.nodes[number];
        (node.ahead, node.behind) = (ahead, behind);
        let wall = node.wall(now);
        match &mut node.state {
            NodeState::Runs(machine) => machine.set_wall(wall),
            // it goes by its clock when it goes on
            NodeState::Stands(machine, since, _) => {
                machine.set_wall(wall - now.saturating_sub(*since));
            }
            NodeState::Down(_) => {}
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.nodes.iter().map(|node| &node.name).collect();
        f.debug_struct("Cluster")
            .field("nodes", &names)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
