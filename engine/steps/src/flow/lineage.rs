//! What is around the running step, in its branch and in the branches around it: for objects that
//! must know what a wait would hold up (FTN12 §1.11.4, §1.11.5).

use std::num::NonZeroU64;

use super::level::{Frame, Strand};
use super::{AsyncSteps, FlowId, Identity};
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
        steps(self.frames_around())
    }

    /// The values of a type that the running step and the steps around it keep with
    /// [`stack`](Self::stack) or [`hold`](Self::hold), from the innermost step outwards, of each
    /// step the newest first (FTN12 §1.14).
    pub fn kept<T: 'static>(&self) -> impl Iterator<Item = &T> {
        self.frames_around()
            .flat_map(|frame| self.values_of(frame.values()).chain(frame.kind.held()))
            .filter_map(|value| value.downcast_ref())
    }

    /// The running step and the steps around it, from the innermost outwards.
    pub(super) fn frames_around(&self) -> impl Iterator<Item = &Frame> {
        self.frames_of(self.active(), &self.strand)
    }

    /// The steps in progress of the strand in this slot and those around them.
    pub(super) fn frames_of<'a>(
        &'a self,
        at: u32,
        strand: &'a Strand,
    ) -> impl Iterator<Item = &'a Frame> {
        let strands = std::iter::once(strand).chain(self.strands_around(at));
        strands.flat_map(|strand| strand.open_frames().rev())
    }
}

/// The places of steps; an iteration is the loop itself.
pub(super) fn steps<'a>(frames: impl Iterator<Item = &'a Frame>) -> impl Iterator<Item = Place> {
    frames.filter(|frame| !frame.flags.iteration).map(|frame| frame.place)
}

/// Bits of a branch in a packed identity: a million branches, which leaves room for more flows than
/// a process starts in a year.
const BRANCH_BITS: u32 = 20;

/// Bits of a packed identity: the highest one is left to the user.
const BITS: u32 = 63;

impl Identity {
    /// The identity as one number below 2^63, for objects that keep who holds them in one word;
    /// `None` for those that do not fit: flows after the first 8 trillion, and branches after the
    /// first million of a flow.
    #[must_use]
    pub fn to_bits(self) -> Option<NonZeroU64> {
        let (flow, branch) = (self.flow.0.get(), u64::from(self.branch));
        let fits = flow >> (BITS - BRANCH_BITS) == 0 && branch >> BRANCH_BITS == 0;
        if fits { NonZeroU64::new(flow << BRANCH_BITS | branch) } else { None }
    }

    /// The identity that gave this number; `None` if none did.
    #[must_use]
    pub fn from_bits(bits: NonZeroU64) -> Option<Self> {
        let flow = FlowId(NonZeroU64::new(bits.get() >> BRANCH_BITS)?);
        let branch = u32::try_from(bits.get() & ((1 << BRANCH_BITS) - 1)).ok()?;
        (bits.get() >> BITS == 0).then_some(Self { flow, branch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(flow: u64, branch: u32) -> Identity {
        Identity { flow: FlowId(NonZeroU64::new(flow).expect("not zero")), branch }
    }

    #[test]
    fn an_identity_that_fits_comes_back_from_its_bits() {
        let largest = identity((1 << 43) - 1, (1 << 20) - 1);
        for who in [identity(1, 0), identity(7, 3), largest] {
            assert_eq!(who.to_bits().and_then(Identity::from_bits), Some(who));
        }
        assert_eq!(largest.to_bits().map(|bits| bits.get() >> BITS), Some(0));
        assert_eq!(identity(1 << 43, 0).to_bits(), None);
        assert_eq!(identity(1, 1 << 20).to_bits(), None);
        assert_eq!(Identity::from_bits(NonZeroU64::MAX), None);
        assert_eq!(Identity::from_bits(NonZeroU64::MIN), None);
    }
}
