//! What the bodies of a function get: the state of the service, and what is known of the request.

use std::any::type_name;
use std::cell::OnceCell;
use std::fmt::{self, Write};
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps::{AsyncSteps, Codes, Error, Raised, RunContext, codes};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::key::{Around, Siblings, StepName, Undoes};
use crate::executor::{RequestSteps, ServedRequest};

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
    /// The errors whose codes callers see: types that derive [`Code`](asyncsteps::Code), as a tuple.
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
    state: Arc<S>,
    request: Rc<Request>,
    /// The steps beside the step; `None` for those of the function.
    nested: Option<Rc<Siblings>>,
    step: StepOf,
    key: OnceCell<Box<str>>,
}

/// What all steps of a request share.
struct Request {
    served: ServedRequest,
    /// Made when it is first asked for.
    id: OnceCell<Box<str>>,
    /// The steps of the function.
    steps: Siblings,
}

/// The step that a context was made for.
#[derive(Clone, Debug)]
struct StepOf {
    name: StepName,
    /// Where the application wrote it.
    source: &'static Location<'static>,
    item: Option<usize>,
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
        Ok(Self {
            params: Rc::new(read(info.params())?),
            state: Arc::clone(state),
            request: Rc::new(Request {
                served: info.handle(),
                id: OnceCell::new(),
                steps: Siblings::default(),
            }),
            nested: None,
            step: StepOf { name: StepName::only(function), source, item: None, attempt: 1 },
            key: OnceCell::new(),
        })
    }
}

impl<S: Service, P> Cx<S, P> {
    /// The request that the function serves.
    #[must_use]
    pub fn request(&self) -> &ServedRequest {
        &self.request.served
    }

    /// Which attempt of the step this is, from 1; see [`Retry`](asyncsteps::Retry).
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
    /// behind a dot, a further step of the same name has its number behind a `~`, and an item behind a
    /// `#`.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.get_or_init(|| {
            let id = self.request.id.get_or_init(random_id);
            let mut key = format!("{id}-{}-", self.request.served.function().func());
            match self.write_step(&mut key) {
                Ok(()) => key.into(),
                Err(fmt::Error) => unreachable!("a string takes what is written"),
            }
        })
    }

    fn write_step(&self, key: &mut String) -> fmt::Result {
        self.siblings().write_path(key)?;
        self.step.name.write(key)?;
        self.step.item.map_or(Ok(()), |item| write!(key, "#{item}"))
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

    /// The context of another step, which the caller adds beside the step.
    #[track_caller]
    pub(super) fn of_new_step(&self, name: &'static str) -> Self {
        let (name, source) = (self.siblings().add(name), Location::caller());
        self.with(StepOf { name, source, item: None, attempt: 1 })
    }

    /// The context of the sub-steps that an attempt of the step adds.
    pub(super) fn of_substeps(&self, attempt: u32, undoes: &Undoes) -> Self {
        let (siblings, undoes) = (self.nested.clone(), undoes.clone());
        let around = Around { siblings, step: self.step.name, attempt, undoes };
        Self { nested: Some(Rc::new(Siblings::inside(around))), ..self.clone() }
    }

    /// The step can be undone.
    pub(super) fn can_be_undone(&self) {
        self.siblings().can_be_undone();
    }

    /// The context of an attempt of the step.
    pub(super) fn of_attempt(&self, run: RunContext) -> Self {
        self.with(StepOf { attempt: run.attempt, ..self.step.clone() })
    }

    /// The context of one of several things that the step does.
    pub(super) fn of_item(&self, item: usize) -> Self {
        self.with(StepOf { item: Some(item), ..self.step.clone() })
    }

    fn with(&self, step: StepOf) -> Self {
        Self {
            params: Rc::clone(&self.params),
            state: Arc::clone(&self.state),
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
        &self.state
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
pub(super) fn coded<S: Service>(raised: Raised) -> Raised {
    raised.into_error().coded::<S::Errors>().into()
}

/// Reads the parameters of a request; a function without any may take `()`.
fn read<P: DeserializeOwned>(params: &Map<String, Value>) -> Result<P, Error> {
    if params.is_empty()
        && let Ok(nothing) = P::deserialize(Value::Null)
    {
        return Ok(nothing);
    }
    P::deserialize(params).map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))
}

/// 128 random bits.
fn random_id() -> Box<str> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => format!("{:032x}", u128::from_ne_bytes(bytes)).into(),
        Err(error) => panic!("the system gives no random bytes: {error}"),
    }
}
