//! Calls of functions that are hosted elsewhere (FTN7).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use asyncsteps::{Error, codes};
use asyncsteps_actors::trace::{self, TraceParent};
use serde::Serialize;
use serde_json::{Map, Value};

use super::caller::Caller;

/// Calls functions that an executor does not host: those of other nodes or services (FTN7). See
/// [`Builder::invoker`](super::Builder::invoker).
pub trait Invoker: Send + Sync {
    /// Calls a function; gives its result, null for a function without one.
    ///
    /// Called by a step, the call ends no later than its flow, see
    /// [`earliest`](asyncsteps_actors::flow::earliest), which is to be asked when the future is made.
    /// The future runs on the thread that makes it.
    ///
    /// An error that the function answered has a [`FailedCall`](super::FailedCall) as its cause.
    /// ConnectError says that the call was not carried out, with [`NotHosted`](super::NotHosted) as its cause
    /// if nothing hosts the function; CommError that it may have been.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call, as far as the other end can be told.
    fn invoke(&self, call: Invocation) -> Invoking;
}

/// The future of a call of an [`Invoker`].
pub type Invoking = Pin<Box<dyn Future<Output = Result<Value, Error>>>>;

/// A call of a function.
#[derive(Clone)]
#[non_exhaustive]
pub struct Invocation {
    /// The function, `iface:version:function`.
    pub function: Arc<str>,
    /// The parameters, unchecked.
    pub params: Map<String, Value>,
    /// The caller that it is made for (FTN3 §1.11).
    pub caller: Caller,
    /// The span that makes the call.
    pub trace: Option<TraceParent>,
}

impl Invocation {
    /// A call of a function on behalf of a caller. Made in the turn of a flow, it is in the trace of the
    /// flow.
    ///
    /// # Errors
    /// InvokerError if the parameters are no map.
    pub fn new(
        function: &str,
        params: impl Serialize,
        caller: impl Into<Caller>,
    ) -> Result<Self, Error> {
        let (function, params) = (function.into(), to_map(params)?);
        Ok(Self { function, params, caller: caller.into(), trace: trace::current() })
    }

    /// The same, made by this span.
    #[must_use]
    pub fn with_trace(self, trace: Option<TraceParent>) -> Self {
        Self { trace, ..self }
    }
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation")
            .field("function", &self.function)
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}

fn to_map(params: impl Serialize) -> Result<Map<String, Value>, Error> {
    match serde_json::to_value(params) {
        Ok(Value::Object(params)) => Ok(params),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(Error::with_info(codes::INVOKER_ERROR, "the parameters are no map")),
        Err(error) => Err(Error::caused_by(codes::INVOKER_ERROR, error)),
    }
}
