//! What the bodies of a function get: the state of the service, and what is known of the request.

use std::any::type_name;
use std::cell::OnceCell;
use std::error::Error as _;
use std::fmt::{self, Write as _};
use std::iter;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use asyncsteps_actors::sync::{FencingToken, fences};
use asyncsteps_core::replay::ReplayHooks;
use asyncsteps_core::{AsyncSteps, Codes, Error, RunContext, StepError, codes};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::key::{Around, Item, Iteration, Siblings, StepName, Undoes};
use super::remembered::Remembered;
use crate::executor::{RequestSteps, ServedRequest};
use crate::recorder::{
    DefinedStep, ErrorsOfService, Form, OfRequest, Part, RequestRecorder, StepRecorder,
};

/// The state that the functions of an interface share, and the errors that their callers see.
///
/// ```
/// use asyncsteps_executor::Service;
///
/// struct Payments { currency: String }
///
/// impl Service for Payments {
///     type Errors = ();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no service",
    label = "not a `Service`",
    note = "write `impl Service for {Self} {{ type Errors = (MyError,); }}` with the errors whose codes \
            callers see, or `type Errors = ();`"
)]
pub trait Service: Send + Sync + 'static {
    /// The errors whose codes callers see: types that derive [`Code`](asyncsteps_core::Code), as a tuple.
    /// Any other error is InternalError for the caller, and its text goes to the log only.
    type Errors: Codes;
}

/// For functions that share nothing.
impl Service for () {
    type Errors = ();
}

/// What the body of a step gets: the state of the service, to which it dereferences, the parameters,
/// and what is known of the request and of the step.
///
/// Cloning shares state and parameters.
pub struct Cx<S: Service, P> {
    /// The parameters, checked by the definition.
    pub params: Rc<P>,
    request: Rc<Request<S>>,
    /// The steps beside the step; `None` for those of the function.
    nested: Option<Rc<Siblings>>,
    step: StepOf,
    key: OnceCell<Box<str>>,
}

/// What all steps of a request share.
struct Request<S> {
    /// The state of the service.
    state: Arc<S>,
    served: ServedRequest,
    /// Made when it is first asked for.
    id: OnceCell<Box<str>>,
    /// The steps of the function.
    steps: Siblings,
    memory: Option<Rc<dyn RequestRecorder>>,
    /// The tokens of the locks that the caller holds.
    fences: Vec<FencingToken>,
}

/// The step that a context was made for.
#[derive(Clone, Debug)]
struct StepOf {
    name: StepName,
    /// The step as the host of the request knows it, if it remembers the request.
    defined: Option<Rc<DefinedStep>>,
    /// Where the application wrote it.
    source: &'static Location<'static>,
    item: Option<Item>,
    attempt: u32,
}

impl<S: Service, P: DeserializeOwned> Cx<S, P> {
    /// The context of the request that the flow serves.
    pub(super) fn of_request(
        asi: &AsyncSteps,
        state: &Arc<S>,
        function: &'static str,
        source: &'static Location<'static>,
    ) -> Result<Self, Error> {
        let info = asi.request()?;
        let memory = asi.extension::<OfRequest>().map(|OfRequest(memory)| Rc::clone(memory));
        let id = OnceCell::new();
        let root = memory.as_ref().map(|memory| {
            let _ = id.set(memory.id().into());
            memory.step(Rc::new(DefinedStep::new(
                (Vec::new(), 0),
                None,
                source,
                (Form::Nested, errors_of::<S>()),
            )))
        });
        Ok(Self {
            params: Rc::new(read(info.params())?),
            request: Rc::new(Request {
                state: Arc::clone(state),
                served: info.handle(),
                id,
                steps: Siblings::of_function(root),
                memory,
                fences: fences(asi),
            }),
            nested: None,
            step: StepOf {
                name: StepName::only(function),
                defined: None,
                source,
                item: None,
                attempt: 1,
            },
            key: OnceCell::new(),
        })
    }
}

impl<S: Service, P> Cx<S, P> {
    /// Whether it is that of sub-steps, and not of the function.
    pub(super) fn is_nested(&self) -> bool {
        self.nested.is_some()
    }

    /// The request that the function serves.
    #[must_use]
    pub fn request(&self) -> &ServedRequest {
        &self.request.served
    }

    /// The tokens of the locks between machines that the caller of the request holds, for what the function
    /// writes to. Calls that steps make with [`CallSteps`](crate::CallSteps) hand them on; a call in a body
    /// names them with [`Invocation::with_fences`](crate::Invocation::with_fences).
    #[must_use]
    pub fn fences(&self) -> &[FencingToken] {
        &self.request.fences
    }

