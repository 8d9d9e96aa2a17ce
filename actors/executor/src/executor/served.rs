//! The request that a flow serves, for code that is no step.

use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_actors::sync::FencingToken;
use asyncsteps_core::{Error, Info, codes};
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::message::Rid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::caller::Caller;
use super::events::EventSender;
use super::exchange::Exchange;
use super::handle::Executor;
use super::received::Received;
use super::reply::{Reply, ReplyBody};
use super::typed_client::TypedClient;
use crate::channel::Channel;
use crate::observe::TraceParent;
use crate::raw::{Head, RawFlow, RawOutput, raw_result};
use crate::security::{SecurityLevel, User};

/// A request that is being served, as a handle that async bodies can keep (FTN6 §2.2). Cloning
/// shares.
#[derive(Clone, derive_more::Debug)]
#[debug("ServedRequest {{ function: {:?}, user: {:?}, .. }}", self.function(), self.user())]
pub struct ServedRequest {
    exchange: Rc<Exchange>,
    /// The tokens of the locks that the caller holds.
    fences: Vec<FencingToken>,
    /// A host carries the request out, maybe later and elsewhere.
    is_hosted: bool,
}

impl ServedRequest {
    pub(super) fn new(exchange: &Rc<Exchange>) -> Self {
        Self { exchange: Rc::clone(exchange), fences: Vec::new(), is_hosted: false }
    }

    /// The same with the tokens of the locks that the caller holds.
    pub(crate) fn with_fences(self, fences: Vec<FencingToken>) -> Self {
        Self { fences, ..self }
    }

    /// The same for a function that is behind the front of a host, or not.
    pub(crate) fn hosted(self, is_hosted: bool) -> Self {
        Self { is_hosted, ..self }
    }

    /// Says that the request waits for one that a host records by this id, for those who look at what is in flight.
    pub fn waits_for(&self, recorded: &str) {
        self.exchange.waits_for(recorded.into());
    }

    /// Where the events of the request go, if its caller watches it.
    #[must_use]
    pub fn events(&self) -> Option<&EventSender> {
        self.exchange.received.events.as_deref()
    }

    /// The tokens of the locks that the caller holds.
    pub(crate) fn fences(&self) -> &[FencingToken] {
        &self.fences
    }

    pub(super) fn exchange(&self) -> &Rc<Exchange> {
        &self.exchange
    }

    /// The head of the answer, before anything is set.
    pub(crate) fn head(&self) -> Result<Head, Error> {
        if !self.channel().carries_raw_data() {
            return Err(rule("the request did not come over HTTP"));
        }
        Ok(Head::over(self.channel().is_secure()))
    }

    /// Changes the head of the answer that the steps of a plan set.
    pub(crate) fn change_head<T>(
        &self,
        change: impl FnOnce(&mut Head) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match &mut *self.exchange.head.borrow_mut() {
            Some(head) => change(head),
            none => change(none.insert(Box::new(self.head()?))),
        }
    }

    /// Answers with raw data.
    pub(crate) fn open_output(&self, head: Option<Box<Head>>) -> Result<RawOutput, Error> {
        let exchange = self.exchange();
        if !(exchange.function.declared().rawresult() && exchange.can_reply()) {
            return Err(rule("Raw output is not allowed"));
        }
        if head.as_ref().is_some_and(|head| !head.has_body()) {
            return Err(rule("an answer with this status has no body"));
        }
        let flow: Rc<dyn RawFlow> = Rc::<Exchange>::clone(exchange);
        let (output, body) = raw_result(flow);
        exchange.begin_raw_reply(Reply::new(ReplyBody::Raw(body), head));
        Ok(output)
    }

    /// [`open_output`](Self::open_output) with the head that the steps of a plan have set.
    pub(crate) fn open_plan_output(&self) -> Result<RawOutput, Error> {
        self.open_output(self.exchange.head.take())
    }

