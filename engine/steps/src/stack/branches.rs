//! The branches of one parallel step (FTN12 §1.4): which have started, and which have ended.

use smallvec::SmallVec;

use super::shapes::{ParallelBranches, QueueItem, Unstarted};
use crate::slot::index;

/// A branch that starts.
pub(crate) struct NextBranch {
    pub(crate) step: QueueItem,
    /// Its position among the branches of the parallel step.
    pub(crate) position: usize,
    /// Its number in the flow.
    pub(crate) number: u32,
    /// Whether no branch of the step is left to start.
    pub(crate) is_last: bool,
}

impl ParallelBranches {
    pub(crate) fn new(unstarted: Unstarted) -> Self {
        let running = unstarted.len();
        Self { unstarted, strands: SmallVec::new(), running, first: 0, number: 0 }
    }

    /// The next branch, for the strand in the slot `strand`.
    pub(crate) fn start_next(&mut self, strand: u32) -> Option<NextBranch> {
        let step = self.unstarted.next()?;
        let position = self.strands.len();
        self.strands.push(Some(strand));
        let is_last = self.unstarted.len() == 0;
        Some(NextBranch { step, position, number: self.number + index(position), is_last })
    }

    /// Ends the branch at this position.
    pub(crate) fn end(&mut self, position: usize) {
        if let Some(strand) = self.strands.get_mut(position) {
            *strand = None;
            self.running -= 1;
        }
    }

    /// The strand of the first branch that is not over.
    pub(crate) fn first_running(&mut self) -> Option<u32> {
        while let Some(strand) = self.strands.get(self.first) {
            if strand.is_some() {
                return *strand;
            }
            self.first += 1;
        }
        None
    }
}

impl Unstarted {
    pub(crate) fn none() -> Self {
        Self::Own(Vec::new().into_iter())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Own(steps) => steps.len(),
            Self::Shared(range) => range.len(),
        }
    }

    fn next(&mut self) -> Option<QueueItem> {
        match self {
            Self::Own(steps) => steps.next().map(QueueItem::Step),
            Self::Shared(range) => range.split_next().map(QueueItem::Template),
        }
    }
}
