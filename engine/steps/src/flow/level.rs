//! The step stack (FTN12 §1.1): what runs, what waits around it, and what comes next.
//!
//! A [`Strand`] is one line of execution: the root has one, and so has each parallel branch.
//! Only the running step can add steps, so the queues of all levels fit into one vector: those of
//! a step lie above its `base`, in reverse order, so that the next one is the last one.

use std::any::Any;
use std::borrow::Cow;
use std::mem;
use std::num::NonZeroU32;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;
use std::vec;

use smallvec::SmallVec;

use super::timers::StepTimers;
use super::{AsyncSteps, Awaitable};
use crate::args::Args;
use crate::completion::WaitKey;
use crate::error::{Error, StepResult};
use crate::place::Place;
use crate::sync::SyncStep;
use crate::template::TemplateStep;

pub(crate) type Body = Box<dyn FnOnce(&mut AsyncSteps, Args) -> StepResult>;
pub(crate) type Handler = Box<dyn FnOnce(&mut AsyncSteps, &Error) -> StepResult>;
pub(crate) type CancelHandler = Box<dyn FnOnce(&mut AsyncSteps) -> StepResult>;
pub(crate) type StepFuture = Pin<Box<dyn Future<Output = Result<Args, Error>>>>;

/// By how many steps a queue grows at least, so that a handful takes one allocation.
const GROWTH: usize = 8;

/// Steps of a template, shared by all of its flows.
pub(crate) type SharedSteps = Arc<[Arc<TemplateStep>]>;

/// The body of a loop: one call is one iteration, `None` is the normal end.
pub(crate) trait Iterate {
    fn label(&self) -> Option<&str>;
    fn set_label(&mut self, label: Cow<'static, str>);
    fn iterate(&mut self, asi: &mut AsyncSteps) -> Option<StepResult>;
}

/// A step, or a run of template steps, that has not started.
pub(crate) enum Entry {
    Step { body: Body, handler: Option<Handler>, location: &'static Location<'static> },
    Special(Special),
}

/// An [`Entry`] that is no plain step; an enum of its own, so that both together take no more room
/// than a step.
pub(crate) enum Special {
    Loop {
        body: Box<dyn Iterate>,
        location: &'static Location<'static>,
    },
    Parallel(Box<Branches>),
    Sync(Box<dyn SyncStep>),
    /// An entry with a name; few have one, so the others do not make room for it.
    Named(Box<(Entry, &'static str)>),
    /// Steps `next..end` of a template. The steps are taken out while one of them is started.
    Template {
        steps: Option<SharedSteps>,
        next: u32,
        end: u32,
    },
}

/// One step in progress.
pub(crate) struct Frame {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    pub(crate) handler: Option<Handler>,
    /// How external completions name the wait of this step.
    pub(crate) wait: Option<WaitKey>,
    pub(crate) rare: Option<Box<Rare>>,
    /// The sub-steps are `pending[base..]`.
    pub(crate) base: u32,
    pub(crate) flags: Flags,
}

/// What few steps have, so that the others do not make room for it.
#[derive(Default)]
pub(crate) struct Rare {
    pub(crate) cancel: Option<CancelHandler>,
    pub(crate) timers: StepTimers,
    /// The last of the values made with `stack`, a slot of [`Values`](super::values::Values).
    pub(crate) values: Option<SlotId>,
}

/// Facts about a [`Frame`]; most steps have none of them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flags {
    /// The step is in progress; a closed frame is only room for the next step.
    pub(crate) open: bool,
    /// The error handler is that of the template step below `base`.
    pub(crate) template: bool,
    /// No implicit success (FTN12 §1.6).
    pub(crate) waits: bool,
    /// One iteration of the loop whose frame is the next one out.
    pub(crate) iteration: bool,
}

/// What a step in progress does beside waiting for its sub-steps.
pub(crate) enum Kind {
    Step,
    /// It keeps a value until it is over: a lock.
    Holding(Box<dyn Any>),
    /// It waits for something that can describe itself.
    Waiting(Arc<dyn Awaitable>),
    Loop(Box<dyn Iterate>),
    Parallel(Box<Branches>),
    Await(Box<Awaited>),
}

impl Kind {
    /// The value that the step keeps.
    pub(crate) fn held(&self) -> Option<&dyn Any> {
        match self {
            Self::Holding(value) => Some(&**value),
            Self::Step | Self::Waiting(_) | Self::Loop(_) | Self::Parallel(_) | Self::Await(_) => {
                None
            }
        }
    }
}

/// The branches of a parallel step.
pub(crate) struct Branches {
    /// Of the parallel step, until it starts.
    pub(crate) handler: Option<Handler>,
    pub(crate) location: &'static Location<'static>,
    pub(crate) unstarted: Unstarted,
    /// The strand of each branch that started, in the order added; `None` once it is over.
    pub(crate) strands: SmallVec<[Option<u32>; 4]>,
    /// How many branches are not over.
    pub(crate) running: usize,
    /// All branches before this one are over.
    pub(crate) first: usize,
    /// Names the first branch; the others follow.
    pub(crate) number: u32,
}

/// A branch that starts.
pub(crate) struct NextBranch {
    pub(crate) entry: Entry,
    /// Its position in its parallel step, and its name in the flow.
    pub(crate) position: usize,
    pub(crate) number: u32,
    /// Whether no branch of the step is left to start.
    pub(crate) is_last: bool,
}

/// What the branches do that have not started, in the order added.
pub(crate) enum Unstarted {
    Own(vec::IntoIter<Entry>),
    /// Steps `next..end` of a template.
    Shared {
        steps: SharedSteps,
        next: u32,
        end: u32,
    },
}

/// A future that a step polls.
pub(crate) struct Awaited {
    pub(crate) future: StepFuture,
    pub(crate) waker: Waker,
}

/// One line of execution.
pub(crate) struct Strand {
    /// The innermost step in progress, or room for the next step.
    pub(crate) top: Frame,
    /// The steps around `top`, outermost first.
    pub(crate) frames: Vec<Frame>,
    pub(crate) pending: SmallVec<[Entry; 3]>,
    /// The result of the last step: the arguments of the next one.
    pub(crate) args: Args,
    /// Which branch of the flow this is, 0 for the root; never used twice in a flow.
    pub(crate) branch: u32,
    /// Whether there is something to do without outside help.
    pub(crate) runnable: bool,
}

impl Entry {
    pub(crate) fn template(steps: Option<SharedSteps>, next: u32, end: u32) -> Self {
        Self::Special(Special::Template { steps, next, end })
    }

