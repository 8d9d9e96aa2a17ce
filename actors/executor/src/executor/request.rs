//! The request as its steps see it (FTN6 §2.2 RequestInfo).

use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_core::{AsyncSteps, Error, StepResult, Template, Time, ask_step, codes};
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::message::{Request, Response, Rid};
use asyncsteps_futoin::net::SourceAddress;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::caller::Caller;
use super::exchange::Exchange;
use super::handle::Executor;
use super::key::KeyPolicy;
use super::received::Received;
use super::request_parts::RequestParts;
use super::result_draft::ResultDraft;
use super::served::{ServedRequest, rule};
use crate::channel::Channel;
use crate::raw::{Head, RawInput, RawOutput};
use crate::security::{SecurityLevel, User};

/// The request that a flow serves: its facts, and its result.
#[derive(derive_more::Debug)]
#[debug(
    "RequestInfo {{ function: {:?}, params: {params:?}, user: {:?}, .. }}",
    self.exchange().called, self.user()
)]
pub struct RequestInfo {
    /// As it came, without its parameters.
    pub(super) parts: RequestParts,
    /// `None` before its flow begins.
    pub(super) exchange: Option<Rc<Exchange>>,
    pub(super) params: Map<String, Value>,
    pub(super) head: Option<Box<Head>>,
    pub(super) result: ResultDraft,
    /// The response with the result, once it is written.
    pub(super) response: Option<Response>,
    /// Present until the function behind a front begins, if that waits for something.
    pub(super) waits: Option<Rc<dyn FrontWait>>,
}

/// A front that waits for something before it has its function [begin](RequestInfo::begin_with).
pub trait FrontWait {
    /// The answer of a request whose time ends meanwhile, instead of InternalError without a text: a code by which its
    /// caller knows whether it may be repeated, and what it waited for.
    fn too_late(&self) -> Error;
}

impl RequestInfo {
    /// The state of the request, whose flow has begun.
    pub(super) fn exchange(&self) -> &Rc<Exchange> {
        match &self.exchange {
            Some(exchange) => exchange,
            None => unreachable!("only steps see a request"),
        }
    }

