//! The types of the step stack (FTN12 §1.1, §2.2).

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::panic::Location;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use std::vec;

use smallvec::SmallVec;
use thin_vec::ThinVec;

use super::shielded::{BodiesAlone, ShieldedBody};
use super::strands::Strands;
use super::timers::{StepTimers, Timers};
use super::undo::Undos;
use super::undo_queue::{Locks, UndoQueue, UndoWorker};
use super::values::StepValues;
use crate::args::{Args, ArgsMismatch};
use crate::contained::Contained;
use crate::error::{Error, StepFault, StepResult};
use crate::extensions::Extensions;
use crate::flow::{Awaitable, FlowId, Identity};
use crate::inbox::{FlowInbox, WaitKey};
use crate::location::StepLocation;
use crate::observe::{Observer, UndoneStep};
use crate::probe::StepProbe;
use crate::random::Random;
use crate::replay::{Limit, ReplayHooks};
use crate::retry::Retry;
use crate::sleep::Alarms;
use crate::slot::SlotId;
use crate::state::State;
use crate::time::Time;

/// The AsyncSteps interface, which step callbacks get, by convention named `asi` (FTN12 §2.2).
///
/// A body adds sub-steps or completes; an error handler recovers, replaces the error or lets it
/// pass. One object serves all steps of the flow: its methods act on the running step, so it only
/// exists as a reference inside a callback.
pub struct AsyncSteps {
    /// The active strand; the others are parked in [`ColdState::strands`].
    pub(crate) strand: Strand,
    /// The fault of the running callback: `error`, the end of a loop, or a broken rule.
    pub(crate) raised: Option<StepFault>,
    /// Set by `success` of the running callback; the result itself is in `strand.args`.
    pub(crate) completed: bool,
    /// The running callback has polled the future that its step waits for.
    pub(crate) polled: bool,
    pub(crate) callback: Callback,
    /// The flow has ended; set by the machine.
    pub(crate) done: bool,
    /// How many steps are left in this turn; `relinquish` sets it to 0.
    pub(crate) burst: u32,
    pub(crate) now: Time,
    /// Changes when a turn begins and when a callback ran; for observers.
    pub(crate) moment: u32,
    pub(crate) inbox: Option<Arc<FlowInbox>>,
    pub(crate) cold: Option<Box<ColdState>>,
    pub(crate) state: State,
    pub(crate) id: Option<FlowId>,
    pub(crate) last_error: Option<Error>,
}

/// A larger flow is moved by a loop instead of in a straight line: twice the instructions.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<AsyncSteps>() <= 256);

/// The state that a flow without an observer, branches, timers, `stack` values and extensions does
/// not need.
#[derive(Default)]
pub(crate) struct ColdState {
    pub(crate) observer: Option<Box<dyn Observer>>,
    /// Whether the observer watches callbacks.
    pub(crate) watches_callbacks: bool,
    /// Puts faults into steps and undos; set by tests.
    pub(crate) probe: Option<Rc<dyn StepProbe>>,
    pub(crate) strands: Strands<Strand>,
    pub(crate) timers: Timers,
    /// The sleeps of the futures that steps poll.
    pub(crate) alarms: Alarms,
    pub(crate) values: StepValues,
    /// Empty extras, kept as room for the next step that needs some.
    pub(crate) extras: Option<Box<StepExtras>>,
    pub(crate) extensions: Extensions,
    /// Flows for the host to start.
    pub(crate) launched: Vec<AsyncSteps>,
    /// Errors for the host to report.
    pub(crate) unseen: Vec<Error>,
    /// Steps that this flow has undone, for the host to report.
    pub(crate) undone: Vec<UndoneStep>,
    pub(crate) policies: Option<Box<PolicyState>>,
}

/// The state that a flow without attempts, undos and random choices does not need.
#[derive(Default)]
pub(crate) struct PolicyState {
    /// The source of jitter; made of the flow's number if no seed was set.
    pub(crate) random: Option<Random>,
    /// The time limit that expired last on each strand.
    pub(crate) expired: Vec<Expired>,
    /// Whether a step of the flow was tried again.
    pub(crate) has_attempts: bool,
    /// The undos that the steps of the flow would need.
    pub(crate) undos: Undos<ToUndo>,
    /// The undos that other flows run for this one.
    pub(crate) undo: Weak<UndoQueue<UndoOfStep>>,
    /// The bodies of shielded steps that have ended before them.
    pub(crate) alone: BodiesAlone,
    /// The flow waits for none of them any more.
    pub(crate) leaves_undos: bool,
    /// The flow exists to run undos of another one.
    pub(crate) undoes: Option<Rc<UndoWorker<UndoOfStep>>>,
    /// The flow runs the body of a shielded step of another one.
    pub(crate) is_shield: bool,
}

