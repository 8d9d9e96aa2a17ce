//! The Executor (FTN6): takes requests, checks them, runs the flow of the function, answers.
//!
//! There is one [`ExecutorActor`] per arbiter; all share one registry of interfaces. A request
//! runs on the arbiter that accepted it, and its flow in a task of its own if it has to wait.

mod admission;
mod answer;
mod assignments;
mod builder;
pub mod builtin;
mod call;
mod caller;
mod close;
mod exchange;
mod functions;
mod gate;
mod hashing;
mod hooks;
mod incoming;
mod listing;
mod registry;
mod reply;
mod request;
mod result_draft;
mod unanswerable;

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, Message as ActixMessage};
use asyncsteps::{Template, Time, codes};
use serde_json::{Map, Value};

use crate::channel::{Channel, ChannelKind};
use crate::observe;
use crate::raw::Head;
use crate::security::{Denied, SecurityProvider};
use asyncsteps_actors::budget::{Budget, Client, Usage};
use asyncsteps_actors::clock;
use asyncsteps_actors::flow::{earliest, host_flow};
use asyncsteps_actors::span::trace_steps;
use asyncsteps_futoin::iface::{Definition, FunctionName, Violation};
use asyncsteps_futoin::message::{Refusal, Request, Response};

pub use assignments::AssignError;
pub use builder::Builder;
pub use call::{CallSteps, FailedCall};
pub use caller::Caller;
pub use close::Closed;
pub use functions::{BlockingRequest, ConfigError, Functions};
pub use gate::{ClientLimits, Pass, Rejected};
pub use hooks::{Hooks, Way};
pub use incoming::Incoming;
pub use listing::{ListedFunction, ListedInterface, ListedParameter, Listing};
pub use reply::{Message, Reply, ReplyBody};
pub use request::{RequestInfo, RequestSteps};

use admission::{Flight, Flights};
use answer::Answer;
use exchange::{Asker, Exchange, Live, Origin, Places};
use gate::Gate;
use hashing::Hashing;
use registry::{Registry, Target};
use result_draft::ResultDraft;
use unanswerable::Unanswerable;

/// A cheap handle to an executor: use it from any arbiter.
///
/// Requests given to it run on the arbiter of the caller, which starts its [`ExecutorActor`] when
/// it needs one.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

/// Limits and times of an executor; see [`Builder`] for what they mean.
#[derive(Clone)]
struct Config {
    request_timeout: Duration,
    heavy_timeout: Duration,
    /// Bytes per second; zero for any.
    upload_rate: u64,
    budget: Budget,
    client: ClientOf,
    security: Option<Arc<dyn SecurityProvider>>,
    hooks: Option<Arc<dyn Hooks>>,
    gate: Option<Arc<Gate>>,
    checks_results: bool,
}

/// Whom a request is counted for.
type ClientOf = Arc<dyn Fn(&Request, &Channel) -> Client + Send + Sync>;

/// What the arbiters share.
struct Shared {
    config: Config,
    registry: Registry,
    flights: Arc<Flights>,
    actors: Mutex<Vec<Addr<ExecutorActor>>>,
    /// Apart from the budget, for work that takes a processor.
    hashing: Hashing,
    unanswerable: Unanswerable,
}

/// A request that passed the checks.
struct Checked {
    target: Arc<Target>,
    template: Template,
    function: FunctionName,
    params: Map<String, Value>,
    caller: Caller,
}

/// A request whose credentials are checked, which may take a while.
#[derive(Clone, Copy)]
struct Asked<'a> {
    flight: &'a Flight,
    client: &'a Client,
    deadline: Time,
}

/// A request whose flow may begin.
struct Admitted {
    checked: Checked,
    places: Places,
    begun: Time,
    deadline: Time,
    /// How long it may take in all, and how long raw data may stand still.
    patience: Duration,
}