    fn received(&self) -> Received<'_> {
        Received(self.exchange())
    }

    /// The request as a handle, for code that is no step.
    #[must_use]
    pub fn handle(&self) -> ServedRequest {
        ServedRequest::new(self.exchange())
    }

    /// The function as the caller named it.
    #[must_use]
    pub fn function(&self) -> &FunctionName {
        &self.exchange().called
    }

    /// The checked parameters, defaults filled in.
    #[must_use]
    pub fn params(&self) -> &Map<String, Value> {
        &self.params
    }

    /// Takes the parameters, for a step that needs to own them; none are left.
    #[must_use]
    pub fn take_params(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.params)
    }

    /// The steps of the function itself, for the [front](crate::Functions::on_behind) that stands for it: the front adds
    /// them to its own flow with [`copy_from`](AsyncSteps::copy_from), and the request gets their result, which they
    /// have checked when the next step begins. `None` if nothing stands for the function.
    #[must_use]
    pub fn own_steps(&self) -> Option<Template> {
        let implementation = self.exchange().function.implementation().ok()?;
        implementation.behind_front().cloned()
    }

    /// Forgets the result, and sets the parameters, for a front that adds the [own
    /// steps](Self::own_steps) of the function, and may do so again.
    pub fn begin_with(&mut self, params: Map<String, Value>) {
        self.params = params;
        self.result = ResultDraft::default();
        self.response = None;
        self.waits = None;
    }

    /// The front waits from now on, until the function begins.
    pub fn wait(&mut self, front: Rc<dyn FrontWait>) {
        self.waits = Some(front);
    }

    /// The result variables as far as they are set; a map that the last step returns is added to them,
    /// and then what [`reply`](RequestSteps::reply) gets (FTN6 §2.9).
    ///
    /// The last step may return a `Map<String, Value>`, a `(Value,)`, a number, a `bool` or a text.
    /// A value other than a map is the whole result, so the request fails with InternalError if
    /// there are variables beside it, or if the last step returns several values or another type.
    /// The log names the type.
    #[must_use]
    pub fn result_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.result.variables
    }

    /// When the request began to be served, on the clock of [`AsyncSteps::now`] (FTN6 §2.2
    /// `REQUEST_TIME_FLOAT`).
    #[must_use]
    pub fn begun(&self) -> Time {
        self.received().begun()
    }

    /// Where the request came from, if its transport knows it (FTN6 §2.2 `CLIENT_ADDR`).
    #[must_use]
    pub fn source_address(&self) -> Option<SourceAddress> {
        self.received().source_address()
    }

    /// The request in the terms of its transport, if that is of this type: a
    /// `RequestHead` of `asyncsteps-transport` over HTTP, or the head of the upgrade over WebSocket. It has the
    /// server's data about the connection, such as the client's certificate (FTN6 §2.2 `X509_CN`); see
    /// [`RequestContext::transport`](crate::security::RequestContext::transport).
    #[must_use]
    pub fn transport<T: 'static>(&self) -> Option<&T> {
        self.received().transport()
    }

    /// The request as a message, with the [parameters](Self::params) as they were checked and with the
    /// credentials of its caller (FTN6 §2.2 `RAW_REQUEST`): to keep it, or to look at its field `sec`. It is
    /// copied with each call.
    #[must_use]
    pub fn raw_request(&self) -> Request {
        self.parts.request.clone().with_params(self.params.clone())
    }

    /// The response as a message, with the result as far as it is set (FTN6 §2.2 `RAW_RESPONSE`). It is not
    /// signed: that is done when the flow has ended. It is copied with each call, and changes to it have no
    /// effect: for them there are [`result_mut`](Self::result_mut) and [`reply`](RequestSteps::reply).
    #[must_use]
    pub fn raw_response(&self) -> Response {
        let written = self.response.clone();
        written.unwrap_or_else(|| Response::success(self.result.so_far())).with_rid(self.rid())
    }

    /// The caller's number of the request.
    #[must_use]
    pub fn rid(&self) -> Option<&Rid> {
        self.exchange().reply_to.rid.as_ref()
    }

    /// The channel that the request came over.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.exchange().reply_to.channel
    }

    /// The executor that serves the request.
    #[must_use]
    pub fn executor(&self) -> Executor {
        Executor { shared: self.exchange().reply_to.shared.clone() }
    }

    /// The user, with the details that the security provider knows; `None` for an anonymous caller
    /// (FTN6 §2.3).
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        self.exchange().reply_to.caller.user()
    }

    /// The caller, to act for: with [`Executor::call_for`] in flows and tasks that the request
    /// starts. Steps of the request itself use [`CallSteps::call`](super::CallSteps::call).
    #[must_use]
    pub fn caller(&self) -> Caller {
        self.exchange().reply_to.caller.within()
    }

    /// How well the caller is known (FTN8 §2.12).
    #[must_use]
    pub fn level(&self) -> SecurityLevel {
        self.exchange().reply_to.caller.level()
    }

    /// The first header of this name, in any case, of an HTTP request. Over WebSocket it is a header of the upgrade.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.received().header(name)
    }

    /// Whether an HTTP request, or the upgrade, has a header of this name, including a header that is no text, which
    /// [`header`](Self::header) does not return.
    #[must_use]
    pub fn has_header(&self, name: &str) -> bool {
        self.received().has_header(name)
    }

    /// The [key](super::IDEMPOTENCY_KEY) of its caller with its policy, if it has one. The headers of a WebSocket belong to the connection,
    /// and not to each request that comes over it.
    ///
    /// # Errors
    /// InvalidRequest with a header that is [no key](super::checked_key), and with several of them.
    pub fn idempotency_key(&self) -> Result<Option<(&str, KeyPolicy)>, Error> {
        self.received().idempotency_key()
    }

    /// All headers of an HTTP request, or of the upgrade, with their names in lower case (FTN5 §3.6
    /// `getRequestHeaders`).
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.received().headers()
    }

    /// The cookie of this name of an HTTP request.
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.received().cookie(name)
    }

    /// Whether there is a raw upload that was not taken yet (FTN6 §2.2 `HAVE_RAW_UPLOAD`).
    #[must_use]
    pub fn has_raw_input(&self) -> bool {
        self.received().has_raw_input()
    }

    /// Whether the result has to be raw data and none was written yet (FTN6 §2.2 `HAVE_RAW_RESULT`).
    #[must_use]
    pub fn expects_raw_output(&self) -> bool {
        self.received().expects_raw_output()
    }

    /// The caller as authenticated, with the signer of the reply.
    pub(super) fn authenticated(&self) -> &Caller {
        &self.exchange().reply_to.caller
    }

    pub(super) fn take_result(&mut self) -> ResultDraft {
        std::mem::take(&mut self.result)
    }

    pub(super) fn take_head(&mut self) -> Option<Box<Head>> {
        self.head.take()
    }

    fn open_output(&mut self) -> Result<RawOutput, Error> {
        let head = self.head.take();
        self.handle().open_output(head)
    }
}

impl ServedRequest {
    /// The request as a message (FTN6 §2.2 `RAW_REQUEST`), without its parameters, which are
    /// [`Cx::params`](crate::Cx::params): to keep it, or to look at its field `sec`. There is no response yet
    /// (`RAW_RESPONSE`), because the last step of a function returns the result.
    ///
    /// # Errors
    /// Those of [`received`](Self::received), and InternalError outside of the steps of the request.
    pub async fn raw_request(&self) -> Result<Request, Error> {
        self.received()?;
        let request = ask_step(|asi| asi.request().map(RequestInfo::raw_request)).await;
        request.unwrap_or_else(|| Err(rule("no step of the request polls this")))
    }
}

