//! The running step and the steps around it, in its branch and in the branches around that: for
//! locks, which must know what a wait would hold up (FTN12 §1.11.4, §1.11.5), and for what steps find around them.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use crate::location::StepLocation;
use crate::stack::{self, AsyncSteps, Frame, outermost_first};

impl AsyncSteps {
    /// The branches that cannot end before the running step: its own, then the branch whose
    /// parallel step started that one, and so on to the root, 0 (FTN12 §1.4).
    pub fn lineage(&self) -> impl Iterator<Item = u32> {
        let around = self.strands_around(self.active());
        std::iter::once(&self.strand).chain(around).map(|strand| strand.branch)
    }

    /// Whether a time limit will end the running step: one that it has set itself, or that a
    /// step around it has (FTN12 §2.2.2 `setTimeout`). One that its [host](crate::replay::ReplayHooks::is_lifted) has
    /// lifted will not.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.frames_around().any(Frame::is_limited)
    }

    /// Whether the limit has passed of the step that [ends the flow](crate::Added::ends_flow_after).
    #[must_use]
    pub fn is_ended_by_limit(&self) -> bool {
        self.own_policy_state().is_some_and(|policies| policies.leaves_undos)
    }

    /// The locations of the running step and of the steps around it, innermost first
    /// (FTN12 §1.7 `async_stack`).
    pub fn locations(&self) -> impl Iterator<Item = StepLocation> {
        stack::locations(self.frames_around())
    }

    /// The locations of the steps in progress, outermost first (FTN12 §1.7 `async_stack`).
    #[must_use]
    pub fn async_stack(&self) -> Vec<StepLocation> {
        outermost_first(self.locations())
    }

    /// The values of a type that the running step and the steps around it keep with
    /// [`stack`](Self::stack) or [`hold`](Self::hold): innermost step first, of each step the
    /// newest value first (FTN12 §1.14).
    pub fn kept<T: 'static>(&self) -> impl Iterator<Item = &T> {
        self.frames_around().flat_map(|frame| self.kept_by(frame))
    }

    /// The values of a type that a step keeps, the newest first.
    pub(crate) fn kept_by<'a, T: 'static>(
        &'a self,
        frame: &'a Frame,
    ) -> impl Iterator<Item = &'a T> {
        let values = self.cold.iter().flat_map(|cold| cold.values.linked(frame.values()));
        values.chain(frame.activity().held()).filter_map(|value| value.downcast_ref())
    }
}

/// A value that the steps inside of a step find, however deep they are and in which branch, for libraries that write
/// steps for their users.
impl AsyncSteps {
    /// The steps inside of the running one find this, in place of what surrounds it.
    pub fn surround(&mut self, with: Rc<dyn Any>) {
        self.extras().surroundings = Some(with);
    }

    /// What the innermost step around the running one has [surrounded](Self::surround) its steps with; `None` also if that
    /// has another type.
    #[must_use]
    #[inline]
    pub fn surroundings<T: 'static>(&self) -> Option<Rc<T>> {
        self.any_surroundings()?.downcast().ok()
    }

    #[inline]
    pub(crate) fn any_surroundings(&self) -> Option<Rc<dyn Any>> {
        let of_frame = |frame: &Frame| frame.extras.as_ref()?.surroundings.clone();
        let mut around = self.strand.frames.iter().rev();
        let found = around.find_map(of_frame);
        let found = found.or_else(|| self.frames_around().skip(1).find_map(of_frame));
        // the body of a shielded step is alone in its flow
        found.or_else(|| of_frame(&self.strand.top))
    }
}

impl fmt::Debug for AsyncSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncSteps")
            .field("stack", &self.async_stack())
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
