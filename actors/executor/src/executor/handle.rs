//! The executor as its users hold it, and what the arbiters share behind it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use actix::{Actor, Addr, Context};
use asyncsteps_actors::budget::{Budget, Client, Holding, Usage};
use asyncsteps_actors::drain::Drain;
use asyncsteps_futoin::iface::{Definition, FunctionName};
use asyncsteps_futoin::message::{RefusedMessage, Request};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use super::admission::GraceEnd;
use super::client_limits::{ClientLimiters, ClientPermit};
use super::config_error::ConfigError;
use super::functions::Functions;
use super::hashing::Hashing;
use super::hooks::{Direction, Hooks};
use super::in_flight::LocalRequests;
use super::invoker::Invoker;
use super::message_count::MessageCount;
use super::refusals::{Refusals, RefusedRequest};
use super::refused::{RefusalReason, Refused};
use super::registry::{HostedFunction, Registry};
use super::reply::Reply;
use super::signals::{InboxGuard, NotSignalled, Signals};
use crate::channel::Channel;
use crate::health::Dependencies;
use crate::observe::{
    ErrorCounts, ExportFigures, Figures, HostFigures, Recorder, RequestRecord, Sampling, Traffic,
    TrafficFigures,
};
use crate::security::{MacAlgorithm, SecurityProvider};

/// Takes requests, checks them, runs the flow of their function, and replies (FTN6).
///
/// It is a cheap handle, for any thread. On an arbiter, requests run where they are
/// [dispatched](Self::dispatch); other threads send a [`Dispatch`](super::Dispatch) to an
/// [address](Self::address).
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Executor {{ budget: {:?}, in_flight: {:?}, .. }}",
    self.shared.config.budget, self.in_flight_count()
)]
pub struct Executor {
    pub(super) shared: Arc<Shared>,
}

/// The executor on one arbiter, from its first request there on. It alone owns the list of the requests in flight of
/// this arbiter, which ends with it.
///
/// From other arbiters and threads it takes [`Dispatch`](super::Dispatch) and
/// [`CancelRequests`](super::CancelRequests), and reports its requests in flight. On its own
/// arbiter transports use the same list by direct calls of the [`Executor`].
#[derive(derive_more::Debug)]
pub struct ExecutorActor {
    #[debug(skip)]
    pub(super) executor: Weak<Shared>,
    pub(super) requests: Rc<LocalRequests>,
}

/// Limits and times of an executor; see [`Builder`](super::Builder) for what they mean.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) request_timeout: Duration,
    pub(super) heavy_timeout: Duration,
    /// Bytes per second; zero for any.
    pub(super) upload_rate: u64,
    /// Bytes.
    pub(super) max_upload: u64,
    pub(super) budget: Budget,
    pub(super) client: ClientOf,
    pub(super) security: Option<Arc<dyn SecurityProvider>>,
    /// `None` for all.
    pub(super) mac_algorithms: Option<Arc<[MacAlgorithm]>>,
    pub(super) hooks: Option<Arc<dyn Hooks>>,
    pub(super) client_limits: Option<Arc<ClientLimiters>>,
    pub(super) checks_results: bool,
    pub(super) recorder: Option<Arc<Recorder>>,
    pub(super) sampling: Sampling,
    pub(super) invoker: Option<Arc<dyn Invoker>>,
    /// The function that serves requests of transports whose function is not hosted.
    pub(super) forwarded: Option<Arc<HostedFunction>>,
}

impl Config {
    /// How long a request may take.
    pub(super) fn patience(&self, is_heavy: bool) -> Duration {
        if is_heavy { self.heavy_timeout } else { self.request_timeout }
    }
}

/// The client that a request is counted for in the budget.
pub(super) type ClientOf = Arc<dyn Fn(&Request, &Channel) -> Client + Send + Sync>;

/// The state that the arbiters of an executor share.
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) registry: Registry,
    pub(super) drain: Arc<Drain>,
    pub(super) grace_end: GraceEnd,
    pub(super) is_close_announced: AtomicBool,
    dependencies: Dependencies,
    pub(super) hosts: Mutex<Vec<Weak<dyn HostFigures>>>,
    actors: Mutex<Vec<Addr<ExecutorActor>>>,
    /// Apart from the budget, for work that takes a processor.
    pub(super) hashing: Hashing,
    /// The requests that take signals.
    pub(super) signals: Signals,
    /// Requests that did not get to a function.
    pub(super) refused: ErrorCounts,
    pub(super) refusals: Refusals,
    /// The traffic of all arbiters, including the ended ones.
    traffic: Mutex<Vec<Traffic>>,
    /// Messages that cannot be answered.
    unanswerable: MessageCount,
    /// Messages that are no requests.
    malformed: MessageCount,
}