    /// Which attempt of the step this is, from 1; see [`Retry`](asyncsteps_core::Retry).
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.step.attempt
    }

    /// The idempotency key of the step: what it asks of another service goes along with it, so that
    /// the other side carries it out once. All attempts of the step and its undo have the same key,
    /// other steps, other items of [`each`](super::Steps::each) and other requests have other ones.
    ///
    /// If a step with sub-steps is tried again, and some of them can be undone, all of them have new
    /// keys in each attempt: what was asked for under an old one is undone. If none of them can be
    /// undone, they keep their keys, so that nothing is carried out twice. So among sub-steps that are
    /// tried again together, either all that have an effect elsewhere can be undone, or none.
    ///
    /// The key is the random id of the request, then the names of the function and of the step, with
    /// the steps around it and a slash between them. A further attempt of one of those has its number
    /// behind a dot, a further step of the same name has its number behind a `~`, and an item or an
    /// iteration behind a `#`.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.get_or_init(|| self.key_of(|key| self.write_step(key)).into())
    }

    /// What the steps beside the step have in common: other than in their keys, an attempt that defines them
    /// anew counts, whether or not they can be undone.
    pub(super) fn key_around(&self) -> String {
        self.key_of(|key| {
            self.siblings().path().into_iter().try_for_each(|part| match part {
                Part::Step(name) => write!(key, "/{name}"),
                Part::Nth(number) => write!(key, "~{number}"),
                Part::Attempt(number) => write!(key, ".{number}"),
                Part::Iteration(index) => write!(key, "#{index}"),
                Part::Item(item) => write!(key, "@{item}"),
            })
        })
    }

    /// A text that tells something from all others, of this request and others.
    fn key_of(&self, write: impl FnOnce(&mut String) -> fmt::Result) -> String {
        let id = self.request.id.get_or_init(random_id);
        let mut key = format!("{id}-{}-", self.request.served.function().func());
        match write(&mut key) {
            Ok(()) => key,
            Err(fmt::Error) => unreachable!("a string takes what is written"),
        }
    }

    /// The time of day that the host has recorded for the steps beside the step.
    pub(super) fn time_around(&self) -> Option<SystemTime> {
        Some(self.siblings().memory()?.now(&self.siblings().path()))
    }

    fn write_step(&self, key: &mut String) -> fmt::Result {
        self.siblings().write_path(key)?;
        self.known_name().write(key)?;
        self.step.item.as_ref().map_or(Ok(()), |item| item.write(key))
    }

    /// The steps beside the step.
    fn siblings(&self) -> &Siblings {
        self.nested.as_deref().unwrap_or(&self.request.steps)
    }

    pub(super) fn step_name(&self) -> &'static str {
        self.step.name.name
    }

    /// Where the application wrote the step.
    pub(super) fn source(&self) -> &'static Location<'static> {
        self.step.source
    }

    /// The name by which the host knows the step: another one if it [was](super::Step::was) renamed.
    fn known_name(&self) -> StepName {
        let known = self.step.defined.as_ref().and_then(|step| step.known_as());
        known.map_or(self.step.name, StepName::nth)
    }

    /// The context of another step, which the caller adds beside the step.
    #[track_caller]
    pub(super) fn of_new_step(&self, name: &'static str, form: Form) -> Self {
        let (name, source) = (self.siblings().add(name), Location::caller());
        let defined = self.memory().map(|_| {
            let siblings = self.siblings();
            let step = Rc::new(DefinedStep::new(
                (siblings.path(), siblings.branch()),
                Some(name.numbered()),
                source,
                (form, errors_of::<S>()),
            ));
            siblings.define(Rc::clone(&step));
            step
        });
        self.with(StepOf { name, defined, source, item: None, attempt: 1 })
    }

    /// The step, which was added last, had this name before: the host knows it by the newest of its names
    /// of which it has stored something, or by the oldest.
    pub(super) fn renamed(
        &self,
        remembered: &DefinedStep,
        memory: &dyn StepRecorder,
        old: &'static str,
    ) {
        remembered.add_name(old);
        if !memory.is_known() {
            remembered.set_known_as(self.siblings().rename(old).numbered());
        }
    }

    /// The context of the sub-steps that an attempt of the step adds, or an iteration in it.
    pub(super) fn of_substeps(
        &self,
        attempt: u32,
        undoes: &Undoes,
        iteration: Option<Iteration>,
        memory: Option<Rc<dyn StepRecorder>>,
    ) -> Self {
        let (siblings, step, undoes) = (self.nested.clone(), self.known_name(), undoes.clone());
        let around = Around { siblings, step, attempt, undoes, iteration };
        Self { nested: Some(Rc::new(Siblings::inside(around, memory))), ..self.clone() }
    }

    /// The normal end of the steps beside the step is final.
    pub(super) fn set_final(&self) {
        self.siblings().set_final();
    }

    /// What the host of the request remembers of it.
    pub(super) fn memory(&self) -> Option<&Rc<dyn RequestRecorder>> {
        self.request.memory.as_ref()
    }

    /// What the host remembers of the step, which was just defined.
    pub(super) fn remember<T>(&self) -> Option<Rc<Remembered<T>>> {
        let (memory, step) = self.memory().zip(self.step.defined.as_ref())?;
        Some(Remembered::new(Rc::clone(step), memory.step(Rc::clone(step))))
    }

    /// The steps that are defined from now on are those of a further branch.
    pub(super) fn begin_branch(&self) {
        self.siblings().begin_branch();
    }

    /// Tells the host the steps that were defined beside the step.
    pub(super) fn check_defined(&self) -> Result<(), Error> {
        self.siblings().check_defined()
    }

    /// Notifies the host that the steps beside the step ended normally.
    pub(super) fn ended(&self) {
        self.siblings().ended();
    }

    /// What the host remembers of steps between the step around the step and the step.
    pub(super) fn memory_inside(&self) -> Option<Rc<dyn ReplayHooks>> {
        self.siblings().memory_inside()
    }

    /// The path of the attempt of the step around the step, without the iteration.
    pub(super) fn path_of_attempt(&self) -> Vec<Part> {
        let mut path = self.siblings().path();
        path.pop_if(|part| matches!(part, Part::Iteration(_)));
        path
    }

    /// What the host remembers of the step around the step.
    pub(super) fn memory_around(&self) -> Option<&Rc<dyn StepRecorder>> {
        self.siblings().memory()
    }

    /// A lock is held around a part of the request.
    pub(super) fn locks(&self) {
        if let Some(memory) = self.memory() {
            memory.locks();
        }
    }

    /// The step can be undone.
    pub(super) fn can_be_undone(&self) {
        self.siblings().can_be_undone();
    }

    /// The step had an undo in an earlier version of the function.
    pub(super) fn had_undo(&self) {
        self.siblings().have_undo();
    }

    /// The context of an attempt of the step.
    pub(super) fn of_attempt(&self, run: RunContext) -> Self {
        self.with(StepOf { attempt: run.attempt, ..self.step.clone() })
    }

    /// The context of one of several things that the step does.
    pub(super) fn of_item(&self, item: Item) -> Self {
        self.with(StepOf { item: Some(item), ..self.step.clone() })
    }

    fn with(&self, step: StepOf) -> Self {
        Self {
            params: Rc::clone(&self.params),
            request: Rc::clone(&self.request),
            nested: self.nested.clone(),
            step,
            key: OnceCell::new(),
        }
    }
}

