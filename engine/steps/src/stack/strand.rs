//! One line of execution (FTN12 §1.1): its queue and its steps in progress.

use std::any::Any;
use std::mem;
use std::num::NonZeroU32;
use std::panic::Location;
use std::rc::Rc;

use smallvec::SmallVec;
use thin_vec::ThinVec;

use super::shapes::{
    About, Activity, Flags, Frame, Handler, ParallelBranches, QueueItem, QueuedStep, Retrying,
    Role, StepExtras, StepFuture, Strand, TemplateRange, UndoOfFrame,
};
use super::timers::Purpose;
use crate::args::Args;
use crate::location::StepLocation;
use crate::slot::{SlotId, index};

/// How many steps a queue in an allocation has room for at least, so that a handful takes one.
const LEAST_ROOM: usize = 16;

/// The description of no step.
const NOTHING: About = About::Place(Location::caller());

impl Strand {
    pub(crate) fn new(branch: u32) -> Self {
        Self {
            top: Frame::closed(),
            frames: ThinVec::new(),
            pending: SmallVec::new(),
            args: Args::none(),
            branch,
            runnable: true,
        }
    }

    /// Makes the strand of a branch that completed the strand of another branch.
    pub(crate) fn restart(&mut self, branch: u32, queued: QueueItem) {
        self.args = Args::none();
        self.branch = branch;
        self.runnable = true;
        self.enqueue(queued);
    }