impl Executor {
    pub(super) fn new(config: Config, registry: Registry) -> Self {
        if let Some(hooks) = &config.hooks {
            hooks.ready();
        }
        let shared = Arc::new(Shared {
            config,
            registry,
            drain: Arc::default(),
            grace_end: GraceEnd::default(),
            is_close_announced: AtomicBool::default(),
            dependencies: Dependencies::default(),
            hosts: Mutex::default(),
            actors: Mutex::default(),
            hashing: Hashing::new(),
            signals: Signals::default(),
            refused: ErrorCounts::default(),
            refusals: Refusals::default(),
            traffic: Mutex::default(),
            unanswerable: MessageCount::new(),
            malformed: MessageCount::new(),
        });
        let checking = Arc::downgrade(&shared);
        shared.registry.checks.set(move |request, caller, wanted| {
            let shared = checking.upgrade();
            shared.map(|shared| shared.check_stored(request, caller, wanted)).transpose()
        });
        Self { shared }
    }

    /// Registers an interface while the executor runs; see
    /// [`Builder::interface`](super::Builder::interface).
    ///
    /// # Errors
    /// [`ConfigError`] if a template is added for a function that the definition does not have, or
    /// the interface, or another one with the same parent, is registered already.
    pub fn register(
        &self,
        definition: Arc<Definition>,
        define: impl FnOnce(&mut Functions),
    ) -> Result<(), ConfigError> {
        self.shared.registry.register(definition.into(), Arc::new(()), define)
    }

    /// Sends a signal to a request that is in flight in this process: its step
    /// [`wait_signal`](crate::Steps::wait_signal) of this name takes the value, as JSON, now or when the request comes to it (FTN12 §1.3).
    /// `id` is the [id](crate::Cx::id) of the request. A value that no step takes is dropped when the request ends.
    ///
    /// # Errors
    /// [`NotSignalled::NoRequest`] if the request has ended, is not known here, or takes no signals: who sent it may try
    /// again, as senders of webhooks do. [`NotSignalled::Undone`] if its function has failed, and what it did is being
    /// undone. [`NotSignalled::TooMany`], [`NotSignalled::Value`].
    pub fn signal(&self, id: &str, name: &str, value: impl Serialize) -> Result<(), NotSignalled> {
        self.shared.signals.send(id, name, serde_json::to_value(value)?)
    }

    /// The request with this id takes signals.
    pub(crate) fn takes_signals(&self, id: &str) -> InboxGuard {
        self.shared.signals.open(id)
    }

    /// The interfaces that were written down from types, to be printed for callers
    /// ([`to_json`](asyncsteps_futoin::typed::Interface::to_json)).
    #[must_use]
    pub fn written_interfaces(&self) -> Vec<asyncsteps_futoin::typed::Interface> {
        self.shared.registry.written()
    }

    /// The definition under which a function can be called, if it is hosted; for transports that
    /// must know the types of parameters before they can read them.
    #[must_use]
    pub fn definition(&self, function: &FunctionName) -> Option<Arc<Definition>> {
        self.shared.registry.definition(function)
    }

    /// The refusal of a request to this function because nothing hosts it; `None` if it is hosted, or may be hosted
    /// where requests are forwarded to, and if an anonymous caller may not know. For transports that refuse a request
    /// to a hosted function themselves, such as one with another method of HTTP.
    #[must_use]
    pub fn unknown(&self, function: &FunctionName, channel: &Channel) -> Option<Refused> {
        self.shared.unknown(function, channel.kind())
    }

    /// The definitions of the hosted interfaces, by name and version.
    #[must_use]
    pub fn definitions(&self) -> Vec<Arc<Definition>> {
        self.shared.registry.definitions()
    }

    /// The [schemes](SecurityProvider::schemes) of its security provider; `None` without one: all credentials are
    /// refused then.
    #[must_use]
    pub fn auth_schemes(&self) -> Option<&[&str]> {
        self.shared.config.security.as_ref().map(|provider| provider.schemes())
    }

    /// Waits for a permit of the limits of a client (FTN6 §1.5); for transports, before they read a
    /// request. It is ready at once unless the client has a limit with a queue.
    ///
    /// # Errors
    /// [`Refused`] with DefenseRejected if the client exceeds its limits.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    ///
    /// # Panics
    /// Outside of an actix arbiter, if the client has a limit.
    pub async fn admit(&self, channel: &Channel) -> Result<ClientPermit, Refused> {
        let Some(limits) = &self.shared.config.client_limits else {
            return Ok(ClientPermit::default());
        };
        let admitted = limits.enter(channel).await;
        if let Err(refused) = &admitted {
            self.shared.refusals.add("", channel, refused);
        }
        admitted
    }

    /// Passes the bytes of a message to the [hooks](Hooks::message); for transports.
    pub fn trace_message(&self, message: &[u8], way: Direction, channel: &Channel) {
        if let Some(hooks) = &self.shared.config.hooks {
            hooks.message(message, way, channel);
        }
    }

