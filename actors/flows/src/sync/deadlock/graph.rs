//! The wait-for graph around a wait.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use asyncsteps_core::Identity;

use super::watch::{GraphWait, Holders, WAITS};

/// The waits that can be reached from a wait, itself first.
pub(super) struct Graph {
    nodes: Vec<WaitNode>,
}

struct WaitNode {
    wait: Arc<GraphWait>,
    /// The holders of the mutex; `None` if one of them is assumed to make progress.
    holders: Option<Holders>,
    /// For each holder, the waits that block it.
    blocked_by: Vec<Vec<usize>>,
    /// Whether it can make progress, as far as is known.
    progresses: bool,
}

impl Graph {
    /// The shortest cycle that `wait` closes with waits of which `counts` is true.
    pub(super) fn cycle(
        wait: &Arc<GraphWait>,
        counts: impl Fn(&GraphWait) -> bool,
    ) -> Option<Vec<Arc<GraphWait>>> {
        loop {
            let mut graph = Self::around(wait, &counts);
            graph.mark_progress();
            let cycle = graph.shortest_cycle()?;
            if graph.is_unchanged() {
                return Some(cycle);
            }
        }
    }

    /// Gathers what can be reached from a wait.
    fn around(first: &Arc<GraphWait>, counts: &impl Fn(&GraphWait) -> bool) -> Self {
        let mut graph = Self { nodes: vec![WaitNode::new(first)] };
        let mut known = HashMap::new();
        let mut next = 0;
        while let Some(node) = graph.nodes.get(next) {
            let holders = node.holders.clone().unwrap_or_default();
            for Identity { flow, branch } in holders {
                let waits = WAITS.get(&flow).map(|waits| waits.clone()).unwrap_or_default();
                let blocked_by = waits
                    .iter()
                    .filter(|wait| wait.lineage.contains(&branch))
                    .filter(|wait| counts(wait))
                    .map(|wait| {
                        if Arc::ptr_eq(wait, first) {
                            return 0;
                        }
                        *known.entry(wait.number()).or_insert_with(|| {
                            graph.nodes.push(WaitNode::new(wait));
                            graph.nodes.len() - 1
                        })
                    })
                    .collect();
                graph.nodes[next].blocked_by.push(blocked_by);
            }
            next += 1;
        }
        graph
    }

    /// Marks the waits that can make progress: those with a holder that no stuck wait blocks.
    fn mark_progress(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            // the others wait for the node that was reached last
            for at in (0..self.nodes.len()).rev() {
                if !self.nodes[at].progresses && self.has_free_holder(at) {
                    self.nodes[at].progresses = true;
                    changed = true;
                }
            }
        }
    }

    fn has_free_holder(&self, at: usize) -> bool {
        let WaitNode { holders, blocked_by, .. } = &self.nodes[at];
        holders.is_none()
            || blocked_by.iter().any(|waits| waits.iter().all(|at| self.nodes[*at].progresses))
    }

    /// The shortest path from the first wait back to itself over stuck waits.
    fn shortest_cycle(&self) -> Option<Vec<Arc<GraphWait>>> {
        if self.nodes[0].progresses {
            return None;
        }
        let mut before = vec![None; self.nodes.len()];
        let mut queue = VecDeque::from([0]);
        while let Some(at) = queue.pop_front() {
            for &next in self.nodes[at].blocked_by.iter().flatten() {
                if next == 0 {
                    return Some(self.path(&before, at));
                }
                if before[next].is_none() && !self.nodes[next].progresses {
                    before[next] = Some(at);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// The path from the first wait to this one.
    fn path(&self, before: &[Option<usize>], last: usize) -> Vec<Arc<GraphWait>> {
        let steps = std::iter::successors(Some(last), |at| before[*at]);
        let mut path: Vec<_> = steps.map(|at| Arc::clone(&self.nodes[at].wait)).collect();
        path.reverse();
        path
    }

    /// Whether the stuck waits are still there, with the same holders: a holder that is blocked does not
    /// leave its mutex.
    fn is_unchanged(&self) -> bool {
        self.nodes
            .iter()
            .filter(|node| !node.progresses)
            .all(|node| node.wait.is_watched() && node.wait.resource.holders() == node.holders)
    }
}

impl WaitNode {
    fn new(wait: &Arc<GraphWait>) -> Self {
        let holders = wait.resource.holders();
        Self { wait: Arc::clone(wait), holders, blocked_by: Vec::new(), progresses: false }
    }
}
