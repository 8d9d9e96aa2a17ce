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
use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::ops::ControlFlow;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use asyncsteps_core::replay::ReplayHooks;
use asyncsteps_core::{Args, BodyResult, Error, RecordedError};
use serde_json::Value;

use crate::stored::{BoxError, ErrorsOfService};
pub use crate::stored::{Codec, Kind, Stored};

/// The code of the error of a step that may have had its effect and must not run again, and of the error for a caller
/// who could not be notified in time how a request ends.
pub const OUTCOME_UNKNOWN: &str = "OutcomeUnknown";

/// A later answer of a host, on the same thread.
pub type Later<T> = Pin<Box<dyn Future<Output = T>>>;

/// Work that a step asks the host to do, in a form that the host knows.
pub type Work = Box<dyn Any>;

/// Guard held while a body runs, so that the host knows that it does.
pub type Running = Box<dyn Any>;

/// A mistake in steps, which a request has found that came to them: the program cannot go on with the request, and another
/// one may.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[expect(clippy::exhaustive_structs, reason = "it is a text for people")]
pub struct WrongSteps(pub String);

/// Records one request for its replay.
pub trait RequestRecorder {
    /// The random id of the request, from which the idempotency keys of its steps are made. It is the
    /// same whenever the request is carried out again.
    fn id(&self) -> &str;

    /// The memory of a step that was just defined. The options behind the step come later, and are
    /// there when the step starts.
    fn step(&self, step: Rc<DefinedStep>) -> Rc<dyn StepRecorder>;

    /// The request holds a lock or waits for its place in a limit. So what a step did has to be stored
    /// before the lock is free, and the request cannot be put aside.
    fn locks(&self);

    /// Whether something that an earlier run has begun has to be undone before the function goes on, or the request
    /// only ends.
    fn is_to_undo(&self) -> bool;

    /// All that [was to be undone](Self::is_to_undo) is, or has failed to be. Completes when the function may go on;
    /// never, if the host does not own the request any more.
    ///
    /// # Errors
    /// That with which the request ends instead.
    fn undone(&self) -> Later<Result<(), Error>>;

    /// The steps of the function ended normally. Only the check of the result is left.
    fn finished(&self);

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

/// Records one step for its replay.
pub trait StepRecorder: ReplayHooks {
    /// The body, or an attempt of it, is about to begin: completes when the records that it depends
    /// on are stored, and never if this host does not own the request any more.
    fn begin(&self, attempt: u32) -> Later<Result<Running, Error>>;

    /// The body ran this long without a pause, and nothing else on its arbiter meanwhile.
    fn ran(&self, without_a_pause: Duration);

    /// An attempt of the body returned this result: completes when the step may go on.
    fn done(&self, attempt: u32, result: Stored) -> Later<Result<(), Error>>;

    /// An attempt of the body returned this work: completes when it is done, and its result stored with
    /// it.
    fn transact(&self, attempt: u32, work: Work) -> Later<Result<Stored, Error>>;

    /// The step waits, instead of running a body: completes with the result of the wait.
    fn wait(&self, wait: WaitFor) -> Later<Result<Stored, Error>>;

    /// The body, or an attempt of a step with sub-steps, is about to do several things with these keys: returns the
    /// keys in the order in which they were recorded when it began.
    ///
    /// # Errors
    /// The error of the step, if other keys were recorded.
    fn keys(&self, attempt: u32, keys: Vec<String>) -> Result<Vec<String>, Error>;

    /// The replay hooks of steps that the executor adds inside of an attempt of the step, at this path, around the
    /// steps of the application: they represent the attempt, or an iteration or an item in it. If one of these steps
    /// fails, so does what it represents.
    fn inside(&self, attempt: u32, path: &[Part]) -> Rc<dyn ReplayHooks>;

    /// The result that is stored of the step, if it ended well in an earlier run.
    fn stored(&self) -> Option<Stored>;

    /// The step takes this, which is stored before its body begins.
    ///
    /// # Errors
    /// If it cannot be stored: then the body does not begin.
    fn takes(&self, input: Stored) -> Result<(), Error>;

    /// The input that the step [took](Self::takes) in an earlier run, if that is stored.
    fn input(&self) -> Option<Stored>;

    /// Whether the step, or one inside of it, has to be undone before the function goes on.
    fn is_to_undo(&self) -> bool;

