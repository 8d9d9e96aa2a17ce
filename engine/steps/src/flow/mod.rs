//! The step machine: a flow that a host drives with inputs and time.

mod added;
mod arrivals;
mod branches;
mod collection;
mod drive;
mod entry;
mod inspect;
pub(crate) mod level;
mod lineage;
mod loops;
mod parallel;
mod steps;
mod timers;
mod unwind;
mod values;
mod wait_id;

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use crate::args::{Args, Arguments, Mismatch};
use crate::completion::{Canceller, Inbox};
use crate::error::{Error, Fault, StepReturn};
use crate::observe::Observer;
use crate::place::Place;
use crate::state::{Extensions, State};
use crate::sync::ISync;
use crate::template::Template;
use crate::time::Time;

use level::Strand;

pub use added::{Added, AddedLoop};
pub use branches::Parallel;
pub use collection::Collection;
pub use inspect::{Awaitable, Wait, WaitReason};
pub use values::Stack;
pub use wait_id::{WaitId, WaitResult};

/// How many steps a flow runs in one turn before it yields to others on its event loop
/// (FTN12 §2.6).
///
/// A turn of a hundred short steps takes a few microseconds: long enough that yielding costs
/// little, short enough that ten thousand busy flows all get a turn within a tenth of a second.
pub const BURST: u32 = 100;

/// What step callbacks get, by convention named `asi`: the AsyncSteps interface (FTN12 §2.2).
///
/// A body adds sub-steps or completes; an error handler recovers, replaces the error or lets it
/// pass. The same object stands for whichever step is running, so it only exists as a reference
/// inside a callback.
pub struct AsyncSteps {
    strand: Strand,
    /// Set by `success` of the running callback; the result itself is in `strand.args`.
    completed: bool,
    /// Set by `error`, a loop end or a violation of the running callback.
    raised: Option<Fault>,
    callback: Callback,
    /// The flow is over.
    done: bool,
    /// Set by `relinquish`: the turn ends with the running step.
    burst: u32,
    now: Time,
    id: Option<FlowId>,
    last_error: Option<Error>,
    inbox: Option<Arc<Inbox>>,
    /// What only some flows need.
    more: Option<Box<More>>,
    state: State,
}

/// What a flow without an observer, branches, timers, `stack` values and extensions does without.
#[derive(Default)]
struct More {
    observer: Option<Box<dyn Observer>>,
    strands: parallel::Strands,
    timers: timers::Timers,
    values: values::Values,
    extensions: Extensions,
    launched: Vec<Flow>,
    /// Errors to report that the host did not ask for yet.
    unseen: Vec<Error>,
}

/// Which callback runs: it decides what the callback may do (FTN12 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callback {
    None,
    Body,
    ErrorHandler,
    CancelHandler,
}

/// Names a flow: unique in the process, never used again (FTN12 §1.11.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(NonZeroU64);

impl FlowId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX))
    }

    /// The number of the flow, counted from 1.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Whom a lock belongs to: a flow, or one parallel branch of it (FTN12 §1.11.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The flow.
    pub flow: FlowId,
    /// The branch; 0 is the root.
    pub branch: u32,
}

/// A root AsyncSteps object that is being configured (FTN12 §2.2.1, §2.2.3).
///
/// Add steps and state, then [`execute`](Self::execute) it once. Most flows come ready-made from a
/// [`Template`].
///
/// Not `Send`: steps may capture what belongs to one event loop.
#[must_use = "a flow does nothing before it is executed"]
#[derive(Debug)]
pub struct Flow {
    asi: AsyncSteps,
}

/// A flow in execution, driven by its host (FTN12 §2.2.3).
///
/// What a host does, in this order:
///
/// 1. It calls [`run`](Self::run): once to start, and then whenever the waker was woken, the
///    [`deadline`](Self::deadline) is reached, or the last run ended with [`Progress::Ready`].
/// 2. After each run, and after [`cancel`](Self::cancel), it starts what
///    [`take_launched`](Self::take_launched) gives and reports what
///    [`take_unseen`](Self::take_unseen) gives.
/// 3. It ends with [`Progress::Done`], or by [`cancel`](Self::cancel). Dropping an execution that is
///    not done cancels it too, but then nothing is left to ask what its cancel handlers launched.
#[must_use = "a flow runs only while its host drives it"]
#[derive(Debug)]
pub struct Execution {
    asi: AsyncSteps,
}

