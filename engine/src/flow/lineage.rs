//! What is around the running step, in its branch and in the branches around it: for objects that
//! must know what a wait would hold up (FTN12 §1.11.4, §1.11.5).

use super::AsyncSteps;
use super::level::Frame;
use crate::place::Place;

impl AsyncSteps {
    /// The branches that cannot end before the running step: its own, then the branch whose
    /// parallel step started that one, and so on to the root, 0 (FTN12 §1.4).
    pub fn lineage(&self) -> impl Iterator<Item = u32> {
        std::iter::once(&self.strand).chain(self.outer_strands()).map(|strand| strand.branch)
    }

    /// Whether a time limit ends the running step some day: one that it has set itself, or that a
    /// step around it has (FTN12 §2.2.2 `setTimeout`).
    #[must_use]
    pub fn is_limited(&self) -> bool {
        let mut rare = self.frames_around().filter_map(|frame| frame.rare.as_ref());
        rare.any(|rare| rare.timers.has_limit())
    }

    /// The places of the running step and of the steps around it, from the innermost outwards
    /// (FTN12 §1.7 `async_stack`).
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.frames_around().filter(|frame| !frame.flags.iteration).map(|frame| frame.place)
    }

    /// The values of a type that the running step and the steps around it keep with
    /// [`stack`](Self::stack) or [`hold`](Self::hold), from the innermost step outwards, of each
    /// step the newest first (FTN12 §1.14).
    pub fn kept<T: 'static>(&self) -> impl Iterator<Item = &T> {
        self.frames_around()
            .flat_map(|frame| self.values_of(frame.values()).chain(frame.kind.held()))
            .filter_map(|value| value.downcast_ref())
    }

    fn frames_around(&self) -> impl Iterator<Item = &Frame> {
        let strands = std::iter::once(&self.strand).chain(self.outer_strands());
        strands.flat_map(|strand| strand.open_frames().rev())
    }
}
