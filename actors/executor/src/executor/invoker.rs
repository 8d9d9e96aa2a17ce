//! Calls of functions that are hosted elsewhere (FTN7).

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;

use asyncsteps_actors::sync::{Call, FencingToken};
use asyncsteps_actors::trace::{self, TraceParent};
use asyncsteps_core::{Error, codes};
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::message::Request;
use serde::Serialize;
use serde_json::{Map, Value};

use super::caller::Caller;
use super::failed_call::FailedCall;
use super::registry::HostedFunction;

/// Calls functions that other nodes or services host (FTN7). See
/// [`Builder::invoker`](super::Builder::invoker).
pub trait Invoker: Send + Sync {
    /// Calls a function; returns its result, `None` for a function without one.
    ///
    /// Called by a step, the call ends no later than its flow, see
    /// [`earliest`](asyncsteps_actors::flow::earliest), which is to be asked when the future is made.
    /// The future runs on the thread that makes it.
    ///
    /// An error that the function answered has a [`FailedCall`](super::FailedCall) as its cause.
    /// ConnectError says that the call was not carried out, with [`NotHosted`](super::NotHosted) as its cause
    /// if it knows no such function; CommError that it may have been. Callers of
    /// [forwarded](super::Builder::forward) requests learn these codes too.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call, as far as the other end can be notified.
    fn invoke(&self, call: Invocation) -> Invoking;
}

/// The future of a call of an [`Invoker`].
pub type Invoking = Pin<Box<dyn Future<Output = Result<Option<Value>, Error>>>>;

/// A call of a function.
#[derive(Clone, derive_more::Debug)]
#[debug("Invocation {{ function: {function:?}, caller: {caller:?}, .. }}")]
#[non_exhaustive]
pub struct Invocation {
    /// The function.
    pub function: FunctionName,
    /// The parameters, unchecked.
    pub params: Map<String, Value>,
    /// The caller that it is made for (FTN3 §1.11).
    pub caller: Caller,
    /// The span that makes the call.
    pub trace: Option<TraceParent>,
    /// The tokens of the locks that are held around the call.
    pub fences: Vec<FencingToken>,
    /// The [key](super::IDEMPOTENCY_KEY) of its caller, which its function sees as that header.
    pub key: Option<Arc<str>>,
    /// The wait of the flow that makes it, for the deadlock detection.
    pub(super) call: Option<Arc<Call>>,
    /// The function here, if it was looked up.
    pub(super) hosted: Option<Arc<HostedFunction>>,
    /// A request in flight of the executor makes it.
    pub(super) is_inside: bool,
}

impl Invocation {
    /// A call of a function on behalf of a caller. Made in the turn of a flow, it is in the trace of the
    /// flow.
    ///
    /// # Errors
    /// InvokerError if the parameters are no map.
    pub fn new(
        function: FunctionName,
        params: impl Serialize + 'static,
        caller: impl Into<Caller>,
    ) -> Result<Self, Error> {
        let params = to_map(params)?;
        let (caller, trace) = (caller.into(), trace::current());
        Ok(Self {
            function,
            params,
            caller,
            trace,
            fences: Vec::new(),
            key: None,
            call: None,
            hosted: None,
            is_inside: false,
        })
    }

    /// The same for the function `iface:version:function`. A text that is no name fails as a request
    /// with it does, with InvalidRequest.
    pub(super) fn of_text(
        known: Option<(FunctionName, Arc<HostedFunction>)>,
        function: &str,
        params: impl Serialize + 'static,
        caller: Caller,
    ) -> Result<Self, Error> {
        let refused = |_| Request::new(function, Map::new()).function_name();
        let (name, hosted) = match known {
            Some((name, hosted)) => (name, Some(hosted)),
            None => {
                let name = function.parse().or_else(refused).map_err(|refusal| {
                    let error = Error::with_info(refusal.code(), refusal.to_string());
                    error.with_cause(FailedCall::new(function))
                })?;
                (name, None)
            }
        };
        Ok(Self { hosted, ..Self::new(name, params, caller)? })
    }

    /// The same with the tokens of the locks that are held around the call, for the targets of its writes. Calls of
    /// [`CallSteps`](super::CallSteps) carry the tokens of their step by themselves.
    #[must_use]
    pub fn with_fences(self, fences: Vec<FencingToken>) -> Self {
        Self { fences, ..self }
    }

    /// The same, made by this span.
    #[must_use]
    pub fn with_trace(self, trace: Option<TraceParent>) -> Self {
        Self { trace, ..self }
    }

    /// The same; says whether a request in flight of the executor makes it.
    pub(super) fn inside(self, is_inside: bool) -> Self {
        Self { is_inside, ..self }
    }
}

/// The parameters as a map; JSON is taken as it is.
fn to_map(params: impl Serialize + 'static) -> Result<Map<String, Value>, Error> {
    let mut params = Some(params);
    let json: &mut dyn Any = &mut params;
    let json = match json.downcast_mut::<Option<Value>>().and_then(Option::take) {
        Some(json) => Ok(json),
        None => serde_json::to_value(params),
    };
    match json {
        Ok(Value::Object(params)) => Ok(params),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(Error::with_info(codes::INVOKER_ERROR, "the parameters are no map")),
        Err(error) => Err(Error::caused_by(codes::INVOKER_ERROR, error)),
    }
}