/// Where a run left the flow (FTN12 §2.6).
#[expect(clippy::exhaustive_enums, reason = "a host must handle every kind of progress")]
#[derive(Debug)]
pub enum Progress {
    /// The flow is over; running it again is a bug of the host and gives `Cancelled`.
    Done(Outcome),
    /// The flow waits: run it when the waker is woken or the deadline is reached.
    Waiting,
    /// The turn is over and there is more to do: let others run, then run it again.
    Ready,
}

/// How a flow ended (FTN12 §2.2.3).
#[expect(clippy::exhaustive_enums, reason = "FTN12 knows no other end")]
#[derive(Debug)]
pub enum Outcome {
    /// The last step completed with this result.
    Success(Args),
    /// No handler recovered from this error.
    Error(Error),
    /// The flow was cancelled from outside.
    Cancelled,
}

impl Outcome {
    /// The typed result of a flow that succeeded.
    ///
    /// # Errors
    /// The error that ended the flow; `InternalError` if it was cancelled or its result has
    /// another type.
    pub fn into_result<A: Arguments>(self) -> Result<A, Error> {
        match self {
            Self::Success(args) => args.into_typed().map_err(|mismatch: Mismatch| {
                let info = format!("the result of the flow has another type: {mismatch}");
                Error::with_info(crate::codes::INTERNAL_ERROR, info)
            }),
            Self::Error(error) => Err(error),
            Self::Cancelled => Err(Error::with_info(crate::codes::INTERNAL_ERROR, "cancelled")),
        }
    }
}

impl AsyncSteps {
    fn root() -> Self {
        Self {
            strand: Strand::new(0),
            completed: false,
            raised: None,
            callback: Callback::None,
            done: false,
            burst: BURST,
            now: Time::ZERO,
            id: None,
            last_error: None,
            inbox: None,
            more: None,
            state: State::default(),
        }
    }

    fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    fn inbox(&mut self) -> &Arc<Inbox> {
        self.inbox.get_or_insert_default()
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

impl Default for Flow {
    fn default() -> Self {
        Self::new()
    }
}

impl Flow {
    /// A flow without steps.
    #[inline]
    pub fn new() -> Self {
        Self { asi: AsyncSteps::root() }
    }

    /// Adds a step, see [`AsyncSteps::add`].
    #[track_caller]
    pub fn add<A, R, F>(&mut self, body: F) -> Added<'_>
    where
        A: Arguments,
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, A) -> R + 'static,
    {
        self.asi.add(body)
    }

    /// Adds a parallel step, see [`AsyncSteps::parallel`].
    #[track_caller]
    pub fn parallel(&mut self, define: impl FnOnce(&mut Parallel)) -> Added<'_> {
        self.asi.parallel(define)
    }

    /// Adds a synchronised step, see [`AsyncSteps::sync`].
    #[track_caller]
    pub fn sync<O, A, R, F>(&mut self, object: &O, body: F) -> Added<'_>
    where
        O: ISync + Clone + 'static,
        A: Arguments,
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, A) -> R + 'static,
    {
        self.asi.sync(object, body)
    }

    /// Adds a step that awaits a future, see [`AsyncSteps::await_`].
    #[track_caller]
    pub fn await_<T, E, Fut>(&mut self, future: Fut) -> Added<'_>
    where
        T: Arguments,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
        Fut: Future<Output = Result<T, E>> + 'static,
    {
        self.asi.await_(future)
    }

    /// Adds a step with this result, see [`AsyncSteps::success_step`].
    #[track_caller]
    pub fn success_step(&mut self, result: impl Arguments) -> Added<'_> {
        self.asi.success_step(result)
    }

    /// Appends the steps of a template, see [`AsyncSteps::copy_from`].
    pub fn copy_from(&mut self, model: &Template) {
        self.asi.append_template(model);
    }

    /// Appends the steps of another flow, see [`AsyncSteps::append`].
    #[track_caller]
    pub fn append(&mut self, flow: Self) {
        self.asi.append(flow);
    }

    /// Gives the first step its arguments, as the result of a step before it would be; the last
    /// call counts.
    pub fn pass(&mut self, args: impl Arguments) {
        self.asi.strand.args = args.into_args();
    }

    /// The interface itself, for code that adds steps to whatever it is given: the common API of
    /// FTN12 §2.2.1, and loops.
    ///
    /// What belongs into callbacks, such as completing a step, breaks a rule here: the flow then
    /// fails with `InternalError` instead of running its steps.
    pub fn steps(&mut self) -> &mut AsyncSteps {
        &mut self.asi
    }

    /// The state variables (FTN12 §2.2.1 `state`).
    #[must_use]
    pub fn state(&self) -> &State {
        &self.asi.state
    }

    /// The state variables, to change them.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.asi.state
    }

    /// Hangs a value on the flow that steps find by its type (FTN12 §1, "derived classes").
    pub fn extend<T: 'static>(&mut self, value: T) {
        self.asi.extend(value);
    }

    /// Has every step of the flow reported; the choice is made once per flow.
    pub fn observe(&mut self, observer: impl Observer + 'static) {
        self.asi.more().observer = Some(Box::new(observer));
    }

    /// A handle that cancels the flow from anywhere, also before it is executed.
    pub fn canceller(&mut self) -> Canceller {
        Canceller(Arc::clone(self.asi.inbox()))
    }

    /// Names the flow in logs and locks.
    pub fn id(&mut self) -> FlowId {
        self.asi.flow_id()
    }

    /// Makes the flow ready to be driven (FTN12 §2.2.3 `execute`).
    ///
    /// It takes the flow, so that nothing can be added and nothing be executed twice.
    #[inline]
    pub fn execute(mut self) -> Execution {
        self.asi.fail_misconfigured();
        self.asi.strand.seal(0);
        Execution { asi: self.asi }
    }
}

