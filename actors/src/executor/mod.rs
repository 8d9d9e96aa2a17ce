//! The Executor (FTN6): takes requests, checks them, runs the flow of the function, answers.
//!
//! There is one [`Executor`] actor per arbiter; all share one registry of interfaces. A request
//! runs on the arbiter that accepted it, and its flow in a task of its own if it has to wait.

mod admission;
mod answer;
mod builder;
mod close;
mod functions;
mod registry;
mod request;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, Message};
use asyncsteps::{Template, codes};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::budget::{Budget, Client, Usage};
use crate::clock;
use crate::flow::{earliest, host};
use crate::iface::{Definition, FunctionName};
use crate::message::{Refusal, Request, Response};
use crate::observe;

pub use answer::Reply;
pub use builder::Builder;
pub use close::Closed;
pub use functions::{ConfigError, Functions};
pub use request::{Channel, ChannelKind, RequestInfo, RequestSteps};

use admission::Flights;
use answer::{Answer, Answering, Live};
use registry::{Registry, Target};

/// A cheap handle to an executor: use it from any arbiter.
///
/// Requests given to it run on the arbiter of the caller, which starts its [`Executor`] actor when
/// it needs one.
#[derive(Clone)]
pub struct ExecutorHandle {
    shared: Arc<Shared>,
}

/// Limits and times of an executor; see [`Builder`] for what they mean.
#[derive(Clone)]
struct Config {
    request_timeout: Duration,
    heavy_timeout: Duration,
    budget: Budget,
    client: ClientOf,
}

/// Whom a request is counted for.
type ClientOf = Arc<dyn Fn(&Request, &Channel) -> Client + Send + Sync>;

/// What the actors of all arbiters share.
struct Shared {
    id: u64,
    config: Config,
    registry: Registry,
    flights: Arc<Flights>,
    actors: Mutex<Vec<Addr<Executor>>>,
}

impl ExecutorHandle {
    fn new(config: Config, registry: Registry) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            shared: Arc::new(Shared {
                id: NEXT.fetch_add(1, Ordering::Relaxed),
                config,
                registry,
                flights: Arc::default(),
                actors: Mutex::new(Vec::new()),
            }),
        }
    }

    /// Registers an interface while the executor runs; see [`Builder::interface`].
    ///
    /// # Errors
    /// [`ConfigError`] if a template is given for a function that the definition does not have, or
    /// the interface is registered already.
    pub fn register(
        &self,
        definition: Arc<Definition>,
        define: impl FnOnce(&mut Functions),
    ) -> Result<(), ConfigError> {
        self.shared.registry.register(definition, define)
    }

    /// Gives a request to the executor of this arbiter.
    ///
    /// The future ends with the answer, or with [`Reply::Nothing`] for a function without result.
    /// Called by a step, the request inherits the deadline of its flow. While the [`Budget`] is used
    /// up the request is refused, or waits if the budget has a queue.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request: that is how a transport tells that its client went
    /// away.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    pub async fn dispatch(&self, request: Request, channel: Channel) -> Reply {
        let rid = request.rid().cloned();
        let response = match self.begin(request, channel).await {
            Ok(answer) => match answer.await {
                Ok(reply) => return reply,
                Err(_) => Response::error(codes::INTERNAL_ERROR, None),
            },
            Err(refused) => refused.into_response(),
        };
        Reply::message(response.with_rid(rid.as_ref()))
    }

    /// The checks that come before the flow, in the order of FTN6, and its start.
    async fn begin(
        &self,
        mut request: Request,
        channel: Channel,
    ) -> Result<oneshot::Receiver<Reply>, Refused> {
        let Config { request_timeout, heavy_timeout, budget, client } = &self.shared.config;
        let client = client(&request, &channel);
        let (target, function, params, template) = self.shared.check(&mut request, &channel)?;
        let flight = self.shared.flights.begin()?;
        let limit = if target.function().heavy() { heavy_timeout } else { request_timeout };
        let own = clock::now() + *limit;
        let deadline = earliest(Some(own)).unwrap_or(own);
        let admission = budget.admit(&client, admission::memory(&params));
        let permit = flight.wait(admission, deadline).await?;
        let (rid, forced) = (request.rid().cloned(), request.forcersp());
        let span = observe::request_span(&function, rid.as_ref());
        let info = RequestInfo::new(function, params, rid.clone(), channel);
        let (reply, answer) = oneshot::channel();
        let answers = Answering { target, rid, forced, reply, flight, permit, deadline, span };
        self.local().tell(Begin { template, info, answers });
        Ok(answer)
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

    /// How the budget is used, by all executors that share it.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.shared.config.budget.usage()
    }

    /// The actor of this arbiter.
    fn local(&self) -> LocalExecutor {
        thread_local! {
            static LOCAL: RefCell<Vec<(u64, Addr<Executor>)>> = const { RefCell::new(Vec::new()) };
        }
        LOCAL.with_borrow_mut(|local| {
            local.retain(|(_, actor)| actor.connected());
            let id = self.shared.id;
            if let Some((_, actor)) = local.iter().find(|(executor, _)| *executor == id) {
                return LocalExecutor(actor.clone());
            }
            let actor = Executor { live: Rc::default() }.start();
            self.shared.actors().push(actor.clone());
            local.push((id, actor.clone()));
            LocalExecutor(actor)
        })
    }
}

