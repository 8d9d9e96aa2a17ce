//! The order in which the strands of a flow go on (FTN12 §1.4).

use std::collections::VecDeque;

/// What to do when the active strand cannot go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StrandTurn {
    /// Go on with the strand in this slot, if it can.
    Resume(u32),
    /// Start the next branch of the parallel step on top of the strand in this slot.
    Start(u32),
}

/// When the active strand goes on, if it can go on.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ActiveTurn {
    /// Before all others.
    First,
    /// After all others.
    #[default]
    Last,
    /// When the queue says: it is in there.
    Queued,
}

/// The turns to come. Most flows have one at a time, which takes no allocation.
#[derive(Default)]
pub(crate) struct TurnQueue {
    first: Option<StrandTurn>,
    others: VecDeque<StrandTurn>,
}

impl TurnQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }

    pub(crate) fn push_back(&mut self, turn: StrandTurn) {
        if self.is_empty() {
            self.first = Some(turn);
        } else {
            self.others.push_back(turn);
        }
    }

    pub(crate) fn push_front(&mut self, turn: StrandTurn) {
        if let Some(second) = self.first.replace(turn) {
            self.others.push_front(second);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<StrandTurn> {
        self.first.take().or_else(|| self.others.pop_front())
    }

    /// The next turn, if it is known without a look at the queue behind it.
    pub(crate) fn peek(&self) -> Option<StrandTurn> {
        self.first
    }

    pub(crate) fn remove(&mut self, turn: StrandTurn) {
        self.first.take_if(|first| *first == turn);
        self.others.retain(|other| *other != turn);
    }
}
