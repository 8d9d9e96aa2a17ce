//! The strands and steps around a step (FTN12 §1.1, §1.4), and what every file needs of a flow.

use std::rc::Rc;
use std::sync::Arc;

use super::branch_path::BranchPath;
use super::shapes::{
    Activity, AsyncSteps, Callback, ColdState, Frame, PolicyState, Role, StepExtras, Strand,
};
use crate::error::StepResult;
use crate::inbox::FlowInbox;
use crate::location::StepLocation;
use crate::probe::{ProbedWork, StepProbe};
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
            polled: false,
            callback: Callback::None,
            done: false,
            burst: 0,
            now: Time::ZERO,
            moment: 0,
            inbox: None,
            cold: None,
            state: State::default(),
            id: None,
            last_error: None,
        }
    }

    /// A turn began, or a callback ran: the observer's next event is at another moment.
    #[inline]
    pub(crate) fn time_passed(&mut self) {
        self.moment = self.moment.wrapping_add(1);
    }

    pub(crate) fn cold(&mut self) -> &mut ColdState {
        self.cold.get_or_insert_default()
    }

    /// The extras of the step on top. If it has none yet, they reuse the room of the extras that
    /// were dropped last: steps with a time limit follow each other.
    pub(crate) fn extras(&mut self) -> &mut StepExtras {
        let room = self.cold.as_mut().map(|cold| &mut cold.extras);
        let extras = &mut self.strand.top.extras;
        extras.get_or_insert_with(|| room.and_then(Option::take).unwrap_or_default())
    }

    /// The step on top is a part of the step around it, such as its critical section: the steps inside of both are
    /// inside of this one, so the replay hooks of that step are asked and notified here.
    pub(crate) fn take_memory_over(&mut self) {
        let around = self.strand.frames.last_mut().and_then(|step| step.extras.as_mut());
        let taken = around.and_then(|around| Some((around.memory.take()?, around.memory_levels)));
        if let Some((memory, levels)) = taken {
            let extras = self.extras();
            extras.memory = Some(memory);
            extras.memory_levels = levels + 1;
        }
    }

    /// Drops the extras of the step on top.
    pub(crate) fn drop_extras(&mut self) {
        let extras = self.strand.top.extras.take();
        if let (Some(mut extras), Some(cold)) = (extras, &mut self.cold) {
            *extras = StepExtras::default();
            cold.extras = Some(extras);
        }
    }

    #[inline]
    pub(crate) fn policy_state(&mut self) -> &mut PolicyState {
        self.cold().policies.get_or_insert_default()
    }

    /// [`policy_state`](Self::policy_state), if there is one.
    #[inline]
    pub(crate) fn own_policy_state(&self) -> Option<&PolicyState> {
        self.cold.as_ref()?.policies.as_deref()
    }

    /// Whether the flow runs a part of another one: undos, or the body of a shielded step.
    pub(crate) fn is_part(&self) -> bool {
        let policies = self.own_policy_state();
        policies.is_some_and(|policies| policies.undoes.is_some() || policies.is_shield)
    }

    /// The probe of a test; a flow that undoes another one has the probe of that flow.
    #[inline]
    pub(crate) fn probe(&self) -> Option<&Rc<dyn StepProbe>> {
        self.cold.as_ref()?.probe.as_ref()
    }

    /// Asks the probe of a simulation, if there is one, before the running step does its work.
    ///
    /// # Errors
    /// The fault that the simulation puts in its place.
    #[inline]
    pub(crate) fn ask_probe(&self, is_planned: impl FnOnce() -> bool) -> StepResult {
        match self.probe().filter(|_| !self.is_part()) {
            Some(probe) => {
                self.ask(&**probe, if is_planned() { ProbedWork::Plan } else { ProbedWork::Body })
            }
            None => Ok(()),
        }
    }

    /// [`ask_probe`](Self::ask_probe) for the body of a step that has policies.
    pub(crate) fn ask_probe_of_body(&self) -> StepResult {
        match self.probe().filter(|_| !self.is_part()) {
            Some(probe) => Ok(probe.ask(self.location(), ProbedWork::Body)?),
            None => Ok(()),
        }
    }

    /// A part of a step, such as one attempt, has the location of its step, and asks for itself.
    #[cold]
    fn ask(&self, probe: &dyn StepProbe, work: ProbedWork) -> StepResult {
        let mut locations = self.locations();
        let step = locations.next();
        match step.filter(|step| locations.next() != Some(*step)) {
            Some(step) => Ok(probe.ask(step, work)?),
            None => Ok(()),
        }
    }

    /// Whether a step of the flow can be undone, or is being undone, or has ended before its body.
    #[inline]
    pub(crate) fn has_undos(&self) -> bool {
        self.own_policy_state().is_some_and(|policies| {
            !policies.undos.is_empty()
                || policies.undo.strong_count() > 0
                || !policies.alone.is_empty()
        })
    }

    pub(crate) fn inbox(&mut self) -> &Arc<FlowInbox> {
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

    /// The branch that the running step is in.
    #[inline]
    pub(crate) fn branch_path(&self) -> BranchPath {
        if self.active() == 0 { BranchPath::default() } else { self.path_of_branch() }
    }

    fn path_of_branch(&self) -> BranchPath {
        let parents = self.strands_around(self.active()).filter_map(|parent| {
            let Activity::Parallel(branches) = parent.top.activity() else { return None };
            Some((branches.number, parent.branch))
        });
        let mut branch = self.strand.branch;
        BranchPath::from_innermost(
            parents.map(|(first, parent)| (first, std::mem::replace(&mut branch, parent))),
        )
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
    frames.filter(|frame| !frame.flags.is(Role::Iteration)).map(Frame::location)
}

/// The locations of steps that come innermost first, outermost first.
pub(crate) fn outermost_first(locations: impl Iterator<Item = StepLocation>) -> Vec<StepLocation> {
    let mut locations: Vec<StepLocation> = locations.collect();
    locations.reverse();
    locations
}
