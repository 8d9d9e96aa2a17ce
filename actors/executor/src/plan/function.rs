//! Functions: their handlers, and their built form that serves requests.

use std::panic::Location;
use std::sync::Arc;

use asyncsteps_core::{Args, Arguments, Error, Template, codes};
use serde::de::DeserializeOwned;

use super::data::Plan;
use super::mistake::Mistake;
use super::service::Service;
use super::step_view::Planned;

/// The business logic of a function of the service `S`: `fn(&Steps<S, P>) -> Returns<R>`, which returns its
/// plan, or `async fn(&Cx<S, P>) -> BodyResult<R>`. `Form` names which; it is never written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle a function of the service `{S}`",
    label = "not a handler of `{S}`",
    note = "a handler is `fn(&Steps<{S}, P>) -> Returns<R>` or `async fn(&Cx<{S}, P>) -> BodyResult<R>`"
)]
pub trait Handler<S: Service, Form>: Send + Sync + 'static {
    /// Its input: the parameters as a type.
    type Params: 'static;
    /// Its result as a type, `()` for none.
    type Result: 'static;

    /// Whether it takes raw data in addition to its parameters.
    #[doc(hidden)]
    const TAKES_RAW: bool = false;

    /// Builds what serves the requests of the function.
    #[doc(hidden)]
    fn build(self: Arc<Self>, function: &FunctionOf<S>) -> Built
    where
        Self::Params: DeserializeOwned;
}

/// The result of the last step of a request, as these types.
pub(crate) fn typed<A: Arguments>(returned: Args) -> Result<A, Error> {
    A::from_args(returned).map_err(|mismatch| Error::caused_by(codes::INTERNAL_ERROR, mismatch))
}

/// A function that is added to an executor.
#[doc(hidden)]
#[derive(Debug)]
pub struct FunctionOf<S> {
    pub(crate) name: &'static str,
    pub(crate) state: Arc<S>,
    /// Where the application passed it.
    pub(crate) source: &'static Location<'static>,
    /// The front for callers, if a host remembers its requests.
    pub(crate) front: Option<Template>,
}

/// A built function that serves requests.
#[doc(hidden)]
#[derive(Debug)]
pub struct Built {
    pub(crate) template: Template,
    /// The front for callers, if a host remembers its requests.
    pub(crate) front: Option<Template>,
    /// The steps as data, if they are known.
    pub(crate) plan: Option<Plan>,
    /// The same for a host that records its requests.
    pub(crate) planned: Option<Arc<Planned>>,
    /// Why the function cannot be served.
    pub(crate) mistakes: Vec<Mistake>,
}

impl Built {
    /// A function that cannot be served.
    pub(crate) fn mistaken(mistakes: Vec<Mistake>) -> Self {
        Self { template: Template::build(|_| {}), front: None, plan: None, planned: None, mistakes }
    }
}