impl Executor {
    /// Starts to build an executor.
    #[must_use = "a builder does nothing before it is built"]
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn new(config: Config, registry: Registry) -> Self {
        if let Some(hooks) = &config.hooks {
            hooks.ready();
        }
        Self {
            shared: Arc::new(Shared {
                config,
                registry,
                flights: Arc::default(),
                actors: Mutex::new(Vec::new()),
                hashing: Hashing::new(),
                unanswerable: Unanswerable::new(),
            }),
        }
    }

    /// Registers an interface while the executor runs; see [`Builder::interface`].
    ///
    /// # Errors
    /// [`ConfigError`] if a template is given for a function that the definition does not have, or
    /// the interface, or another one with the same parent, is registered already.
    pub fn register(
        &self,
        definition: Arc<Definition>,
        define: impl FnOnce(&mut Functions),
    ) -> Result<(), ConfigError> {
        self.shared.registry.register(definition, define)
    }

    /// Serves a request on this arbiter; short for [`serve`](Self::serve) with nothing else known.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    pub async fn dispatch(&self, request: Request, channel: Channel) -> Reply {
        self.serve(Incoming::new(request, channel)).await
    }

    /// Serves a request on this arbiter: checks it in the order of FTN6, runs the flow of its
    /// function, and answers.
    ///
    /// The future ends with the answer, with [`ReplyBody::Nothing`] for a function without result,
    /// or as soon as the flow begins to write raw data. Called by a step, the request inherits the
    /// deadline of its flow. While the [`Budget`] is used up the request is refused, or waits if the
    /// budget has a queue.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request: that is how a transport tells that its client went
    /// away.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    #[expect(clippy::manual_async_fn, reason = "an async function has its arguments twice")]
    pub fn serve(&self, mut incoming: Incoming) -> impl Future<Output = Reply> {
        async move {
            let Incoming { request, channel, .. } = &incoming;
            let mut origin = Origin {
                shared: Arc::clone(&self.shared),
                channel: channel.clone(),
                rid: request.rid().cloned(),
                coding: request.coding(),
                forced: request.forcersp(),
                signer: None,
            };
            if let Some(hooks) = &self.shared.config.hooks {
                hooks.request(request, channel);
            }
            match self.shared.admit(&mut incoming, &mut origin).await {
                Ok(admitted) => self.start(origin, incoming, admitted).await,
                Err(refused) => {
                    let (f, rid) = (incoming.request.f(), incoming.request.rid());
                    let text = refused.text.as_deref();
                    observe::refused(f, rid, &incoming.channel, refused.code, text);
                    origin.refuse(refused)
                }
            }
        }
    }

    /// Starts the flow of a request. Its first turn runs here and now.
    fn start(&self, origin: Origin, incoming: Incoming, admitted: Admitted) -> Asker {
        let Admitted { checked, places, begun, deadline, patience } = admitted;
        let Checked { target, template, function, params, caller } = checked;
        let span = observe::request_span(&function, origin.rid.as_ref());
        let live = self.live();
        let exchange = Exchange::new(origin, target, span, places, deadline, patience, live);
        let mut flow = template.flow();
        if let Some(call) = incoming.call {
            call.begin(&mut flow);
        }
        trace_steps(&mut flow, &exchange.span);
        flow.extend(RequestInfo {
            exchange: Rc::clone(&exchange),
            function,
            params,
            caller,
            begun,
            headers: incoming.headers,
            input: incoming.input,
            head: None,
            result: ResultDraft::default(),
        });
        // the owner ends it
        if let Some(flow) = host_flow(flow, Answer(Rc::clone(&exchange))) {
            exchange.runs_as(flow);
        }
        Asker(exchange)
    }

    /// The definition under which a function can be called, if it is hosted; for transports that
    /// must know the types of parameters before they can read them.
    #[must_use]
    pub fn definition(&self, function: &FunctionName) -> Option<Arc<Definition>> {
        self.shared.registry.definition(function)
    }

    /// Tells the hooks of the bytes of a message; for transports.
    pub fn note(&self, message: &[u8], way: Way, channel: &Channel) {
        if let Some(hooks) = &self.shared.config.hooks {
            hooks.message(message, way, channel);
        }
    }

    /// Counts and logs a message that cannot be answered, because it is none or has no id; for
    /// transports where the id tells what an answer is to. In the log there is at most one line in ten
    /// seconds.
    pub fn note_unanswerable(&self, channel: &Channel) {
        self.shared.unanswerable.note(channel);
    }

    /// How many messages could not be answered so far.
    #[must_use]
    pub fn unanswerable(&self) -> u64 {
        self.shared.unanswerable.count()
    }

    /// Asks for a place inside of the limits of a client, before a transport reads its request. It
    /// is ready at once unless the client has a limit with a queue.
    ///
    /// # Errors
    /// [`Rejected`] if the client is over its limits.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    ///
    /// # Panics
    /// Outside of an actix arbiter, if the client has a limit.
    pub async fn admit(&self, channel: &Channel) -> Result<Pass, Rejected> {
        match &self.shared.config.gate {
            Some(gate) => Ok(gate.enter(channel).await?),
            None => Ok(Pass::default()),
        }
    }

    /// The largest message that any hosted function takes, in bytes.
    #[must_use]
    pub fn max_request_size(&self) -> usize {
        self.shared.registry.max_request_size()
    }

    /// How long a request may take, unless its function is `heavy`; a transport gives a message as
    /// long to arrive.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        self.shared.config.request_timeout
    }

    /// How many requests are not answered yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.flights.count()
    }

    /// Memory of the budget for a message that comes.
    #[cfg(feature = "http")]
    pub(crate) fn room(&self) -> asyncsteps_actors::budget::Room<'_> {
        self.shared.config.budget.room()
    }

    /// How the budget is used, by all executors that share it.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.shared.config.budget.usage()
    }

    /// The waiting flows of this arbiter, which the actor of this arbiter can cancel.
    fn live(&self) -> Rc<Live> {
        thread_local! {
            static LOCAL: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
        }
        LOCAL.with_borrow_mut(|locals| {
            let here = Arc::as_ptr(&self.shared);
            let is_here = |local: &&Local| {
                std::ptr::eq(local.executor.as_ptr(), here) && local.actor.connected()
            };
            if let Some(local) = locals.iter().find(is_here) {
                return Rc::clone(&local.live);
            }
            locals.retain(|local| local.executor.strong_count() > 0 && local.actor.connected());
            let live = Rc::<Live>::default();
            let actor = ExecutorActor { live: Rc::clone(&live) }.start();
            self.shared.actors().push(actor.clone());
            let executor = Arc::downgrade(&self.shared);
            locals.push(Local { executor, actor, live: Rc::clone(&live) });
            live
        })
    }
}