    /// The attempts of the step in which something has to be undone before the function goes on, with the iteration or
    /// the item that it is in; the newest first.
    fn to_undo_inside(&self) -> Vec<Begun>;

    /// The undo of the step is about to begin; `None` if it must not run.
    fn begin_undo(&self) -> Later<Option<Running>>;

    /// The step is undone: completes when other undos may begin.
    fn undone(&self) -> Later<()>;

    /// The undo of the step has failed with this error. It may be tried again.
    fn undo_failed(&self, error: &Error);

    /// These sub-steps were defined in an attempt of the step, at this path, before the first of them starts.
    ///
    /// # Errors
    /// The error of the step, if the host cannot go on with them.
    fn defined(&self, attempt: u32, path: &[Part], steps: &[Rc<DefinedStep>]) -> Result<(), Error>;

    /// The time of day for the code that defines sub-steps of the step at this path: the same whenever the
    /// request is carried out again.
    fn now(&self, path: &[Part]) -> SystemTime;

    /// The sub-steps of the step at this path ended normally. If they are the steps of a [scope](crate::Steps::scope),
    /// this `is_final`: they are not undone any more.
    fn ended(&self, path: &[Part], is_final: bool);

    /// Whether anything is stored of the step at the path that it has now, or inside of it. Asked before
    /// the step starts, if it [had other names](crate::Step::was).
    fn is_known(&self) -> bool;

    /// An attempt of a loop begins: returns its remaining work.
    fn iterations(&self, attempt: u32) -> Iterations;

    /// An iteration of a loop ended.
    ///
    /// # Errors
    /// If what follows cannot be stored.
    fn iterated(&self, iteration: EndedIteration) -> Result<(), Error>;
}

/// An attempt of a step that has begun, or an iteration or an item in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is what an undo needs")]
pub struct Begun {
    /// The attempt, from 1.
    pub attempt: u32,
    /// A [`Part::Iteration`] or a [`Part::Item`] of it.
    pub part: Option<Part>,
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

/// An iteration of a loop that ended.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is what a host is told")]
pub struct EndedIteration {
    /// The attempt of the loop, from 1.
    pub attempt: u32,
    /// Which iteration of it, from 0.
    pub index: u64,
    /// Whether a step in it can be undone after it ended.
    pub can_be_undone: bool,
    /// What follows.
    pub next: ControlFlow<Stored, Stored>,
}

/// A step, as the host knows it.
#[derive(derive_more::Debug)]
#[debug(
    "DefinedStep {{ path: {:?}, form: {form:?}, kind: {kind:?}, .. }}",
    self.parts().collect::<Vec<_>>()
)]
pub struct DefinedStep {
    /// Where the application wrote it.
    pub source: &'static Location<'static>,
    /// Whether it has sub-steps.
    pub form: Form,
    /// Where the step around it is.
    around: Vec<Part>,
    /// In which of several branches it is that were defined together.
    branch: usize,
    /// Its names, the newest first; none for the function as a whole.
    names: RefCell<Vec<&'static str>>,
    /// The name by which the host knows it, and its number among steps of that name.
    known_as: Cell<Option<(&'static str, usize)>>,
    kind: Cell<Option<Kind>>,
    errors: ErrorsOfService,
    is_undone: Cell<bool>,
    commits: Cell<bool>,
    has_items: Cell<bool>,
    read: OnceCell<ReadResult>,
}

/// Reads a stored result of a step.
type ReadResult = Box<dyn Fn(&Stored) -> Result<Args, Error>>;

/// A part of the path to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a host has to tell all of them apart")]
pub enum Part {
    /// A step, by its name.
    Step(&'static str),
    /// Its number among the steps of this name on the same level, from 2.
    Nth(usize),
    /// The number of the attempt of this step with sub-steps, from 2.
    Attempt(u32),
    /// The number of the iteration of this loop, from 0.
    Iteration(u64),
    /// One of several things that this step does, by its key: its number from 0, unless it has a key of its own.
    Item(Rc<str>),
}

/// Whether a step has sub-steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no other form")]
pub enum Form {
    /// It is an async closure.
    Body,
    /// It has sub-steps.
    Nested,
    /// It has sub-steps in each of its iterations.
    Loop,
}

/// What a step waits for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WaitFor {
    /// This time, from the first time that it begins; returns `()`.
    Time(Duration),
    /// A signal with the name of the step, which others send; returns its value, or null after the
    /// time.
    Signal(Option<Duration>),
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

impl DefinedStep {
    /// A step inside of the one at `around`, in a branch of it; without a name it is the function as a whole.
    pub(crate) fn new(
        (around, branch): (Vec<Part>, usize),
        name: Option<(&'static str, usize)>,
        source: &'static Location<'static>,
        (form, errors): (Form, ErrorsOfService),
    ) -> Self {
        let names = RefCell::new(name.iter().map(|(name, _)| *name).collect());
        let (known_as, kind) = (Cell::new(name), Cell::new(None));
        let (is_undone, has_items) = (Cell::default(), Cell::default());
        let (commits, read) = (Cell::default(), OnceCell::new());
        Self {
            source,
            form,
            around,
            branch,
            names,
            known_as,
            kind,
            errors,
            is_undone,
            commits,
            has_items,
            read,
        }
    }

    /// Where it is, from the outside in; empty for the function as a whole. A step that
    /// [had other names](crate::Step::was) is where one of these puts it. That is settled when the step
    /// starts.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let named =
            self.known_as.get().into_iter().flat_map(|(name, nth)| {
                [Some(Part::Step(name)), (nth > 1).then_some(Part::Nth(nth))]
            });
        self.around.iter().cloned().chain(named.flatten())
    }