impl Execution {
    /// Runs the flow until it must wait, ends, or has used up its turn ([`BURST`]).
    ///
    /// `now` is the current time of the host; `waker` is woken, at most once, when a completion,
    /// a future or `cancel` from outside gives the flow something to do.
    pub fn run(&mut self, now: Time, waker: &Waker) -> Progress {
        self.run_burst(BURST, now, waker)
    }

    /// [`run`](Self::run) for a turn of so many steps: simulations interleave flows more finely.
    pub(crate) fn run_burst(&mut self, burst: u32, now: Time, waker: &Waker) -> Progress {
        if self.asi.done {
            return Progress::Done(Outcome::Cancelled);
        }
        let progress = self.asi.turn(now, waker, burst);
        self.asi.done = matches!(progress, Progress::Done(_));
        progress
    }

    /// The earliest time at which the flow wants to run although nobody woke it.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.asi.more.as_ref()?.timers.earliest()
    }

    /// Cancels the flow (FTN12 §2.2.3 `cancel`): timers off, cancel handlers innermost to outermost,
    /// no error handlers. Cancelling a finished flow does nothing.
    pub fn cancel(&mut self) {
        if !self.asi.done {
            self.asi.done = true;
            self.asi.cancel_all();
        }
    }

    /// Whether the flow is not over.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.asi.done
    }

    /// Flows that steps and cancel handlers launched since the last call: the host executes them on
    /// the same event loop, also after it cancelled this one (FTN12 §2.2.1 `newInstance`).
    pub fn take_launched(&mut self) -> Vec<Flow> {
        match &mut self.asi.more {
            Some(more) => std::mem::take(&mut more.launched),
            None => Vec::new(),
        }
    }

    /// What the host has to report, because it may be seen nowhere else, since the last call: panics
    /// of callbacks, also those from which an error handler recovered, and errors of cancel handlers.
    pub fn take_unseen(&mut self) -> Vec<Error> {
        match &mut self.asi.more {
            Some(more) => std::mem::take(&mut more.unseen),
            None => Vec::new(),
        }
    }

    /// The steps in progress of the root, outermost first (FTN12 §1.7 `async_stack`).
    #[must_use]
    pub fn stack(&self) -> Vec<Place> {
        self.asi.async_stack()
    }

    /// The state variables.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.asi.state
    }

    /// The state variables, to take results out.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.asi.state
    }

    /// A value hung on the flow with [`Flow::extend`].
    #[must_use]
    pub fn extension_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.asi.extension_mut()
    }

    /// A handle that cancels the flow from anywhere.
    pub fn canceller(&mut self) -> Canceller {
        Canceller(Arc::clone(self.asi.inbox()))
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Runs a flow to its end on the spot (FTN12 §2.2.3 `execute`); for examples and tests of flows that
/// never wait.
///
/// # Errors
/// The error that ended the flow, or `InternalError` if the flow had to wait for something that
/// did not happen by itself, or its result has another type.
pub fn run_to_end<A: Arguments>(flow: Flow) -> Result<A, Error> {
    let mut execution = flow.execute();
    loop {
        match execution.run(Time::ZERO, Waker::noop()) {
            Progress::Done(outcome) => return outcome.into_result(),
            Progress::Ready => {}
            Progress::Waiting => {
                return Err(Error::with_info(crate::codes::INTERNAL_ERROR, "the flow waits"));
            }
        }
    }
}
