//! Requests that survive a crash, as their host sees them: what the steps of a request ask it and
//! report to it while they run.
//!
//! A host keeps a history of the steps of a request, and carries the request out again when the process
//! that did so is gone: it [dispatches](crate::Executor::dispatch) an [`Incoming`](crate::Incoming) with
//! a [`RequestRecorder`]. The function runs from the top, and steps that ended before return at once
//! what they returned then. `asyncsteps-durable` is such a host.
//!
//! Only functions with [types](crate::functions) have such requests: their steps have names and results
//! that can be stored.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::clock;
use asyncsteps_core::replay::ReplayHooks;
use asyncsteps_core::{BodyResult, Error};
use serde_json::Value;

use crate::plan::StepView;
pub use crate::stored::{Codec, Kind, Stored};

/// The code of the error of a step that may have had its effect and must not run again, and of the error for a caller
/// who could not be notified in time how a request ends.
pub const OUTCOME_UNKNOWN: &str = "OutcomeUnknown";

/// A later answer of a host, on the same thread.
pub type Later<T> = Pin<Box<dyn Future<Output = T>>>;

/// Work that a step asks the host to do, in a form that the host knows.
pub type Work = Box<dyn Any>;

/// A mistake in steps, which a request has found that came to them: the program cannot go on with the request, and another
/// one may.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[expect(clippy::exhaustive_structs, reason = "it is a text for people")]
pub struct WrongSteps(pub String);

/// Records one request for its replay.
pub trait RequestRecorder {
    /// The function is entered, which is a group of its steps: its recorder, as that of a step.
    fn function(&self, function: &StepView) -> Rc<dyn StepRecorder>;

    /// The request holds a lock or waits for its place in a limit. So what a step did has to be stored
    /// before the lock is free, and the request cannot be put aside.
    fn locks(&self);

    /// The request ends with this result.
    ///
    /// # Errors
    /// If the host cannot store it: then the request fails, and is undone.
    fn ends_with(&self, result: &Value) -> Result<(), Error>;

    /// The error with which the request was [ended from outside](Self::interrupted), if it was.
    fn interruption(&self) -> Option<Error>;

    /// Ends the request from outside, such as when it is cancelled: with this error. Asked for once.
    fn interrupted(&self) -> Later<Error>;
}

/// Records one step for its replay, or a function as a whole.
pub trait StepRecorder: ReplayHooks {
    /// What is recorded of the step, and of this attempt of it, by earlier runs.
    fn recalled(&self, attempt: u32) -> Recalled;

    /// The step takes this, which is stored before its body begins.
    ///
    /// # Errors
    /// If it cannot be stored: then the body does not begin.
    fn takes(&self, input: Stored) -> Result<(), Error>;

    /// The body or the undo of the step is about to run: completes when the records that it depends on are stored, and
    /// never if this host does not own the request any more. What it returns is held while it runs.
    ///
    /// # Errors
    /// That of the step; of an undo that must not run, [`NotUndone`](asyncsteps_core::replay::NotUndone).
    fn begin(&self, run: Run) -> Later<Result<Running, Error>>;

    /// An attempt of the body ends so: completes with the result of the step when the step may go on.
    fn ends(&self, attempt: u32, end: BodyEnd) -> Later<Result<Stored, Error>>;

    /// The step is undone, or its undo has failed with this error and may be tried again: completes when other undos may
    /// begin. Of a function, all that [was to be undone](Recalled::is_to_undo) is, or has failed to be: completes when the
    /// function may go on; never, if the host does not own the request any more.
    ///
    /// # Errors
    /// That with which the request ends instead.
    fn undone(&self, undone: Result<(), &Error>) -> Later<Result<(), Error>>;

    /// The body, or the attempt of a step with sub-steps, is about to do several things with these keys: returns the
    /// keys in the order in which they were recorded when it began.
    ///
    /// # Errors
    /// The error of the step, if other keys were recorded.
    fn keys(&self, attempt: u32, keys: Vec<String>) -> Result<Vec<String>, Error>;

    /// The recorders of sub-steps, in their order: the steps of all ways or of the one that is taken. The first of them is
    /// about to begin, or they are only to be undone.
    ///
    /// # Errors
    /// The error of the step, if the host cannot go on with steps that begin.
    fn steps(&self, at: &Sublevel, ways: &[Vec<StepView>], begins: bool) -> RecordedSteps;

    /// The replay hooks of steps that the executor adds there around the steps of the application: they represent the
    /// attempt, the iteration or the item. If one of these steps fails, so does what it represents.
    fn inside(&self, at: &Sublevel) -> Rc<dyn ReplayHooks>;

    /// The time of day for the code that defines sub-steps there: the same whenever the request is carried out again.
    fn now(&self, at: &Sublevel) -> SystemTime;

    /// The sub-steps there ended normally.
    ///
    /// # Errors
    /// If what follows cannot be stored.
    fn ended(&self, at: &Sublevel, end: LevelEnd) -> Result<(), Error>;

    /// The body, or the undo, emits an event, which is the only one of the step with this key: completes when it is
    /// stored.
    fn emit(&self, key: &str, event: Value) -> Later<Result<(), Error>>;

    /// The body, or the undo, has the host do work of its own.
    fn carry_out(&self, work: Work) -> Later<Result<Stored, Error>>;
}

