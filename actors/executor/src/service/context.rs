//! What the bodies of a function get: the state of the service, and what is known of the request.

use std::any::type_name;
use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps::{AsyncSteps, Codes, Error, Raised, RunContext, codes};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

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
    step: StepOf,
    key: OnceCell<Box<str>>,
}

/// What all steps of a request share.
struct Request {
    served: ServedRequest,
    /// Made when it is first asked for.
    id: OnceCell<Box<str>>,
}

/// The step that a context was made for.
#[derive(Clone, Debug)]
struct StepOf {
    name: &'static str,
    /// Where the application wrote it.
    source: &'static Location<'static>,
    /// The branch that it is in: its number, behind those of the branches around it.
    branch: Option<Rc<str>>,
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
            request: Rc::new(Request { served: info.handle(), id: OnceCell::new() }),
            step: StepOf { name: function, source, branch: None, item: None, attempt: 1 },
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
    /// It is the random id of the request, then the names of the function and of the step. So steps
    /// of one function need different names. A step in a [branch](super::Steps::parallel) has the
    /// number of that before its name, and an item has its own behind a `#`.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.get_or_init(|| {
            let id = self.request.id.get_or_init(random_id);
            let (function, step) = (self.request.served.function().func(), self.step.name);
            let branch = self.step.branch.as_ref().map(|branch| format!("-{branch}"));
            let item = self.step.item.map(|item| format!("#{item}"));
            let [branch, item] = [branch, item].map(Option::unwrap_or_default);
            format!("{id}-{function}{branch}-{step}{item}").into()
        })
    }

    pub(super) fn step_name(&self) -> &'static str {
        self.step.name
    }

    /// Where the application wrote the step.
    pub(super) fn source(&self) -> &'static Location<'static> {
        self.step.source
    }

    /// The context of another step of the function, which the caller adds.
    #[track_caller]
    pub(super) fn of_step(&self, name: &'static str) -> Self {
        let (source, branch) = (Location::caller(), self.step.branch.clone());
        self.with(StepOf { name, source, branch, item: None, attempt: 1 })
    }

    /// The context of a branch of the step.
    pub(super) fn of_branch(&self, number: usize) -> Self {
        let branch = match &self.step.branch {
            Some(outer) => format!("{outer}.{number}").into(),
            None => number.to_string().into(),
        };
        self.with(StepOf { branch: Some(branch), ..self.step.clone() })
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