/// A time limit that expired (FTN12 §2.2.2 `setTimeout`).
pub(crate) struct Expired {
    pub(crate) error: Error,
    /// The strand and the depth of the step that had the limit.
    pub(crate) strand: u32,
    pub(crate) depth: u32,
}

/// The callback that runs: it decides what may be called (FTN12 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callback {
    None,
    Body,
    ErrorHandler,
    CancelHandler,
}

/// One line of execution.
pub(crate) struct Strand {
    /// The innermost step in progress; if it is not open, room for the next step.
    pub(crate) top: Frame,
    /// The steps around `top`, outermost first.
    pub(crate) frames: ThinVec<Frame>,
    /// The steps that have not started, of all levels.
    pub(crate) pending: SmallVec<[QueueItem; 2]>,
    /// The result of the last step: the arguments of the next one.
    pub(crate) args: Args,
    /// The number of the branch, 0 for the root; never used twice in a flow.
    pub(crate) branch: u32,
    /// Whether there is something to do without outside help.
    pub(crate) runnable: bool,
}

/// One step in progress.
pub(crate) struct Frame {
    pub(super) about: About,
    /// Changed by [`replace_activity`](Self::replace_activity) only.
    pub(super) activity: Activity,
    /// The name of the step's wait for external completions.
    pub(crate) wait: Option<WaitKey>,
    pub(crate) extras: Option<Box<StepExtras>>,
    /// The sub-steps are `pending[base..]`.
    pub(crate) base: u32,
    pub(crate) flags: Flags,
}

/// Facts about a [`Frame`]; most steps have none of them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flags {
    pub(crate) role: Role,
    /// The step's error handler is the one in its template, and was not called yet.
    pub(crate) template_handler: bool,
    /// No implicit success (FTN12 §1.6).
    pub(crate) waits: bool,
    pub(crate) undo: UndoOfFrame,
}

/// Whose undo is notified about the future of a step.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum UndoOfFrame {
    /// None is.
    #[default]
    None,
    /// The undo of the step.
    Own,
    /// The undo of the step of which this one is a part.
    Around,
}

/// The role of a frame.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Room for the next step.
    #[default]
    Room,
    Step,
    /// One iteration of the loop whose frame is the next one out.
    Iteration,
    /// One attempt of the step whose frame is the next one out.
    Attempt,
}

/// The fields that few steps have, so that the others do not make room for them.
#[derive(Default)]
pub(crate) struct StepExtras {
    pub(crate) cancel: Option<CancelHandler>,
    pub(crate) timers: StepTimers,
    /// The newest of the values made with `stack`, a slot of [`StepValues`].
    pub(crate) values: Option<SlotId>,
    /// Which attempt of a step in another flow this step is; 0 for none.
    pub(crate) attempt: u32,
    /// What the steps inside find around them.
    pub(crate) surroundings: Option<Rc<dyn Any>>,
    /// The normal end of the step forgets what could be undone inside.
    pub(crate) is_scope: bool,
    /// The steps inside do not see the loops around.
    pub(crate) hides_loops: bool,
    /// The flow ends when the time limit of the step has passed.
    pub(crate) ends_flow: bool,
    /// The step holds a place for one attempt: it is released before anything is undone.
    pub(crate) holds_place: bool,
    /// The body for which the step waits, which goes on without it.
    pub(crate) shielded: Option<Rc<ShieldedBody>>,
    /// Is notified if the step fails, or if it is this attempt of one that fails.
    pub(crate) memory: Option<(Rc<dyn ReplayHooks>, Option<u32>)>,
    /// How many levels further out the step of that memory is, of which this one is a part.
    pub(crate) memory_levels: u32,
    /// Is asked when the time limit has passed.
    pub(crate) limited: Option<(Rc<dyn ReplayHooks>, Limit)>,
}