/// A type that parameters are read as: one that serde can read and own.
#[diagnostic::on_unimplemented(
    message = "parameters cannot be read as `{Self}`",
    label = "neither a type that serde can read, nor one that was named",
    note = "name the type where the value is bound: `let n: i64 = asi.param(\"n\")?;`",
    note = "derive `serde::Deserialize` for a type of your own"
)]
pub trait ParamType: DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned> ParamType for T {}

/// The request API of the steps of a template that serves requests (FTN12 §1, "derived classes").
///
/// In a flow that does not serve a request each function fails with InternalError.
pub trait RequestSteps {
    /// The request that the flow serves.
    ///
    /// # Errors
    /// InternalError if the flow serves no request.
    fn request(&self) -> Result<&RequestInfo, Error>;

    /// The same, to change it.
    ///
    /// # Errors
    /// InternalError if the flow serves no request.
    fn request_mut(&mut self) -> Result<&mut RequestInfo, Error>;

    /// All parameters as a type that serde can read.
    ///
    /// # Errors
    /// InternalError if the type does not fit what the interface declares.
    fn params<T: ParamType>(&self) -> Result<T, Error>;

    /// One parameter.
    ///
    /// # Errors
    /// InternalError if it is not declared, or the type does not fit what the interface declares.
    fn param<T: ParamType>(&self, name: &str) -> Result<T, Error>;

    /// Sets the result of the request; a later one replaces it. The step goes on. A map is merged with
    /// the [result variables](RequestInfo::result_mut) and with a map that the last step returns, and
    /// counts most; any other value is the result alone. It replaces what the last step returns if that
    /// is no map (FTN6 §2.9).
    ///
    /// # Errors
    /// InternalError if `result` cannot be written as JSON.
    fn reply<T: Serialize>(&mut self, result: T) -> StepResult;

    /// The head of the answer, to be set before the answer is sent.
    ///
    /// # Errors
    /// InternalError if the request did not come over HTTP.
    fn head_mut(&mut self) -> Result<&mut Head, Error>;

    /// Takes the raw upload (FTN6 §2.2 `rawInput`). While it comes, the request's time limit counts
    /// from the last chunk.
    ///
    /// # Errors
    /// InternalError if there is none or it was taken.
    fn raw_input(&mut self) -> Result<RawInput, Error>;

    /// Answers with raw data of this media type and with what [`head_mut`](Self::head_mut) has
    /// (FTN6 §2.2 `rawOutput`). An error of the flow breaks it off. While it is taken, the request's
    /// time limit counts from the last chunk, and the client has at least a minute to take one.
    ///
    /// # Errors
    /// InternalError if the function is not declared with `rawresult`, the answer was sent, or its
    /// status has no body.
    fn raw_output(&mut self, content_type: &str) -> Result<RawOutput, Error>;

    /// Cancels the request `limit` from now, instead of at the limit of the executor; zero for no
    /// limit (FTN6 §2.2 `cancelAfter`). Other than `set_timeout` it is no limit of a step: no
    /// handler sees it. Flows that it has started keep the limit they inherited.
    ///
    /// # Errors
    /// InternalError if the flow serves no request.
    fn cancel_after(&mut self, limit: Duration) -> Result<(), Error>;
}

impl RequestSteps for AsyncSteps {
    fn request(&self) -> Result<&RequestInfo, Error> {
        self.extension().ok_or_else(no_request)
    }

    fn request_mut(&mut self) -> Result<&mut RequestInfo, Error> {
        self.extension_mut().ok_or_else(no_request)
    }

    fn params<T: ParamType>(&self) -> Result<T, Error> {
        let params = &self.request()?.params;
        T::deserialize(params).map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))
    }

    fn param<T: ParamType>(&self, name: &str) -> Result<T, Error> {
        let value = self.request()?.params.get(name).ok_or_else(|| {
            // a cause goes to the log and not to the caller
            let text = format!("no parameter {name} is declared");
            Error::caused_by(codes::INTERNAL_ERROR, text)
        })?;
        T::deserialize(value).map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))
    }

    fn reply<T: Serialize>(&mut self, result: T) -> StepResult {
        let result = serde_json::to_value(result)?;
        self.request_mut()?.result.replaced = Some(result);
        Ok(())
    }

    fn head_mut(&mut self) -> Result<&mut Head, Error> {
        let info = self.request_mut()?;
        let new = info.handle().head()?;
        Ok(info.head.get_or_insert_with(|| Box::new(new)))
    }

    fn raw_input(&mut self) -> Result<RawInput, Error> {
        self.request()?.received().raw_input()
    }

    fn raw_output(&mut self, content_type: &str) -> Result<RawOutput, Error> {
        self.head_mut()?.set_header("content-type", content_type)?;
        self.request_mut()?.open_output()
    }

    fn cancel_after(&mut self, limit: Duration) -> Result<(), Error> {
        let deadline = (!limit.is_zero()).then(|| clock::now() + limit);
        self.request()?.exchange().cancel_at(deadline);
        Ok(())
    }
}

fn no_request() -> Error {
    rule("the flow serves no request")
}
