//! A call and its response.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::sync::FencingToken;
use asyncsteps_core::codes;
use asyncsteps_executor::iface::FunctionName;
use asyncsteps_executor::observe::TraceParent;
use asyncsteps_executor::{Caller, Invocation};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call_error::CallError;
use crate::node::NodeId;

/// A call of a function.
///
/// ```
/// use std::time::Duration;
/// use asyncsteps_fabric::Call;
/// use serde_json::json;
///
/// let call = Call::new("demo.bank:1.0:balance", json!({ "account": 7 }))?
///     .within(Duration::from_secs(1));
/// assert_eq!(call.function().func(), "balance");
/// # Ok::<(), asyncsteps_fabric::CallError>(())
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Call {{ function: {:?}, caller: {:?}, time_limit: {time_limit:?}, node: {node:?}, .. }}",
    self.function().as_str(), self.invocation.caller
)]
#[must_use = "a fabric makes the call"]
pub struct Call {
    pub(crate) invocation: Invocation,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) node: Option<NodeId>,
}

impl Call {
    /// An anonymous call of `iface:version:function`.
    ///
    /// # Errors
    /// InvokerError if this is no name of a function, or if the parameters are no map.
    pub fn new(function: &str, params: impl Serialize + 'static) -> Result<Self, CallError> {
        let wrong = |info| CallError::not_made(codes::INVOKER_ERROR, info);
        let name = function.parse().map_err(|error| wrong(format!("{function}: {error}")))?;
        let invocation = Invocation::new(name, params, Caller::anonymous()).map_err(|error| {
            wrong(error.info().map_or_else(|| error.to_string(), ToOwned::to_owned))
        })?;
        Ok(invocation.into())
    }

    /// The same on behalf of a user, see [`Caller`] (FTN3 §1.11).
    pub fn for_caller(mut self, caller: impl Into<Caller>) -> Self {
        self.invocation.caller = caller.into();
        self
    }

    /// The same with a time limit, for the way there and back too, and for all attempts of a [client](crate::Client)
    /// together. The earlier one counts, of this limit and the limit of the flow that makes the call.
    pub fn within(self, time_limit: Duration) -> Self {
        Self { time_limit: Some(time_limit), ..self }
    }

    /// The same as a part of a trace (W3C Trace Context).
    pub fn in_trace(self, trace: impl Into<Option<TraceParent>>) -> Self {
        Self { invocation: self.invocation.with_trace(trace.into()), ..self }
    }

    /// The same with a key that identifies what is asked for among everything that any node asks for;
    /// all attempts at one thing have the same key. A call without one gets a key of its own.
    pub fn with_key(self, key: impl Into<Arc<str>>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// The same with the tokens of the locks that are held around the call, for the targets of its writes. Calls of
    /// [steps](asyncsteps_executor::CallSteps) have them by themselves.
    pub fn with_fences(self, fences: Vec<FencingToken>) -> Self {
        Self { invocation: self.invocation.with_fences(fences), ..self }
    }

    /// The same, carried out by this node or not at all.
    pub fn on_node(self, node: NodeId) -> Self {
        Self { node: Some(node), ..self }
    }

    /// The function.
    #[must_use]
    pub fn function(&self) -> &FunctionName {
        &self.invocation.function
    }
}

/// The call that an executor asks its invoker for.
impl From<Invocation> for Call {
    fn from(invocation: Invocation) -> Self {
        Self { invocation, time_limit: None, key: None, node: None }
    }
}

/// The answer of a function.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Response {
    /// The result; `None` for a function without one.
    pub result: Option<Value>,
}

impl Response {
    /// A response with this result; for drivers.
    #[must_use]
    pub fn new(result: impl Into<Option<Value>>) -> Self {
        Self { result: result.into() }
    }

    /// The result as JSON, null for a function without one.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.result.unwrap_or_default()
    }

    /// The result as a type; read from null for a function without one.
    ///
    /// # Errors
    /// InvokerError if it is not of that type.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, CallError> {
        T::deserialize(self.into_value())
            .map_err(|error| CallError::answered(codes::INVOKER_ERROR, error.to_string()))
    }
}