    /// In which of several branches it is that were defined together; 0 if there are none. Steps of a branch follow
    /// each other in the order in which they were defined.
    #[must_use]
    pub fn branch(&self) -> usize {
        self.branch
    }

    /// Whether it is the function as a whole.
    #[must_use]
    pub fn is_function(&self) -> bool {
        self.parts().next().is_none()
    }

    /// Its names, the newest first; none for the function as a whole.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.names.borrow().clone()
    }

    /// The name by which the host knows it, and its number among steps of that name.
    pub(crate) fn known_as(&self) -> Option<(&'static str, usize)> {
        self.known_as.get()
    }

    /// It had this name before the names that are known.
    pub(crate) fn add_name(&self, name: &'static str) {
        self.names.borrow_mut().push(name);
    }

    /// The host knows it by this name.
    pub(crate) fn set_known_as(&self, name: (&'static str, usize)) {
        self.known_as.set(Some(name));
    }

    /// How the host treats its body; `None` if that was not set.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.kind.get()
    }

    /// Whether it [commits](crate::Step::commits) its request.
    #[must_use]
    pub fn commits(&self) -> bool {
        self.commits.get()
    }

    pub(crate) fn set_commits(&self) {
        self.commits.set(true);
    }

    /// Whether it can be undone.
    #[must_use]
    pub fn can_be_undone(&self) -> bool {
        self.is_undone.get()
    }

    /// Whether its body does several things.
    #[must_use]
    pub fn has_items(&self) -> bool {
        self.has_items.get()
    }

    /// What the host records of an error of the step in addition to its code and information, so that [`Error::find`]
    /// finds it after a crash, and why its value is left out. `None` if neither it nor a cause of it is of a type that
    /// the service lists.
    #[must_use]
    pub fn recorded_error(&self, error: &Error) -> Option<(RecordedError, Option<BoxError>)> {
        (self.errors.record)(error)
    }

    /// An error of the step of which the host has recorded code and information, and what
    /// [`recorded_error`](Self::recorded_error) returned. If that is missing, an error that its code determines is
    /// its cause.
    ///
    /// # Errors
    /// If the value that is recorded cannot be read.
    pub fn recalled(
        &self,
        error: Error,
        recorded: Option<RecordedError>,
    ) -> Result<Error, BoxError> {
        self.errors.recalled(error, recorded)
    }

    /// Reads a stored result of the step.
    ///
    /// # Errors
    /// If the value is not of the type that the step returns.
    pub fn read(&self, stored: &Stored) -> Option<Result<Args, Error>> {
        self.read.get().map(|read| read(stored))
    }

    pub(crate) fn set_kind(&self, kind: Kind) {
        self.kind.set(Some(kind));
    }

    pub(crate) fn set_read(&self, read: ReadResult) {
        // said twice, the first one counts: both read the same type
        let _ = self.read.set(read);
    }

    pub(crate) fn set_can_be_undone(&self) {
        self.is_undone.set(true);
    }

    pub(crate) fn set_has_items(&self) {
        self.has_items.set(true);
    }
}

/// The memory of the request that a flow serves, as an extension of the flow.
pub(crate) struct OfRequest(pub(crate) Rc<dyn RequestRecorder>);