impl<S: Service, P> Clone for Cx<S, P> {
    fn clone(&self) -> Self {
        self.with(self.step.clone())
    }
}

impl<S: Service, P> Deref for Cx<S, P> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.request.state
    }
}

impl<S: Service, P> fmt::Debug for Cx<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("service", &type_name::<S>())
            .field("request", &self.request.served)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// The error of a body, with the code that its type has for the service.
pub(crate) fn coded<S: Service>(raised: StepError) -> StepError {
    raised.into_error().coded::<S::Errors>().into()
}

/// How errors of the service are recorded, and made again.
pub(crate) fn errors_of<S: Service>() -> ErrorsOfService {
    ErrorsOfService {
        record: |error| {
            iter::successors(error.source(), |error| (**error).source()).find_map(S::Errors::record)
        },
        recall: S::Errors::recall,
    }
}

/// Reads the parameters of a request; a function without any may take `()`.
pub(crate) fn read<P: DeserializeOwned>(params: &Map<String, Value>) -> Result<P, Error> {
    if params.is_empty()
        && let Ok(nothing) = P::deserialize(Value::Null)
    {
        return Ok(nothing);
    }
    P::deserialize(params).map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))
}

/// 128 random bits.
pub(crate) fn random_id() -> Box<str> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => format!("{:032x}", u128::from_ne_bytes(bytes)).into(),
        Err(error) => panic!("the system gives no random bytes: {error}"),
    }
}
