//! Calls from the same process (FTN6 §1.4, §2.8 `onInternalRequest`): no bytes, all checks.

use asyncsteps::{Added, AsyncSteps, Error, codes};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::caller::Caller;
use super::reply::ReplyBody;
use super::{ExecutorHandle, Incoming, RequestSteps};
use crate::channel::Channel;
use crate::message::Request;
use crate::security::User;

impl ExecutorHandle {
    /// Calls a function of this executor as the service itself, with the level System; gives its
    /// result, which for a function without one is read from null.
    ///
    /// All checks apply. Made by a step, the call ends no later than the flow and is in its trace.
    ///
    /// ```
    /// # use asyncsteps_actors::executor::{Executor, builtin};
    /// # use asyncsteps_actors::iface::{Loader, Source};
    /// # use serde_json::{Value, json};
    /// # actix::System::new().block_on(async {
    /// # let ping = Loader::new([Source::builtin()]).load(&"futoin.ping:1.0".parse()?)?;
    /// let executor = Executor::builder()
    ///     .interface(ping, |functions| {
    ///         functions.add("ping", &builtin::ping());
    ///     })
    ///     .build()?;
    /// let answer: Value = executor.call("futoin.ping:1.0:ping", json!({ "echo": 7 })).await?;
    /// assert_eq!(answer, json!({ "echo": 7 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The error that the function or a check gave; InvokerError if the parameters are no map or the
    /// result is not of the type asked for.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    ///
    /// # Panics
    /// Outside of an actix arbiter, when it is polled.
    pub fn call<T: DeserializeOwned>(
        &self,
        function: &str,
        params: impl Serialize,
    ) -> impl Future<Output = Result<T, Error>> + 'static {
        self.call_as(Caller::internal(), function, params)
    }

    /// The same on behalf of a user, with no more than the user may (FTN3 §1.11).
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    ///
    /// # Panics
    /// Outside of an actix arbiter, when it is polled.
    pub fn call_for<T: DeserializeOwned>(
        &self,
        user: &User,
        function: &str,
        params: impl Serialize,
    ) -> impl Future<Output = Result<T, Error>> + 'static {
        self.call_as(Caller::internal_for(user), function, params)
    }

    fn call_as<T: DeserializeOwned>(
        &self,
        caller: Caller,
        function: &str,
        params: impl Serialize,
    ) -> impl Future<Output = Result<T, Error>> + 'static {
        let executor = self.clone();
        let request = to_map(params).map(|params| Request::new(function, params));
        async move {
            let incoming = Incoming::new(request?, Channel::local()).with_caller(caller);
            let (_, body) = executor.serve(incoming).await.into_parts();
            let result = match body {
                ReplyBody::Message(message) => message
                    .into_response()
                    .into_result()
                    .map_err(|(code, info)| Error::with_info(code, info))?,
                ReplyBody::Nothing | ReplyBody::Raw(_) => Value::Null,
            };
            T::deserialize(result).map_err(|error| Error::caused_by(codes::INVOKER_ERROR, error))
        }
    }
}

/// Calling other functions from a step that serves a request.
pub trait CallSteps {
    /// Adds a step that [calls](ExecutorHandle::call) a function of the executor that serves this
    /// request, as the service itself; its result `(T,)` goes to the next step.
    ///
    /// # Errors
    /// InternalError if the flow serves no request.
    fn call<T: DeserializeOwned + 'static>(
        &mut self,
        function: &str,
        params: impl Serialize,
    ) -> Result<Added<'_>, Error>;
}

impl CallSteps for AsyncSteps {
    #[track_caller]
    fn call<T: DeserializeOwned + 'static>(
        &mut self,
        function: &str,
        params: impl Serialize,
    ) -> Result<Added<'_>, Error> {
        let call = self.request()?.executor().call::<T>(function, params);
        Ok(self.await_(async { call.await.map(|result| (result,)) }))
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
