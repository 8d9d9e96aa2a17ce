//! Recorded events as a tree of steps.

use std::mem;
use std::time::Duration;

use asyncsteps_core::StepLocation;

use super::event::{Ending, Recorded, StepEvent, StepEventKind};

/// The steps of a recorded flow, as they are inside of each other.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StepTree {
    /// The outermost steps, in the order in which they began.
    pub steps: Vec<RecordedStep>,
}

/// A step that was recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedStep {
    /// Its name and source location.
    pub location: StepLocation,
    /// The flow: 0 for the first one, further ones undo it.
    pub flow: u32,
    /// The parallel branch, 0 for the root.
    pub branch: u32,
    /// Which attempt of it, or of a step around it, this was, from 1.
    pub attempt: u32,
    /// When it began, since the recording did.
    pub began: Duration,
    /// When and how it ended; `None` if it is in progress, or its end was lost.
    pub ended: Option<(Duration, Ending)>,
    /// The steps inside, in the order in which they began.
    pub steps: Vec<Self>,
}

impl Recorded {
    /// The steps, as they are inside of each other. Those whose beginning was lost are left out.
    #[must_use]
    pub fn tree(&self) -> StepTree {
        let mut builder = TreeBuilder::default();
        self.events.iter().for_each(|event| builder.read(event));
        builder.finish()
    }
}

impl RecordedStep {
    /// How long it took, or has taken when the recording was asked for.
    #[must_use]
    pub fn time(&self, length: Duration) -> Duration {
        let until = self.ended.as_ref().map_or(length, |(at, _)| *at);
        until.saturating_sub(self.began)
    }
}

/// A step with the number of the one around it.
struct StepNode {
    step: RecordedStep,
    depth: u32,
    around: Option<usize>,
}

/// Puts events together.
#[derive(Default)]
struct TreeBuilder {
    nodes: Vec<StepNode>,
    /// The steps that have not ended; within a branch the outer ones come first.
    open: Vec<usize>,
}

impl TreeBuilder {
    fn read(&mut self, event: &StepEvent) {
        let StepEvent { at, flow, branch, depth, .. } = *event;
        let is_in = |node: &StepNode| node.step.flow == flow && node.step.branch == branch;
        match &event.kind {
            StepEventKind::Began => {
                // one step at a time: the end of an earlier one was lost
                self.forget(|node| is_in(node) && node.depth >= depth);
                let around = self.innermost(flow, branch);
                let around = around.or_else(|| self.innermost(flow, event.parent));
                let StepEvent { location, attempt, .. } = *event;
                let (ended, steps) = (None, Vec::new());
                let began = at;
                let step = RecordedStep { location, flow, branch, attempt, began, ended, steps };
                self.open.push(self.nodes.len());
                self.nodes.push(StepNode { step, depth, around });
            }
            StepEventKind::Ended(ending) => {
                let is_it = |node: &StepNode| is_in(node) && node.depth == depth;
                let Some(place) = self.open.iter().rposition(|at| is_it(&self.nodes[*at])) else {
                    return;
                };
                let number = self.open.remove(place);
                self.nodes[number].step.ended = Some((at, ending.clone()));
            }
        }
    }

    fn innermost(&self, flow: u32, branch: u32) -> Option<usize> {
        let is_in = |step: &RecordedStep| step.flow == flow && step.branch == branch;
        self.open.iter().rev().copied().find(|at| is_in(&self.nodes[*at].step))
    }

    fn forget(&mut self, is_over: impl Fn(&StepNode) -> bool) {
        let Self { nodes, open } = self;
        open.retain(|at| !is_over(&nodes[*at]));
    }

    fn finish(self) -> StepTree {
        let mut tree = StepTree::default();
        let mut inside: Vec<Vec<RecordedStep>> = self.nodes.iter().map(|_| Vec::new()).collect();
        // steps come after those around them
        for (number, node) in self.nodes.into_iter().enumerate().rev() {
            let mut step = node.step;
            step.steps = mem::take(&mut inside[number]);
            step.steps.reverse();
            match node.around {
                Some(around) => inside[around].push(step),
                None => tree.steps.push(step),
            }
        }
        tree.steps.reverse();
        tree
    }
}