    /// Counts and logs a message that cannot be answered, because it is malformed or has no id; for
    /// transports where the id relates a reply to its request. The log gets at most one line in ten
    /// seconds.
    pub fn count_unanswerable(&self, channel: &Channel) {
        if let Some(count) = self.shared.unanswerable.add() {
            let (kind, peer) = (channel.kind().name(), channel.peer());
            tracing::warn!(count, channel = kind, ?peer, "messages that cannot be answered");
        }
    }

    /// The reply to a message that is no request, for transports. It is counted and logged with its
    /// error, in at most one line in ten seconds.
    #[must_use]
    pub fn refuse(&self, refusal: RefusedMessage, channel: &Channel) -> Reply {
        self.shared.refusals.add("", channel, &Refused::malformed(refusal.refusal()));
        if let Some(count) = self.shared.malformed.add() {
            let (kind, peer) = (channel.kind().name(), channel.peer());
            let (text, defect) = (refusal.refusal().to_string(), refusal.defect());
            tracing::warn!(
                count,
                channel = kind,
                ?peer,
                text,
                defect,
                "messages that are no requests"
            );
        }
        refusal.into()
    }

    /// The messages so far that could not be answered.
    #[must_use]
    pub fn unanswerable(&self) -> u64 {
        self.shared.unanswerable.all()
    }

    /// The largest message that any function takes, in bytes.
    #[must_use]
    pub fn max_request_size(&self) -> usize {
        let forwarded = self.shared.config.forwarded.as_ref();
        let most = forwarded.map_or(0, |forwarded| forwarded.declared().max_request_size());
        self.shared.registry.max_request_size().max(most)
    }

    /// How long a request may take, unless its function is `heavy`; a transport allows a message
    /// the same time to arrive.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        self.shared.config.request_timeout
    }

    /// How many requests there were, how long they took and how they failed, per function.
    /// [Forwarded](super::Builder::forward) requests count as requests to one function, `executor.forwarded:1.0:call`.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut functions = self.shared.registry.figures();
        functions.extend(self.shared.config.forwarded.as_ref().map(|it| it.figures()));
        Figures { functions, refused: self.refused() }
    }

    /// The requests that did not get to a function, by code; a part of the [`figures`](Self::figures).
    #[must_use]
    pub fn refused(&self) -> BTreeMap<String, u64> {
        self.shared.refused.figures()
    }

    /// Counters for connections and bytes; for transports, one for each arbiter that they serve on.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let traffic = Traffic::default();
        self.shared.traffic.lock().push(traffic.clone());
        traffic
    }

    /// The connections and bytes so far, as transports have counted them: of an actix-web
    /// application only the WebSockets are counted.
    #[must_use]
    pub fn traffic_figures(&self) -> TrafficFigures {
        TrafficFigures::of(&self.shared.traffic.lock())
    }

    /// The counts of requests that went to the [exporter](crate::Builder::export); zeros without one.
    #[must_use]
    pub fn export_figures(&self) -> ExportFigures {
        let recorder = self.shared.config.recorder.as_ref();
        recorder.map(|recorder| recorder.export_figures()).unwrap_or_default()
    }

    /// How many requests were refused so far, for each reason.
    #[must_use]
    pub fn refusals(&self) -> BTreeMap<RefusalReason, u64> {
        self.shared.refusals.counts().collect()
    }

    /// The requests that were refused last, at most a hundred, the newest first. They got to no function,
    /// so they are not [`recent`](Self::recent) ones.
    #[must_use]
    pub fn refused_requests(&self) -> Vec<Arc<RefusedRequest>> {
        self.shared.refusals.last()
    }

    /// The ended requests that were kept, the newest first; see
    /// [`Builder::record`](super::Builder::record).
    #[must_use]
    pub fn recent(&self) -> Vec<Arc<RequestRecord>> {
        self.shared.config.recorder.as_ref().map(|recorder| recorder.kept()).unwrap_or_default()
    }

    /// The requests that have not ended, including requests that wait for a permit.
    #[must_use]
    pub fn in_flight_count(&self) -> usize {
        self.shared.drain.count()
    }

    /// How the budget is used, by all executors that share it.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.shared.config.budget.usage()
    }

    /// Whether a request that came now would be refused, because the budget is used up with its queue.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        self.shared.config.budget.is_full()
    }

    /// The connections that it depends on.
    pub(crate) fn dependencies(&self) -> &Dependencies {
        &self.shared.dependencies
    }

    /// Memory of the budget for what a connection of this client holds; for transports.
    #[must_use]
    pub fn hold(&self, client: &Client) -> Holding {
        self.shared.config.budget.hold(client)
    }
}

impl Shared {
    /// The actors of this executor on all arbiters, including the ended ones.
    pub(super) fn actors(&self) -> MutexGuard<'_, Vec<Addr<ExecutorActor>>> {
        self.actors.lock()
    }
}

impl Actor for ExecutorActor {
    type Context = Context<Self>;
}