    /// Appends to the queue of the current level.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, queued: QueueItem) {
        if self.pending.len() == self.pending.capacity() {
            self.grow();
        }
        self.pending.push(queued);
    }

    #[cold]
    fn grow(&mut self) {
        self.pending.grow(LEAST_ROOM.max(2 * self.pending.len()));
    }

    /// Takes the queue back into the flow if it fits, because the flow may wait for long. In a loop it
    /// would grow again in each iteration.
    #[inline]
    pub(crate) fn shrink(&mut self) {
        if self.pending.spilled() {
            self.shrink_spilled();
        }
    }

    #[cold]
    fn shrink_spilled(&mut self) {
        let is_loop = |frame: &Frame| matches!(frame.activity, Activity::Looping(_));
        if self.pending.len() <= self.pending.inline_size() && !self.frames.iter().any(is_loop) {
            self.pending.shrink_to_fit();
        }
    }

    /// The step that was enqueued last.
    #[inline]
    pub(crate) fn last_added(&mut self) -> &mut QueuedStep {
        match self.pending.last_mut() {
            Some(QueueItem::Step(step)) => step,
            Some(QueueItem::Template(_)) | None => unreachable!("a step was just added"),
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
        if self.top.flags.is_open() {
            self.top.base()
        } else {
            self.frames.last().map_or(0, Frame::base)
        }
    }

    /// Keeps the place of a template in the queue, while the machine calls its steps; returns its
    /// position.
    #[inline]
    pub(crate) fn reserve_template(&mut self) -> usize {
        let at = self.pending.len();
        self.pending.push(QueueItem::Template(TemplateRange { steps: None, next: 0, end: 0 }));
        at
    }

    /// Puts a template back into its place in the queue.
    #[inline]
    pub(crate) fn return_template(&mut self, at: usize, range: TemplateRange) {
        if let Some(queued) = self.pending.get_mut(at) {
            // its place owns nothing
            mem::forget(mem::replace(queued, QueueItem::Template(range)));
        }
    }

    /// The template whose step is on top, if it is a step of one.
    pub(crate) fn template_of_top(&self) -> Option<&TemplateRange> {
        match self.pending.get(self.top.base().checked_sub(1)?)? {
            QueueItem::Template(range) => Some(range),
            QueueItem::Step(_) => None,
        }
    }

    /// How many steps are around the innermost one.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        index(self.frames.len())
    }

    /// Drops the sub-steps of the innermost step that have not started.
    pub(crate) fn drop_pending(&mut self) {
        self.pending.truncate(self.top.base());
    }

    /// Drops all steps that have not started, and the arguments of the next one.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.args = Args::none();
    }

    /// Whether the innermost step is in progress and has no sub-steps.
    pub(crate) fn top_waits(&self) -> bool {
        self.top.flags.is_open() && !self.has_substeps()
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
        if self.top.flags.is_open() {
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
    pub(crate) fn branches(&mut self) -> Option<&mut ParallelBranches> {
        match &mut self.top.activity {
            Activity::Parallel(branches) => Some(branches),
            Activity::Plain
            | Activity::Holding(_)
            | Activity::Waiting(_)
            | Activity::Looping(_)
            | Activity::Polling(_)
            | Activity::Retrying(_)
            | Activity::Undoing(_) => None,
        }
    }

    /// Whether the innermost step is an attempt that failed and is followed by another one.
    pub(crate) fn is_retried(&self) -> bool {
        self.top.flags.is(Role::Attempt)
            && self.frames.last().and_then(Frame::attempts).is_some_and(|it| it.is_due())
    }

    /// The level of what the innermost step would have to undo, or the step that it is a part of.
    #[inline]
    pub(crate) fn undo_level(&self) -> Option<u32> {
        if self.top.flags.undo == UndoOfFrame::Own {
            return Some(self.depth() + 1);
        }
        let mut around = self.frames.iter();
        around.rposition(|step| step.flags.undo == UndoOfFrame::Own).map(|at| index(at) + 1)
    }

    /// The attempts of the step whose undo is notified about the innermost step's future, if it has retries itself.
    pub(crate) fn attempts(&self) -> Option<&Rc<dyn Retrying>> {
        let is_own = |step: &Frame| step.flags.undo == UndoOfFrame::Own;
        if is_own(&self.top) {
            return None;
        }
        let mut around = self.frames.iter().rev();
        around.find(|step| is_own(step) || step.attempts().is_some())?.attempts()
    }

    /// The steps in progress, outermost first.
    pub(crate) fn open_frames(&self) -> impl DoubleEndedIterator<Item = &Frame> {
        self.frames.iter().chain(self.top.flags.is_open().then_some(&self.top))
    }
}

impl Flags {
    pub(crate) fn of(role: Role) -> Self {
        Self { role, ..Self::default() }
    }

    /// Whether the step is in progress.
    #[inline]
    pub(crate) fn is_open(self) -> bool {
        self.role != Role::Room
    }

    #[inline]
    pub(crate) fn is(self, role: Role) -> bool {
        self.role == role
    }
}

impl Frame {
    /// Whether a time limit of the step ends it.
    pub(crate) fn is_limited(&self) -> bool {
        let Some(extras) = &self.extras else { return false };
        let is_lifted =
            || extras.limited.as_ref().is_some_and(|(memory, limit)| memory.is_lifted(*limit));
        let has_limit = |purpose| extras.timers.has(purpose);
        has_limit(Purpose::Limit) || has_limit(Purpose::HardLimit) && !is_lifted()
    }

    #[inline]
    pub(super) fn closed() -> Self {
        Self {
            about: NOTHING,
            activity: Activity::Plain,
            wait: None,
            extras: None,
            base: 0,
            flags: Flags::default(),
        }
    }

    /// Where the step was added, and its name.
    #[inline]
    pub(crate) fn location(&self) -> StepLocation {
        self.about.location()
    }

    /// The description of a part of the step.
    pub(crate) fn about_part(&self) -> About {
        self.about.of_part()
    }

    /// Says what step it is.
    #[inline]
    pub(crate) fn describe(&mut self, about: About) {
        // a closed frame has none to drop
        mem::forget(mem::replace(&mut self.about, about));
    }

    /// Drops the error handler and forgets the name.
    #[inline]
    pub(crate) fn drop_description(&mut self) {
        if !matches!(self.about, About::Place(_)) {
            self.about = NOTHING;
        }
    }

    pub(crate) fn take_handler(&mut self) -> Option<Handler> {
        self.about.take_handler()
    }

    pub(crate) fn set_handler(&mut self, handler: Handler) {
        self.about.set_handler(handler);
    }

    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Replaces the activity of the step; returns the earlier one.
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
            | Activity::Retrying(_)
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

    /// The attempts of the step, if it is tried again.
    pub(crate) fn attempts(&self) -> Option<&Rc<dyn Retrying>> {
        if let Activity::Retrying(attempts) = &self.activity { Some(attempts) } else { None }
    }

    /// The current attempt of the step, if it has retries.
    #[inline]
    pub(crate) fn attempt(&self) -> Option<NonZeroU32> {
        match self.attempts() {
            Some(attempts) => NonZeroU32::new(attempts.attempt()),
            None => NonZeroU32::new(self.extras.as_ref()?.attempt),
        }
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
            | Self::Retrying(_)
            | Self::Undoing(_) => None,
        }
    }
}
