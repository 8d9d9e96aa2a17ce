//! Handlers with types as functions of an interface.

use std::panic::Location;
use std::sync::Arc;

use asyncsteps_core::Template;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::functions::Functions;
use super::handler_types::{FunctionResult, HandlerTypes, codes_to_declare};
use super::implementation::Implementation;
use crate::plan::{Mistake, Plan};
use crate::service::{Built, FunctionOf, Handler, Service};

impl<S> Functions<S> {
    /// The function's business logic as a handler with types: a function that adds steps, or an
    /// `async fn`; see [`service`](crate::service). Its errors are those of [`add`](Self::add), with
    /// the codes of [`Service::Errors`].
    ///
    /// Each point in which the types differ from the definition is an error when the executor is
    /// built. An interface that is [written down from types](crate::typed::Interface) gets the
    /// function, unless it declares it already.
    #[track_caller]
    pub fn on<Form, H>(&mut self, function: &'static str, handler: H) -> &mut Self
    where
        S: Service,
        H: Handler<S, Form>,
        H::Params: DeserializeOwned + JsonSchema,
        H::Result: FunctionResult,
    {
        self.host(function, handler, None, Location::caller())
    }

    /// The same for a function whose requests a host [remembers](crate::recorder). Callers get `front`,
    /// which has the host carry the request out; the handler runs for requests
    /// [with a memory](crate::Incoming::with_memory).
    #[track_caller]
    pub fn on_behind<Form, H>(
        &mut self,
        front: &Template,
        function: &'static str,
        handler: H,
    ) -> &mut Self
    where
        S: Service,
        H: Handler<S, Form>,
        H::Params: DeserializeOwned + JsonSchema,
        H::Result: FunctionResult,
    {
        self.host(function, handler, Some(front.clone()), Location::caller())
    }

    fn host<Form, H>(
        &mut self,
        function: &'static str,
        handler: H,
        front: Option<Template>,
        source: &'static Location<'static>,
    ) -> &mut Self
    where
        S: Service,
        H: Handler<S, Form>,
        H::Params: DeserializeOwned + JsonSchema,
        H::Result: FunctionResult,
    {
        self.codes.extend(codes_to_declare::<S::Errors>());
        if front.is_some() && H::TAKES_RAW {
            let what = "a function that a host records cannot take raw data".to_owned();
            self.mistakes(function, vec![Mistake { source, what }]);
        }
        let types =
            HandlerTypes::new::<H::Params, H::Result, S::Errors>(front.is_some(), H::TAKES_RAW);
        let of = FunctionOf { name: function, state: Arc::clone(&self.state), source, front };
        let Built { template, front, plan, mistakes } = Arc::new(handler).build(&of);
        self.mistakes(function, mistakes);
        let plan = plan.map(|plan| {
            let function = format!("{}:{function}", self.interface());
            Arc::new(Plan { function, ..plan })
        });
        self.set(function, Some(Implementation::typed((template, front), types, plan)))
    }
}
