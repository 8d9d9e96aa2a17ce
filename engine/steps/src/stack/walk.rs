//! The strands and steps around a step (FTN12 §1.1, §1.4), and what every file needs of a flow.

use std::sync::Arc;

use super::shapes::{AsyncSteps, Callback, ColdState, Frame, PolicyState, Strand};
use crate::inbox::Inbox;
use crate::location::StepLocation;
use crate::state::State;
use crate::time::Time;

impl AsyncSteps {
    /// The interface of a root without steps.
    #[inline]
    pub(crate) fn root() -> Self {
        Self {
            strand: Strand::new(0),
            raised: None,
            completed: false,
            callback: Callback::None,
            done: false,
            burst: 0,
            now: Time::ZERO,
            inbox: None,
            cold: None,
            state: State::default(),
            id: None,
            last_error: None,
        }
    }

    pub(crate) fn cold(&mut self) -> &mut ColdState {
        self.cold.get_or_insert_default()
    }

    pub(crate) fn policy_state(&mut self) -> &mut PolicyState {
        self.cold().policies.get_or_insert_default()
    }

    /// [`policy_state`](Self::policy_state), if there is one.
    pub(crate) fn own_policy_state(&self) -> Option<&PolicyState> {
        self.cold.as_ref()?.policies.as_deref()
    }

    /// Whether a step of the flow can be undone.
    #[inline]
    pub(crate) fn has_undos(&self) -> bool {
        self.own_policy_state().is_some_and(|policies| !policies.undos.is_empty())
    }

    pub(crate) fn inbox(&mut self) -> &Arc<Inbox> {
        self.inbox.get_or_insert_default()
    }

    /// The slot of the active strand.
    #[inline]
    pub(crate) fn active(&self) -> u32 {
        self.cold.as_ref().map_or(0, |cold| cold.strands.active)
    }

    /// All strands and their slots.
    pub(crate) fn strands(&self) -> impl Iterator<Item = (u32, &Strand)> {
        let parked = self.cold.iter().flat_map(|cold| cold.strands.parked());
        std::iter::once((self.active(), &self.strand)).chain(parked)
    }

    /// The strands whose parallel steps the strand in this slot belongs to, innermost first.
    pub(crate) fn strands_around(&self, mut id: u32) -> impl Iterator<Item = &Strand> {
        std::iter::from_fn(move || {
            let strands = &self.cold.as_ref()?.strands;
            if id == 0 {
                return None;
            }
            (id, _) = strands.parent_and_position(id)?;
            if id == strands.active { Some(&self.strand) } else { strands.get(id) }
        })
    }

    /// The steps in progress of the strand in this slot and those around them, innermost first.
    pub(crate) fn frames_of<'a>(
        &'a self,
        id: u32,
        strand: &'a Strand,
    ) -> impl Iterator<Item = &'a Frame> {
        let strands = std::iter::once(strand).chain(self.strands_around(id));
        strands.flat_map(|strand| strand.open_frames().rev())
    }

    /// The running step and the steps around it, innermost first.
    pub(crate) fn frames_around(&self) -> impl Iterator<Item = &Frame> {
        self.frames_of(self.active(), &self.strand)
    }
}

/// The locations of steps; an iteration is the loop itself.
pub(crate) fn locations<'a>(
    frames: impl Iterator<Item = &'a Frame>,
) -> impl Iterator<Item = StepLocation> {
    frames.filter(|frame| !frame.flags.iteration).map(|frame| frame.location)
}

/// The locations of steps that come innermost first, outermost first.
pub(crate) fn outermost_first(locations: impl Iterator<Item = StepLocation>) -> Vec<StepLocation> {
    let mut locations: Vec<StepLocation> = locations.collect();
    locations.reverse();
    locations
}