/// The activity of a step in progress, in addition to waiting for its sub-steps.
pub(crate) enum Activity {
    /// Nothing else.
    Plain,
    /// It keeps a value until it has ended: a lock.
    Holding(Box<dyn Any>),
    /// It waits for something that can describe itself.
    Waiting(Arc<dyn Awaitable>),
    Looping(Box<dyn Iterate>),
    Parallel(Box<ParallelBranches>),
    Polling(StepFuture),
    /// It is tried again when it fails: each attempt is a step inside.
    Retrying(Rc<dyn Retrying>),
    /// It waits until everything inside is undone, or until a host lets its error go on; then the error goes on, or the
    /// step completes if it has none.
    Undoing(Option<Error>),
}

/// The waker of the turn, for the future that a body makes; `None` where a body starts without it: then the
/// machine polls the future when the body has returned.
pub(crate) type Waking<'a> = Option<&'a Waker>;

/// A future that a step polls (FTN12 §1.13).
pub(crate) type StepFuture = Pin<Box<dyn Future<Output = Result<Args, Error>>>>;

/// An element of a queue.
pub(crate) enum QueueItem {
    Step(QueuedStep),
    Template(TemplateRange),
}

/// A step that has not started.
pub(crate) struct QueuedStep {
    pub(crate) source: &'static Location<'static>,
    /// With the same source.
    pub(crate) description: Option<Box<Description>>,
    pub(crate) work: Box<dyn StepWork>,
}

/// The description of a step in progress.
pub(crate) enum About {
    /// Where it was added; it has no name and no error handler.
    Place(&'static Location<'static>),
    Own(Box<Description>),
    /// Its template has its name.
    Shared(Arc<TemplateStep>),
}

/// The parts of a description that few steps have, so that the others do not make room for them.
pub(crate) struct Description {
    pub(crate) location: StepLocation,
    /// `None` also when it was called.
    pub(crate) handler: Option<Handler>,
}

/// The work of a step when it starts: a body, a loop, branches, a critical section.
pub(crate) trait StepWork {
    /// Starts the step, which is on top, with the result of the step before it. A future that it makes may be
    /// polled with the waker.
    fn start(self: Box<Self>, asi: &mut AsyncSteps, args: Args, waker: Waking<'_>) -> StepResult;

    /// Labels a loop; nothing else has a label (FTN12 §1.8).
    fn set_label(&mut self, label: Cow<'static, str>) {
        drop(label);
    }

    /// The same as something that can be started again; `None` for what can be started once.
    fn into_repeat(self: Box<Self>) -> Option<Arc<dyn RepeatedWork>> {
        None
    }

    /// Whether the error handler of the step belongs to the work that it starts: to a critical
    /// section.
    fn owns_handler(&self) -> bool {
        false
    }

    /// What the step takes and returns, if its body is an async closure: `fn(A) -> T`.
    fn signature(&self) -> Option<TypeId> {
        None
    }

    /// The policies of a step that has some.
    fn policies(&mut self) -> Option<&mut dyn Any> {
        None
    }
}

/// The work of a step that starts each time it is tried.
pub(crate) trait RepeatedWork {
    /// Starts the step, which is on top; see [`StepWork::start`].
    fn start(self: Arc<Self>, asi: &mut AsyncSteps, args: Args, waker: Waking<'_>) -> StepResult;
}

pub(crate) type Handler = Box<dyn FnOnce(&mut AsyncSteps, &Error) -> StepResult>;
pub(crate) type CancelHandler = Box<dyn FnOnce(&mut AsyncSteps) -> StepResult>;

/// The items to undo inside of a step that fails.
pub(crate) enum ToUndo {
    /// The effect of a step.
    Step(StepUndo),
    /// Nothing itself: the locks of a cancelled step, held until everything inside is undone.
    Release(Locks),
}

impl ToUndo {
    /// Whether this takes time, so that locks around it are to be held.
    pub(crate) fn is_needed(&self) -> bool {
        match self {
            Self::Step(undo) => undo.is_needed(),
            Self::Release(_) => true,
        }
    }
}

/// The undo of a step that started, and what became of the body.
pub(crate) struct StepUndo {
    pub(super) plan: Arc<dyn UndoPlan>,
    /// The arguments of the step that the undo keeps, if it keeps any.
    pub(super) input: Option<Box<Args>>,
    pub(super) outcome: UndoOutcome,
    /// The body was polled, since this attempt of it started.
    pub(super) has_begun: bool,
    /// The outcome of an earlier attempt is unknown, so a failure of this one proves little.
    pub(super) was_unknown: bool,
    /// The body that is shielded, which may end after the step.
    pub(super) body: Option<Rc<ShieldedBody>>,
}

/// The outcome of a body.
pub(crate) enum UndoOutcome {
    /// It has not begun, or failed by itself.
    Nothing,
    Unknown,
    /// It returned this result.
    Done(Args),
}

/// The undo of a step, which all that start the step share.
pub(crate) trait UndoPlan {
    /// The arguments of the step, and what the undo keeps of them.
    ///
    /// # Errors
    /// They are not what the step takes.
    fn keep_input(&self, asi: &AsyncSteps, args: Args) -> Result<(Args, Args), ArgsMismatch>;