    pub(crate) fn set_handler(&mut self, new: Handler) {
        match self {
            Self::Step { handler, .. } => *handler = Some(new),
            Self::Special(Special::Parallel(branches)) => branches.handler = Some(new),
            Self::Special(Special::Sync(step)) => step.set_handler(new),
            Self::Special(Special::Named(named)) => named.0.set_handler(new),
            // loops and templates are not given a handler
            Self::Special(Special::Loop { .. } | Special::Template { .. }) => {}
        }
    }

    pub(crate) fn set_label(&mut self, label: Cow<'static, str>) {
        match self {
            Self::Special(Special::Loop { body, .. }) => body.set_label(label),
            Self::Special(Special::Named(named)) => named.0.set_label(label),
            Self::Step { .. } | Self::Special(_) => {}
        }
    }

    pub(crate) fn set_name(&mut self, name: &'static str) {
        if let Self::Special(Special::Named(named)) = self {
            named.1 = name;
            return;
        }
        let entry = mem::replace(self, Self::template(None, 0, 0));
        *self = Self::Special(Special::Named(Box::new((entry, name))));
    }

    pub(crate) fn place(&self) -> Place {
        match self {
            Self::Step { location, .. } | Self::Special(Special::Loop { location, .. }) => {
                Place::at(location)
            }
            Self::Special(Special::Parallel(branches)) => Place::at(branches.location),
            Self::Special(Special::Sync(step)) => Place::at(step.location()),
            Self::Special(Special::Named(named)) => named.0.place().with_name(named.1),
            // only what was added one by one is asked for its place
            Self::Special(Special::Template { .. }) => Place::here(),
        }
    }
}

impl Branches {
    pub(crate) fn new(unstarted: Unstarted, location: &'static Location<'static>) -> Self {
        let (running, strands) = (unstarted.len(), SmallVec::new());
        Self { handler: None, location, unstarted, strands, running, first: 0, number: 0 }
    }

    /// The next branch, for the strand `at`.
    pub(crate) fn start_next(&mut self, at: u32) -> Option<NextBranch> {
        let entry = self.unstarted.next()?;
        let position = self.strands.len();
        self.strands.push(Some(at));
        let is_last = self.unstarted.len() == 0;
        Some(NextBranch { entry, position, number: self.number + index(position), is_last })
    }