/// An executor on one arbiter.
struct Local {
    executor: Weak<Shared>,
    actor: Addr<ExecutorActor>,
    live: Rc<Live>,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("budget", &self.shared.config.budget)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Checks a request and finds a place for it.
    async fn admit(
        &self,
        incoming: &mut Incoming,
        origin: &mut Origin,
    ) -> Result<Admitted, Refused> {
        let mut flight = self.flights.begin()?;
        let Config { request_timeout, heavy_timeout, budget, client, .. } = &self.config;
        let begun = clock::now();
        let within = |patience: Duration| {
            let deadline = begun + patience;
            earliest(Some(deadline)).unwrap_or(deadline)
        };
        // whom it is counted for may depend on what the checks take out
        let client = client(&incoming.request, &incoming.channel);
        let deadline = within(*request_timeout);
        let asked = Asked { flight: &flight, client: &client, deadline };
        let checked = match self.check(incoming, origin, asked).await {
            Ok(checked) => checked,
            Err(refused) => {
                flight.finish();
                return Err(refused);
            }
        };
        let heavy = checked.target.function().heavy();
        let patience = if heavy { *heavy_timeout } else { *request_timeout };
        let deadline = within(patience);
        let memory = admission::memory(&checked.params, origin.rid.as_ref()) + incoming.held;
        let permit = match incoming.permit.take() {
            Some(mut permit) => {
                permit.resize(memory).map_err(admission::rejected)?;
                permit
            }
            None => flight.wait(budget.admit(&client, memory), deadline).await?,
        };
        let pass = std::mem::take(&mut incoming.pass);
        let places = Places { flight, permit, pass };
        Ok(Admitted { checked, places, begun, deadline, patience })
    }