    /// What came with the request beside its parameters: headers and cookies, when and from where (FTN6 §2.2, FTN5
    /// §3.6).
    ///
    /// ```
    /// use asyncsteps_core::BodyResult;
    /// use asyncsteps_executor::Cx;
    ///
    /// async fn greet(cx: &Cx<(), ()>) -> BodyResult<String> {
    ///     let received = cx.request().received()?;
    ///     let name = received.cookie("name").unwrap_or("stranger");
    ///     Ok(match received.header("accept-language") {
    ///         Some(language) if language.starts_with("de") => format!("Hallo, {name}!"),
    ///         _ => format!("Hello, {name}!"),
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// InternalError in functions that are [durable](crate::recorder) or of an entity: their requests go on in another
    /// process, where nothing of this is known. What they need is a parameter, which the function in front of them sets;
    /// the time is [`Cx::now`](crate::Cx::now). They have the caller, the function and its calls as others do;
    /// the [channel](Self::channel) is that within the process, and there is no [time limit](Self::time_left).
    pub fn received(&self) -> Result<Received<'_>, Error> {
        if self.is_hosted {
            let function = self.function();
            let text = format!(
                "{function} goes on after a crash without what came with its request: take what it needs as a parameter"
            );
            // the caller does not learn it
            return Err(Error::unexpected(text));
        }
        Ok(Received(&self.exchange))
    }

    /// The function as the caller named it.
    #[must_use]
    pub fn function(&self) -> &FunctionName {
        &self.exchange.called
    }

    /// The caller's number of the request.
    #[must_use]
    pub fn rid(&self) -> Option<&Rid> {
        self.exchange.reply_to.rid.as_ref()
    }

    /// The span of the request in its trace, to be handed on in calls to other services: the header
    /// `traceparent` of HTTP (W3C Trace Context). The trace is the caller's, if it has named one. Calls
    /// of this executor's functions hand it on by themselves.
    #[must_use]
    pub fn trace(&self) -> TraceParent {
        self.exchange.reply_to.trace.span
    }

    /// The user; `None` for an anonymous caller (FTN6 §2.3).
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        self.exchange.reply_to.caller.user()
    }

    /// The caller, to act for, see [`RequestInfo::caller`](super::RequestInfo::caller).
    #[must_use]
    pub fn caller(&self) -> Caller {
        self.exchange.reply_to.caller.within()
    }

    /// How well the caller is known (FTN8 §2.12).
    #[must_use]
    pub fn level(&self) -> SecurityLevel {
        self.exchange.reply_to.caller.level()
    }

    /// The channel that the request came over.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.exchange.reply_to.channel
    }

    /// The executor that serves the request.
    #[must_use]
    pub fn executor(&self) -> Executor {
        Executor { shared: self.exchange.reply_to.shared.clone() }
    }

    /// How long the request may still take; `None` if it has no time limit.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.exchange.deadline().map(|deadline| deadline.saturating_since(clock::now()))
    }

    /// Calls a function of the executor that serves this request, or of another one through its
    /// [invoker](super::Builder::invoker), for the caller of the request (FTN3 §1.11), see
    /// [`Executor::call_for`]. The call is in the trace of the request, and has the tokens of the locks that the
    /// caller of the request holds.
    ///
    /// # Errors
    /// As for [`Executor::call_for`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    pub async fn call<T: DeserializeOwned + 'static>(
        &self,
        function: &str,
        params: impl Serialize + 'static,
    ) -> Result<T, Error> {
        let executor = self.executor();
        let invocation = executor.invocation(function, params, self.caller());
        // one that keeps this handle after its end is none in flight
        let (fences, is_inside) = (self.fences.clone(), self.exchange.is_in_flight());
        let invocation = invocation
            .map(|it| it.with_trace(Some(self.trace())).with_fences(fences).inside(is_inside));
        executor.call_typed(invocation).await
    }

    /// Such calls by the type of their parameters, for the caller of the request.
    #[must_use]
    pub fn client(&self) -> TypedClient {
        let client = TypedClient::new(self.executor(), self.caller());
        client.of_request(self.trace(), self.fences.clone(), self.exchange.is_in_flight())
    }
}

pub(super) fn rule(info: impl Into<Info>) -> Error {
    Error::with_info(codes::INTERNAL_ERROR, info)
}
