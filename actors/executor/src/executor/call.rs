//! Calls from the same process (FTN6 §1.4, §2.8 `onInternalRequest`): no bytes, all checks.

use std::sync::Arc;

use asyncsteps::{Added, AsyncSteps, Error, codes};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::caller::Caller;
use super::reply::ReplyBody;
use super::{Executor, Incoming, RequestSteps};
use crate::channel::Channel;
use asyncsteps_actors::sync::{Call, Calling, calling};
use asyncsteps_futoin::message::Request;

impl Executor {
    /// Calls a function of this executor as the service itself, with the level System, which may call
    /// everything; gives its result, which for a function without one is read from null.
    ///
    /// It is for work of the application itself. Work for a request acts for its user instead, or the
    /// user reaches functions that are closed to them: see [`CallSteps::call`] and
    /// [`call_for`](Self::call_for). Parameters are checked all the same. Made by a step, the call ends
    /// no later than the flow and is in its trace.
    ///
    /// ```
    /// # use asyncsteps_executor::{Executor, builtin};
    /// # use asyncsteps_executor::iface::{Loader, Source};
    /// # use serde_json::{Value, json};
    /// # actix::System::new().block_on(async {
    /// # let ping = Loader::new([Source::builtin()]).load(&"futoin.ping:1.0".parse()?)?;
    /// let executor = Executor::builder()
    ///     .interface(ping, |functions| {
    ///         functions.add("ping", &builtin::ping());
    ///     })
    ///     .build()?;
    /// let answer: Value = executor.call_as_system("futoin.ping:1.0:ping", json!({ "echo": 7 })).await?;
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
    pub fn call_as_system<T: DeserializeOwned>(
        &self,
        function: &str,
        params: impl Serialize,
    ) -> impl Future<Output = Result<T, Error>> + 'static {
        self.call_as(Caller::system(), function, params)
    }

    /// The same on behalf of a user, or of an anonymous caller, with no more than they may (FTN3
    /// §1.11).
    ///
    /// # Errors
    /// As for [`call_as_system`](Self::call_as_system), and SecurityError or PleaseReauth if the caller
    /// may not call the function.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    ///
    /// # Panics
    /// Outside of an actix arbiter, when it is polled.
    pub fn call_for<T: DeserializeOwned>(
        &self,
        caller: impl Into<Caller>,
        function: &str,
        params: impl Serialize,
    ) -> impl Future<Output = Result<T, Error>> + 'static {
        self.call_as(caller.into(), function, params)
    }

    fn call_as<T: DeserializeOwned>(
        &self,
        caller: Caller,
        function: &str,
        params: impl Serialize,
    ) -> impl Future<Output = Result<T, Error>> + 'static {
        let request = to_map(params).map(|params| Request::new(function, params));
        self.call_with(caller, request, function.into(), None)
    }

    fn call_with<T: DeserializeOwned>(
        &self,
        caller: Caller,
        request: Result<Request, Error>,
        function: Arc<str>,
        call: Option<Arc<Call>>,
    ) -> impl Future<Output = Result<T, Error>> + 'static {
        let executor = self.clone();
        async move {
            let incoming = Incoming::new(request?, Channel::local());
            let incoming = incoming.with_caller(caller).with_call(call);
            let (_, body) = executor.serve(incoming).await.into_parts();
            let result = match body {
                ReplyBody::Message(message) => {
                    message.into_response().into_result().map_err(|(code, info)| {
                        Error::with_info(code, info).with_cause(FailedCall { function })
                    })?
                }
                ReplyBody::Nothing | ReplyBody::Raw(_) => Value::Null,
            };
            T::deserialize(result).map_err(|error| Error::caused_by(codes::INVOKER_ERROR, error))
        }
    }
}

/// The cause of an error that a call within the process was answered with.
///
/// Raised by a function that is not prepared for it, an error that blames the call, such as
/// InvalidRequest, is InternalError for its caller, who did nothing wrong.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the call of {function} failed")]
pub struct FailedCall {
    function: Arc<str>,
}

impl FailedCall {
    /// The function, with interface and version.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.function
    }
}

/// Calling other functions from a step that serves a request.
///
/// ```
/// # use asyncsteps::Template;
/// # use asyncsteps_executor::{CallSteps, RequestSteps};
/// use serde_json::{Value, json};
///
/// let order = Template::build(|asi| {
///     asi.add(|asi, ()| {
///         // refused if the user may not see prices
///         asi.call::<Value>("shop.prices:1.0:get", json!({ "sku": "apple" }))?;
///         asi.add(|asi, (price,): (Value,)| {
///             // no user may write the journal, but each order is in it
///             asi.call_as_system::<Value>("shop.journal:1.0:add", json!({ "price": price }))?;
///             Ok(())
///         });
///         Ok(())
///     });
/// });
/// ```
pub trait CallSteps {
    /// Adds a step that calls a function of the executor that serves this request, for the caller of
    /// the request: with its user and level, or anonymously (FTN3 §1.11). The result `(T,)` goes to
    /// the next step. All checks apply, and calls that the function makes are for the same caller.
    ///
    /// A flow that the request launches serves no request: it calls with
    /// [`Executor::call_for`] and the request's [`caller`](super::RequestInfo::caller).
    ///
    /// # Errors
    /// InternalError if the flow serves no request.
    fn call<T: DeserializeOwned + 'static>(
        &mut self,
        function: &str,
        params: impl Serialize,
    ) -> Result<Added<'_>, Error>;

    /// The same as the service itself, with the level System, whoever calls: for what users may not do
    /// on their own. See [`Executor::call_as_system`].
    ///
    /// # Errors
    /// InternalError if the flow serves no request.
    fn call_as_system<T: DeserializeOwned + 'static>(
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
        let caller = self.request()?.caller();
        add_call::<T>(self, caller, function, params)
    }

    #[track_caller]
    fn call_as_system<T: DeserializeOwned + 'static>(
        &mut self,
        function: &str,
        params: impl Serialize,
    ) -> Result<Added<'_>, Error> {
        add_call::<T>(self, Caller::system(), function, params)
    }
}

/// Adds a step that calls. While it waits, the deadlock detection knows what for.
#[track_caller]
fn add_call<'a, T: DeserializeOwned + 'static>(
    asi: &'a mut AsyncSteps,
    caller: Caller,
    function: &str,
    params: impl Serialize,
) -> Result<Added<'a>, Error> {
    let executor = asi.request()?.executor();
    let request = to_map(params).map(|params| Request::new(function, params));
    let function: Arc<str> = function.into();
    Ok(asi.add(move |asi, ()| {
        let calling = calling(asi, &function);
        let call = calling.as_ref().map(Calling::call);
        let answer = executor.call_with::<T>(caller, request, function, call);
        asi.await_in_place(async move {
            let _calling = calling;
            answer.await.map(|result| (result,))
        });
    }))
}

fn to_map(params: impl Serialize) -> Result<Map<String, Value>, Error> {
    match serde_json::to_value(params) {
        Ok(Value::Object(params)) => Ok(params),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(Error::with_info(codes::INVOKER_ERROR, "the parameters are no map")),
        Err(error) => Err(Error::caused_by(codes::INVOKER_ERROR, error)),
    }
}