    /// The result of the body, and a copy for the undo.
    fn keep_result(&self, result: Args) -> (Args, Args);

    /// The undo of a step in this branch, with the kept arguments; without a result the outcome is
    /// unknown.
    fn work(self: Arc<Self>, input: Args, result: Option<Args>, branch: Identity) -> UndoWork;
}

/// A step of this branch that is to be undone, as it turns out when its undo begins.
pub(crate) struct UndoOfStep {
    pub(crate) step: Contained<StepUndo>,
    pub(crate) branch: Identity,
}

/// An undo that is to be run.
pub(crate) struct UndoWork {
    pub(crate) body: Arc<dyn RepeatedWork>,
    pub(crate) timeout: Duration,
    pub(crate) retry: Option<Retry>,
}

/// The attempts of a step.
pub(crate) trait Retrying {
    /// Whether an attempt is to be made.
    fn is_due(&self) -> bool;

    /// The number of the attempt that is due or in progress, from 1.
    fn attempt(&self) -> u32;

    /// Whether an attempt that fails with this error would be followed by another one, if one is left.
    fn is_worth_another(&self, error: &Error) -> bool;

    /// Starts the attempt that is due, which is the step on top.
    fn start(self: Rc<Self>, asi: &mut AsyncSteps, waker: Waking<'_>) -> StepResult;

    /// The attempt on top failed with this error: another one is due then, behind the steps that are added here.
    ///
    /// # Errors
    /// The error that the step fails with, because there is none.
    fn fail(&self, asi: &mut AsyncSteps, error: &Error) -> StepResult;
}

/// The iterations of a loop (FTN12 §2.2.4).
pub(crate) trait Iterate {
    fn label(&self) -> Option<&str>;
    /// Runs one iteration; `None` is the normal end of the loop.
    fn iterate(&mut self, asi: &mut AsyncSteps) -> Option<StepResult>;
}

/// The branches of a parallel step (FTN12 §1.4).
pub(crate) struct ParallelBranches {
    pub(crate) unstarted: Unstarted,
    /// The strand of each branch that started, in the order added; `None` once it has ended.
    pub(super) strands: SmallVec<[Option<u32>; 4]>,
    /// How many branches are not over.
    pub(crate) running: usize,
    /// All branches before this one have ended.
    pub(super) first: usize,
    /// The number of the first branch; the others follow.
    pub(crate) number: u32,
}

/// The branches that have not started, in the order added.
pub(crate) enum Unstarted {
    Own(vec::IntoIter<QueuedStep>),
    /// Each step of a template is a branch.
    Shared(TemplateRange),
}

/// Steps `next..end` of a template. It stays in its queue until the last of them has ended.
pub(crate) struct TemplateRange {
    /// `None` while the machine has borrowed them, to call one.
    pub(super) steps: Option<SharedSteps>,
    pub(super) next: u32,
    pub(super) end: u32,
}

/// Steps of a template, shared by all of its flows (FTN12 §1.5). The pointer in each flow is thin.
pub(crate) type SharedSteps = Arc<Vec<Arc<TemplateStep>>>;

/// A step of a template.
pub(crate) struct TemplateStep {
    pub(crate) location: StepLocation,
    pub(crate) body: SharedBody,
    pub(crate) handler: Option<SharedHandler>,
    /// It has neither name nor error handler.
    pub(crate) is_plain: bool,
    /// The body takes the handler over, because it guards a critical section only.
    pub(crate) is_sync: bool,
    /// The body applies policies.
    pub(crate) is_planned: bool,
}

pub(crate) type SharedBody =
    Box<dyn Fn(&mut AsyncSteps, Args, Waking<'_>) -> StepResult + Send + Sync>;
pub(crate) type SharedHandler = Arc<dyn Fn(&mut AsyncSteps, &Error) -> StepResult + Send + Sync>;
