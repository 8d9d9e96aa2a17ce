//! The Executor (FTN6): takes requests, checks them, runs the flow of the function, answers.
//!
//! There is one [`Executor`] actor per arbiter; all share one registry of interfaces. A request
//! runs on the arbiter that accepted it, and its flow in an actor of its own.

mod answer;
mod builder;
mod close;
mod functions;
mod registry;
mod request;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, Message};
use asyncsteps::{Template, codes};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use crate::clock;
use crate::flow::host;
use crate::iface::{Definition, FunctionName};
use crate::message::{Refusal, Request, Response};
use crate::observe;

pub use answer::Reply;
pub use builder::Builder;
pub use close::Closed;
pub use functions::{ConfigError, Functions};
pub use request::{Channel, ChannelKind, RequestInfo, RequestSteps};

use answer::{Answer, Live};
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
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) request_timeout: Duration,
    pub(crate) heavy_timeout: Duration,
    pub(crate) max_requests: usize,
}

/// What the actors of all arbiters share.
struct Shared {
    id: u64,
    config: Config,
    registry: Registry,
    /// Requests that are not answered.
    in_flight: AtomicUsize,
    closing: AtomicBool,
    /// Told when the last request in flight is answered.
    idle: Notify,
    actors: Mutex<Vec<Addr<Executor>>>,
    /// Counted since the closing began.
    finished: AtomicUsize,
    cancelled: AtomicUsize,
}

impl ExecutorHandle {
    fn new(config: Config, registry: Registry) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            shared: Arc::new(Shared {
                id: NEXT.fetch_add(1, Ordering::Relaxed),
                config,
                registry,
                in_flight: AtomicUsize::new(0),
                closing: AtomicBool::new(false),
                idle: Notify::new(),
                actors: Mutex::new(Vec::new()),
                finished: AtomicUsize::new(0),
                cancelled: AtomicUsize::new(0),
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
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request: that is how a transport tells that its client went
    /// away.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    pub async fn dispatch(&self, request: Request, channel: Channel) -> Reply {
        let rid = request.rid().cloned();
        let (reply, answer) = oneshot::channel();
        self.local().tell(Dispatch { request, channel, reply });
        answer.await.unwrap_or_else(|_| {
            let lost = Response::error(codes::INTERNAL_ERROR, None).with_rid(rid.as_ref());
            Reply::message(lost)
        })
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
        self.shared.in_flight.load(Ordering::SeqCst)
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
            let actor = Executor::new(Arc::clone(&self.shared)).start();
            self.shared.actors().push(actor.clone());
            local.push((id, actor.clone()));
            LocalExecutor(actor)
        })
    }
}

impl fmt::Debug for ExecutorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorHandle")
            .field("config", &self.shared.config)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

struct LocalExecutor(Addr<Executor>);

impl LocalExecutor {
    /// Admission is counted by the executor, whose mailbox on the same arbiter is emptied at once;
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

    /// Counts a request in, unless the executor is full or closing.
    fn admit(self: &Arc<Self>) -> Result<Admitted, &'static str> {
        // counted before `closing` is read, while `close` sets it before it reads the count: with
        // sequential consistency one of the two sees the other
        let before = self.in_flight.fetch_add(1, Ordering::SeqCst);
        let admitted = Admitted(Arc::clone(self));
        if self.closing.load(Ordering::SeqCst) {
            return Err("Executor is closing");
        }
        if before >= self.config.max_requests { Err("Too many requests") } else { Ok(admitted) }
    }
}

/// A request that is counted in, until this is dropped.
struct Admitted(Arc<Shared>);

impl Drop for Admitted {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

/// The actor that serves the requests of one arbiter.
pub struct Executor {
    shared: Arc<Shared>,
    /// The flows of this arbiter that wait.
    live: Rc<Live>,
}

/// Gives a request to an [`Executor`]; a dropped receiver of `reply` cancels it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Dispatch {
    request: Request,
    channel: Channel,
    reply: oneshot::Sender<Reply>,
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

    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, live: Rc::default() }
    }

    /// The checks that come before the flow, in the order of FTN6, and its start.
    fn begin(&self, dispatch: Dispatch) {
        let Dispatch { mut request, channel, reply } = dispatch;
        let accepted = self.check(&mut request, &channel);
        let (target, function, params, template) = match accepted {
            Ok(accepted) => accepted,
            Err(refused) => {
                let response = refused.into_response().with_rid(request.rid());
                // nobody waits for it if this fails
                let _ = reply.send(Reply::message(response));
                return;
            }
        };
        let admitted = match self.shared.admit() {
            Ok(admitted) => admitted,
            Err(why) => {
                let refused = Response::error(codes::DEFENSE_REJECTED, Some(why));
                let _ = reply.send(Reply::message(refused.with_rid(request.rid())));
                return;
            }
        };
        let config = &self.shared.config;
        let heavy = target.function().heavy();
        let limit = if heavy { config.heavy_timeout } else { config.request_timeout };
        let span = observe::request_span(&function, request.rid());
        let mut flow = template.flow();
        flow.extend(RequestInfo::new(function, params, request.rid().cloned(), channel));
        if observe::steps_enabled() {
            flow.observe(observe::SpanObserver::new(span.clone()));
        }
        let owner = Answer {
            target,
            rid: request.rid().cloned(),
            forced: request.forcersp(),
            reply: RefCell::new(Some(reply)),
            admitted,
            deadline: clock::now() + limit,
            live: Rc::clone(&self.live),
            place: Cell::new(None),
        };
        host(flow, Rc::new(owner), span);
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
        let target = self.shared.registry.resolve(&function)?;
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

impl Actor for Executor {
    type Context = Context<Self>;
}

impl Handler<Dispatch> for Executor {
    type Result = ();

    fn handle(&mut self, dispatch: Dispatch, _: &mut Context<Self>) {
        self.begin(dispatch);
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
