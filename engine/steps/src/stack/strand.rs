//! One line of execution (FTN12 §1.1): its queue and its steps in progress.

use std::any::Any;
use std::mem;
use std::num::NonZeroU32;

use smallvec::SmallVec;

use super::shapes::{
    Activity, Branches, Flags, Frame, Queued, QueuedStep, RunningTemplate, StepExtras, StepFuture,
    Strand, TemplateRange,
};
use crate::args::Args;
use crate::location::StepLocation;
use crate::slot::{SlotId, index};

/// By how many steps a queue grows at least, so that a handful takes one allocation.
const GROWTH: usize = 8;

impl Strand {
    pub(crate) fn new(branch: u32) -> Self {
        Self {
            top: Frame::closed(),
            frames: Vec::new(),
            pending: SmallVec::new(),
            template: None,
            args: Args::none(),
            branch,
            runnable: true,
        }
    }

    /// Makes the strand of a branch that completed the strand of another branch.
    pub(crate) fn restart(&mut self, branch: u32, queued: Queued) {
        self.args = Args::none();
        self.branch = branch;
        self.runnable = true;
        self.enqueue(queued);
    }

    /// Appends to the queue of the current level.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, queued: Queued) {
        if self.pending.len() == self.pending.capacity() {
            self.pending.reserve(GROWTH);
        }
        self.pending.push(queued);
    }

    /// The step that was enqueued last.
    #[inline]
    pub(crate) fn last_added(&mut self) -> &mut QueuedStep {
        match self.pending.last_mut() {
            Some(Queued::Step(step)) => step,
            Some(Queued::Template(_)) | None => unreachable!("a step was just added"),
        }
    }

    /// Puts the steps added by the running callback into the order in which they are taken.
    #[inline]
    pub(crate) fn seal(&mut self, base: usize) {
        self.pending[base..].reverse();
    }

    /// Where the queue of the current level begins.
    #[inline]
    pub(crate) fn level_base(&self) -> usize {
        if self.top.flags.open {
            self.top.base()
        } else {
            self.frames.last().map_or(0, Frame::base)
        }
    }

    /// Starts a template at the current level, in front of what is left of its queue.
    pub(crate) fn push_template(&mut self, range: TemplateRange) {
        let (level, base) = (self.level(), index(self.pending.len()));
        let outer = self.template.take().map(Box::new);
        self.template = Some(RunningTemplate { range, level, base, outer });
    }

    /// Ends the innermost template; the one around it goes on.
    fn end_template(&mut self) {
        self.template =
            self.template.take().and_then(|template| template.outer).map(|outer| *outer);
    }

    /// Whether the next step of the current level comes from a template that is running.
    #[inline]
    pub(crate) fn runs_template(&self) -> bool {
        self.template.as_ref().is_some_and(|template| {
            template.level == self.level() && template.base as usize == self.pending.len()
        })
    }

    /// How many steps are around the steps of the current level.
    fn level(&self) -> u32 {
        self.depth() + u32::from(self.top.flags.open)
    }

    /// How many steps are around the innermost one.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        index(self.frames.len())
    }

    /// Drops the sub-steps of the innermost step that have not started.
    pub(crate) fn drop_pending(&mut self) {
        self.pending.truncate(self.top.base());
        let depth = self.depth();
        while self.template.as_ref().is_some_and(|template| template.level > depth) {
            self.end_template();
        }
    }

    /// Drops all steps that have not started, and the arguments of the next one.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        while self.template.is_some() {
            self.end_template();
        }
        self.args = Args::none();
    }

    /// Whether the innermost step is in progress and has no sub-steps.
    pub(crate) fn top_waits(&self) -> bool {
        self.top.flags.open && !self.has_substeps()
    }

    /// Whether the innermost step has sub-steps that have not started.
    #[inline]
    pub(crate) fn has_substeps(&self) -> bool {
        self.pending.len() > self.top.base()
    }

    /// Whether the innermost step is the one that a parallel branch consists of.
    #[inline]
    pub(crate) fn is_branch_step(&self) -> bool {
        self.branch != 0 && self.frames.is_empty()
    }

    /// Makes room on top for a sub-step of the innermost step.
    #[inline]
    pub(crate) fn descend(&mut self) {
        if self.top.flags.open {
            self.push_top();
        }
    }

    #[inline(never)]
    fn push_top(&mut self) {
        let outer = mem::replace(&mut self.top, Frame::closed());
        self.frames.push(outer);
    }

    /// Leaves the closed top for the step around it; `false` if there is none.
    #[inline]
    pub(crate) fn ascend(&mut self) -> bool {
        match self.frames.pop() {
            Some(outer) => {
                // a closed frame owns nothing, so its fields need not be looked at
                mem::forget(mem::replace(&mut self.top, outer));
                true
            }
            None => false,
        }
    }

    /// The branches of the parallel step on top.
    pub(crate) fn branches(&mut self) -> Option<&mut Branches> {
        match &mut self.top.activity {
            Activity::Parallel(branches) => Some(branches),
            Activity::Plain
            | Activity::Holding(_)
            | Activity::Waiting(_)
            | Activity::Looping(_)
            | Activity::Polling(_)
            | Activity::Undoing(_) => None,
        }
    }

    /// The steps in progress, outermost first.
    pub(crate) fn open_frames(&self) -> impl DoubleEndedIterator<Item = &Frame> {
        self.frames.iter().chain(self.top.flags.open.then_some(&self.top))
    }
}