    /// The branch at this position is over.
    pub(crate) fn end(&mut self, position: usize) {
        if let Some(strand) = self.strands.get_mut(position) {
            *strand = None;
            self.running -= 1;
        }
    }

    /// The first branch that is not over.
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
            Self::Own(entries) => entries.len(),
            Self::Shared { next, end, .. } => (end - next) as usize,
        }
    }

    pub(crate) fn next(&mut self) -> Option<Entry> {
        match self {
            Self::Own(entries) => entries.next(),
            Self::Shared { steps, next, end } => {
                let branch = *next;
                if branch == *end {
                    return None;
                }
                *next += 1;
                let steps = Some(Arc::clone(steps));
                Some(Entry::template(steps, branch, branch + 1))
            }
        }
    }
}

impl Frame {
    pub(crate) fn closed() -> Self {
        Self {
            place: Place::here(),
            kind: Kind::Step,
            handler: None,
            wait: None,
            rare: None,
            base: 0,
            flags: Flags::default(),
        }
    }

    /// Whether ending the step needs more than forgetting it.
    pub(crate) fn is_plain(&self) -> bool {
        self.wait.is_none() && self.rare.is_none() && matches!(self.kind, Kind::Step)
    }

    pub(crate) fn base(&self) -> usize {
        self.base as usize
    }

    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The last of the values made with `stack`.
    pub(crate) fn values(&self) -> Option<SlotId> {
        self.rare.as_ref()?.values
    }
}

impl Strand {
    pub(crate) fn new(branch: u32) -> Self {
        Self {
            top: Frame::closed(),
            frames: Vec::new(),
            pending: SmallVec::new(),
            args: Args::none(),
            branch,
            runnable: true,
        }
    }

    /// A step of the current level.
    #[inline]
    pub(crate) fn enqueue(&mut self, entry: Entry) {
        if self.pending.len() == self.pending.capacity() {
            self.pending.reserve(GROWTH);
        }
        self.pending.push(entry);
    }

    /// The branches of the parallel step on top.
    pub(crate) fn branches(&mut self) -> Option<&mut Branches> {
        match &mut self.top.kind {
            Kind::Parallel(branches) => Some(branches),
            Kind::Step | Kind::Holding(_) | Kind::Waiting(_) | Kind::Loop(_) | Kind::Await(_) => {
                None
            }
        }
    }

    /// Makes the strand of a branch that is over that of another one.
    pub(crate) fn restart(&mut self, branch: u32, entry: Entry) {
        self.args = Args::none();
        self.branch = branch;
        self.runnable = true;
        self.enqueue(entry);
    }

    /// Where the queue of the current level begins.
    pub(crate) fn level_base(&self) -> usize {
        if self.top.flags.open {
            self.top.base()
        } else {
            self.frames.last().map_or(0, Frame::base)
        }
    }

    /// Whether the innermost step is in progress and has no sub-steps.
    pub(crate) fn top_waits(&self) -> bool {
        self.top.flags.open && self.pending.len() == self.top.base()
    }

    /// Whether the innermost step is the one that a parallel branch consists of.
    pub(crate) fn is_branch_step(&self) -> bool {
        self.branch != 0 && self.frames.is_empty()
    }

    /// How many steps are around the innermost one.
    pub(crate) fn depth(&self) -> u32 {
        index(self.frames.len())
    }

    /// Makes room on top for a sub-step of the innermost step.
    pub(crate) fn descend(&mut self) {
        if self.top.flags.open {
            let outer = mem::replace(&mut self.top, Frame::closed());
            self.frames.push(outer);
        }
    }

    /// Leaves the closed top for the step around it; `false` if there is none.
    pub(crate) fn ascend(&mut self) -> bool {
        match self.frames.pop() {
            Some(outer) => {
                self.top = outer;
                true
            }
            None => false,
        }
    }

    /// Puts the steps added by the running callback into the order in which they are taken.
    pub(crate) fn seal(&mut self, base: usize) {
        self.pending[base..].reverse();
    }

    /// The steps in progress, outermost first.
    pub(crate) fn open_frames(&self) -> impl DoubleEndedIterator<Item = &Frame> {
        self.frames.iter().chain(self.top.flags.open.then_some(&self.top))
    }
}

/// Names a slot of a table; counted from 1, so that an `Option` of it takes no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId(NonZeroU32);

impl SlotId {
    pub(crate) fn new(slot: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index(slot)))
    }

    pub(crate) fn slot(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Levels and queues are far below this: each step takes dozens of bytes of memory.
pub(crate) fn index(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
