//! Handlers with types as functions of an interface.

use std::panic::Location;
use std::sync::Arc;

use asyncsteps_core::Template;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::functions::Functions;
use super::handler_types::{EventTypes, FunctionResult, HandlerTypes, codes_to_declare};
use super::implementation::Implementation;
use crate::plan::{Built, Emits, FunctionOf, Handler, Mistake, Plan, Planned, Service};

impl<S> Functions<S> {
    /// The function's business logic as a handler with types: a function that adds steps, or an `async
    /// fn`; see [`functions`](crate::functions). It may raise the same errors as with
    /// [`add`](Self::add), with the codes of [`Service::Errors`].
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
        self.host(function, handler, None, Location::caller());
        self
    }

    /// The same for a function with a host. Callers get `front`, which lets the host carry the request out; the handler
    /// runs for requests [with a memory](crate::Incoming::with_memory), which the host [records](crate::recorder), and
    /// where the front adds its [steps](crate::RequestInfo::own_steps). Returns the steps of the function, if they are
    /// known.
    #[track_caller]
    pub fn on_behind<Form, H>(
        &mut self,
        front: &Template,
        function: &'static str,
        handler: H,
    ) -> Option<Arc<Planned>>
    where
        S: Service,
        H: Handler<S, Form>,
        H::Params: DeserializeOwned + JsonSchema,
        H::Result: FunctionResult,
    {
        self.host(function, handler, Some(front.clone()), Location::caller())
    }

    /// Says that the function, which takes a `P`, [emits](crate::Cx::emit) events, so that clients know their type: it is
    /// that of the interface which is named after the function, such as `OrderEvent` of `order`. One that is written down
    /// from types gets it.
    ///
    /// ```
    /// # use asyncsteps_executor::{Emits, Executor, Returns, Steps};
    /// # use asyncsteps_executor::typed::Interface;
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Book {}
    /// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)] enum Progress { Found, Paid }
    /// # fn book(steps: &Steps<(), Book>) -> Returns<()> { steps.pass().returns() }
    /// impl Emits for Book {
    ///     type Event = Progress;
    /// }
    ///
    /// # actix::System::new().block_on(async {
    /// let interface = Interface::new("acme.rides:1.0".parse()?);
    /// let executor = Executor::builder()
    ///     .service(interface, (), |functions| _ = functions.on("book", book).emits::<Book>("book"))
    ///     .build()?;
    /// assert_eq!(executor.definitions()[0].event_type("book"), Some("BookEvent"));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn emits<P: Emits<Event: JsonSchema>>(&mut self, function: &str) -> &mut Self {
        self.events.insert(function.into(), EventTypes::of::<P::Event>());
        self
    }

    fn host<Form, H>(
        &mut self,
        function: &'static str,
        handler: H,
        front: Option<Template>,
        source: &'static Location<'static>,
    ) -> Option<Arc<Planned>>
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
        let types = HandlerTypes::new::<S, Form, H>(front.is_some());
        let of = FunctionOf { name: function, state: Arc::clone(&self.state), source, front };
        let Built { template, front, plan, planned, mistakes } = Arc::new(handler).build(&of);
        self.mistakes(function, mistakes);
        let plan = plan.map(|plan| {
            let function = format!("{}:{function}", self.interface());
            Arc::new(Plan { function, ..plan })
        });
        self.set(function, Some(Implementation::typed((template, front), types, plan)));
        planned
    }
}