impl fmt::Debug for ExecutorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorHandle")
            .field("budget", &self.shared.config.budget)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

struct LocalExecutor(Addr<Executor>);

impl LocalExecutor {
    /// Admission is counted before, and the mailbox of an actor on the same arbiter is emptied at once;
    /// a dead actor drops the reply, which answers the request.
    #[expect(clippy::disallowed_methods, reason = "see above")]
    fn tell<M>(&self, message: M)
    where
        M: Message<Result = ()> + Send + 'static,
        Executor: Handler<M>,
    {
        self.0.do_send(message);
    }
}

impl Shared {
    fn actors(&self) -> std::sync::MutexGuard<'_, Vec<Addr<Executor>>> {
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(
        &self,
        request: &mut Request,
        channel: &Channel,
    ) -> Result<(Target, FunctionName, serde_json::Map<String, Value>, Template), Refused> {
        if request.sec().is_some() {
            // there is no security provider that could know anybody
            let text = "Basic Auth Verification Failed";
            return Err(Refused::new(codes::SECURITY_ERROR, text));
        }
        let function = request.function_name()?;
        let target = self.registry.resolve(&function)?;
        target.check_constraints(channel)?;
        let mut params = request.take_params(&function, target.function())?;
        target
            .function()
            .check_params(&function, &mut params)
            .map_err(|violation| Refused::new(violation.code(), violation.to_string()))?;
        request.check_fields()?;
        let template = target.template()?;
        Ok((target, function, params, template))
    }
}

/// The actor that serves the requests of one arbiter.
pub struct Executor {
    /// The flows of this arbiter that wait.
    live: Rc<Live>,
}

/// Has an [`Executor`] run the flow of a request; a dropped receiver of the reply cancels it.
#[derive(Message)]
#[rtype(result = "()")]
struct Begin {
    template: Template,
    info: RequestInfo,
    answers: Answering,
}

/// Cancels all flows of an [`Executor`].
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
struct CancelAll;

impl Executor {
    /// Starts to build an executor.
    #[must_use = "a builder does nothing before it is built"]
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Actor for Executor {
    type Context = Context<Self>;
}

impl Handler<Begin> for Executor {
    type Result = ();

    fn handle(&mut self, Begin { template, info, answers }: Begin, _: &mut Context<Self>) {
        let mut flow = template.flow();
        flow.extend(info);
        if observe::steps_enabled() {
            flow.observe(observe::SpanObserver::new(answers.span.clone()));
        }
        let owner = Answer::new(answers, Rc::clone(&self.live));
        // the owner ends it
        drop(host(flow, Box::new(owner)));
    }
}

impl Handler<CancelAll> for Executor {
    type Result = ();

    fn handle(&mut self, _: CancelAll, _: &mut Context<Self>) {
        self.live.cancel_all();
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

/// Why a request does not reach its function: the code and text of the answer.
#[derive(Debug)]
pub(crate) struct Refused {
    code: &'static str,
    text: String,
}

impl Refused {
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    fn into_response(self) -> Response {
        Response::error(self.code, Some(&self.text))
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}