    fn actors(&self) -> std::sync::MutexGuard<'_, Vec<Addr<ExecutorActor>>> {
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The checks of FTN6, in their order.
    async fn check(
        &self,
        incoming: &mut Incoming,
        origin: &mut Origin,
        asked: Asked<'_>,
    ) -> Result<Checked, Refused> {
        let caller = self.authenticate(incoming, asked).await?;
        origin.signer = caller.signer().cloned();
        let Incoming { request, channel, size, input, .. } = incoming;
        let function = request.function_name()?;
        let target = self.registry.resolve(&function, &caller)?;
        let declared = target.function();
        if *size > declared.max_request_size() {
            return Err(Refused::too_large());
        }
        if input.is_some() && !declared.rawupload() {
            return Err(Refused::new(codes::INVALID_REQUEST, "Raw upload is not allowed"));
        }
        target.check_conditions(channel, &caller)?;
        let mut params = request.take_params(&function, declared)?;
        declared.check_params(&function, &mut params)?;
        request.check_fields()?;
        let template = target.template()?.clone();
        if declared.rawresult() && channel.kind() != ChannelKind::Http {
            let text = "Raw result is not supported by this channel";
            return Err(Refused::new(codes::INTERNAL_ERROR, text));
        }
        Ok(Checked { target, template, function, params, caller })
    }
}

/// The actor that stands for an executor on one arbiter.
pub struct ExecutorActor {
    /// The flows of this arbiter that wait.
    live: Rc<Live>,
}

/// Cancels all flows of an [`Executor`].
#[derive(Clone, Copy, Debug, ActixMessage)]
#[rtype(result = "()")]
struct CancelAll;

impl Actor for ExecutorActor {
    type Context = Context<Self>;
}

impl Handler<CancelAll> for ExecutorActor {
    type Result = ();

    fn handle(&mut self, _: CancelAll, _: &mut Context<Self>) {
        self.live.cancel_all();
    }
}

impl fmt::Debug for ExecutorActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorActor").finish_non_exhaustive()
    }
}

/// Why a request does not reach its function: the code and text of the answer.
#[derive(Debug)]
pub(crate) struct Refused {
    code: &'static str,
    text: Option<Cow<'static, str>>,
    too_large: bool,
}

impl Refused {
    pub(crate) fn new(code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: Some(text.into()), too_large: false }
    }

    fn bare(code: &'static str) -> Self {
        Self { code, text: None, too_large: false }
    }

    /// The message is larger than its function takes (FTN3 §1.10).
    fn too_large() -> Self {
        let text = "Request size has exceeded the limit";
        Self { too_large: true, ..Self::new(codes::INVALID_REQUEST, text) }
    }

    fn head(&self) -> Option<Box<Head>> {
        self.too_large.then(|| Box::new(Head::with_status(CONTENT_TOO_LARGE)))
    }

    fn into_response(self) -> Response {
        Response::error(self.code, self.text.as_deref())
    }
}

/// The status of an answer to a request that is too large (RFC 9110 §15.5.14).
const CONTENT_TOO_LARGE: u16 = 413;

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}

impl From<Violation> for Refused {
    fn from(violation: Violation) -> Self {
        Self::new(violation.code(), violation.to_string())
    }
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        Self::new(denied.code(), denied.to_string())
    }
}