/// The recorders of sub-steps, or the error of the step that they are in.
pub type RecordedSteps = Result<Vec<RecordedStep>, Error>;

/// A step of a request, as its host knows it.
#[derive(Clone, derive_more::Debug)]
#[debug("RecordedStep {{ name: {name:?}, .. }}")]
#[expect(clippy::exhaustive_structs, reason = "a host makes it")]
pub struct RecordedStep {
    /// The step in its plan.
    pub view: StepView,
    /// The one of its [names](StepView::names) by which the host knows it: the newest one under which something is
    /// recorded, or else the oldest.
    pub name: (&'static str, usize),
    /// Its recorder.
    pub recorder: Rc<dyn StepRecorder>,
}

/// Where sub-steps of a step are: in an attempt of it, or in an iteration or an item in that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host has to know all of it")]
pub struct Sublevel {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The iteration or the item.
    pub part: Option<Part>,
}

/// A part of a step that repeats its sub-steps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a host has to tell all of them apart")]
pub enum Part {
    /// An iteration of a loop, from 0.
    Iteration(u64),
    /// One of several items, by its number from 0, which is its key.
    Item(usize),
    /// One of several items that has a key of its own.
    Key(Rc<str>),
}

/// What is recorded of a step by earlier runs.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is what replay and undo need")]
pub struct Recalled {
    /// Its result, if it ended well.
    pub result: Option<Stored>,
    /// What it [took](StepRecorder::takes), if that is stored.
    pub input: Option<Stored>,
    /// Whether it, or a step inside of it, has to be undone before the function goes on; of a function, also whether the
    /// request only ends.
    pub is_to_undo: bool,
    /// Where something inside has to be undone, the newest first.
    pub to_undo: Vec<Sublevel>,
    /// The remaining work of the attempt, if the step is a loop.
    pub iterations: Iterations,
}

/// The remaining work of a loop after earlier runs of it.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is what a loop needs")]
pub struct Iterations {
    /// Iterations that ended, with steps that can be undone: they are entered again, so that these steps
    /// are known. Each has the state that it began with, if it was not the first one.
    pub again: Vec<(u64, Option<Stored>)>,
    /// The iteration that follows, with its state if it is not the first one, or the result of the loop.
    pub next: ControlFlow<Stored, (u64, Option<Stored>)>,
}

/// What of a step runs.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a step has no more")]
pub enum Run {
    /// An attempt of its body, from 1.
    Attempt(u32),
    /// Its undo.
    Undo,
}

/// A body or an undo that runs.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a host makes it")]
pub struct Running {
    /// Notifies the host of its end when it is dropped.
    pub guard: Box<dyn Any>,
    /// Counts when it blocks its arbiter.
    pub blocks: Rc<Blocks>,
}

/// How often bodies have blocked their arbiter: they ran for long without a pause, and nothing else did meanwhile.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a host makes it")]
pub struct Blocks {
    /// What takes less than this is none.
    pub least: Duration,
    /// How often that was.
    pub count: Cell<u32>,
}

/// How the attempt of a body ends.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a host has to tell all of them apart")]
pub enum BodyEnd {
    /// With this result.
    Done(Stored),
    /// With work, which the host does and stores the result with it.
    Transacts(Work),
    /// It has no body: the host waits until then; the result is `()`.
    Pauses(WaitEnd),
    /// It has no body: the host waits for a signal with the name of the step, no longer than this; the result is its value,
    /// or null after the time.
    AwaitsSignal(Option<WaitEnd>),
}

/// When a wait ends.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a host has to tell all of them apart")]
pub enum WaitEnd {
    /// After so long, from the first time that the step begins.
    After(Duration),
    /// At this time of day, which is kept from the first time that the step begins.
    At(SystemTime),
}

impl WaitEnd {
    /// How long it is until then, by the clock of this process.
    pub(crate) fn left(self) -> Duration {
        match self {
            Self::After(within) => within,
            Self::At(time) => time.duration_since(clock::wall()).unwrap_or_default(),
        }
    }
}

/// How sub-steps end normally.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a host has to tell all of them apart")]
pub enum LevelEnd {
    /// The last of them has ended. If they are the steps of a [scope](crate::Steps::scope), this is final: they are not
    /// undone any more. Of a function, only the check of the result is left.
    All {
        /// Whether it is final.
        is_final: bool,
    },
    /// All that is in an iteration of the loop has ended.
    Iteration {
        /// Which one, from 0.
        index: u64,
        /// Whether a step in it can be undone.
        can_be_undone: bool,
        /// The state of the next iteration, or the result.
        next: ControlFlow<Stored, Stored>,
    },
}

/// How the work `W` that a body returns becomes the result `T` of its step.
#[derive(derive_more::Debug)]
#[debug("Transactor")]
pub struct Transactor<W, T> {
    /// The result of the step, as the host stores it.
    pub codec: Codec<T>,
    /// The work in the form that the host knows.
    pub work: fn(W) -> Work,
    /// Does it in a request that no host remembers.
    pub alone: fn(W) -> Later<BodyResult<T>>,
}

/// The recorder of the request that a flow serves, as an extension of the flow.
pub(crate) struct OfRequest {
    /// The random id of the request, from which the idempotency keys of its steps are made.
    pub(crate) id: Arc<str>,
    pub(crate) recorder: Rc<dyn RequestRecorder>,
}