impl Frame {
    #[inline]
    pub(super) fn closed() -> Self {
        Self {
            location: StepLocation::here(),
            activity: Activity::Plain,
            handler: None,
            wait: None,
            extras: None,
            base: 0,
            flags: Flags::default(),
        }
    }

    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Changes what the step does; gives what it did before.
    #[inline]
    pub(crate) fn replace_activity(&mut self, activity: Activity) -> Activity {
        mem::replace(&mut self.activity, activity)
    }

    /// The future that the step polls.
    #[inline]
    pub(crate) fn future(&mut self) -> Option<&mut StepFuture> {
        if let Activity::Polling(future) = &mut self.activity { Some(future) } else { None }
    }

    /// Takes the future that the step polls.
    #[inline]
    pub(crate) fn take_future(&mut self) -> Option<StepFuture> {
        if !matches!(self.activity, Activity::Polling(_)) {
            return None;
        }
        match mem::replace(&mut self.activity, Activity::Plain) {
            Activity::Polling(future) => Some(future),
            Activity::Plain
            | Activity::Holding(_)
            | Activity::Waiting(_)
            | Activity::Looping(_)
            | Activity::Parallel(_)
            | Activity::Undoing(_) => None,
        }
    }

    /// Whether ending the step needs more than forgetting it.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.wait.is_none() && self.extras.is_none() && matches!(self.activity, Activity::Plain)
    }

    #[inline]
    pub(crate) fn base(&self) -> usize {
        self.base as usize
    }

    pub(crate) fn extras(&mut self) -> &mut StepExtras {
        self.extras.get_or_insert_default()
    }

    /// Which attempt of the step is under way, if it is tried again.
    pub(crate) fn attempt(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.extras.as_ref()?.attempt)
    }

    /// The newest of the values made with `stack`.
    pub(crate) fn values(&self) -> Option<SlotId> {
        self.extras.as_ref()?.values
    }
}

impl Activity {
    /// The value that the step keeps.
    pub(crate) fn held(&self) -> Option<&dyn Any> {
        match self {
            Self::Holding(value) => Some(&**value),
            Self::Plain
            | Self::Waiting(_)
            | Self::Looping(_)
            | Self::Parallel(_)
            | Self::Polling(_)
            | Self::Undoing(_) => None,
        }
    }
}
