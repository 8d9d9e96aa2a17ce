//! Calls from the same process (FTN6 §1.4, §2.8 `onInternalRequest`): no bytes, all checks.
//! Functions that are hosted elsewhere are called through the invoker.

use std::any::Any;

use asyncsteps_actors::sync::{Calling, calling, fences};
use asyncsteps_core::{Added, AsyncSteps, Error, codes};
use asyncsteps_futoin::iface::FunctionName;
use futures_util::FutureExt;
use futures_util::future::{self, Either};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::arbiter::is_arbiter;
use super::caller::Caller;
use super::failed_call::FailedCall;
use super::handle::Executor;
use super::incoming::Incoming;
use super::invoker::{Invocation, Invoker};
use super::messages::Dispatch;
use super::reply::{Message, ReplyBody};
use super::request::RequestSteps;
use super::typed_client::TypedClient;

impl Executor {
    /// Calls a function of this executor, or of another one through its
    /// [invoker](super::Builder::invoker), as the service itself, with the level System, which may call
    /// everything; returns its result, which for a function without one is read from null.
    ///
    /// It is for work of the application itself. Work for a request acts for its user instead, or the
    /// user reaches functions that are closed to them: see [`CallSteps::call`] and
    /// [`call_for`](Self::call_for). Parameters are checked all the same. Made by a step, the call ends
    /// no later than the flow and is in its trace.
    ///
    /// On an arbiter the function runs there. On any other thread the call is sent, as a
    /// [`Dispatch`], to an arbiter where the executor has an [actor](Self::address).
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
    /// The error of the function or of a check; InvokerError if the parameters are no map or the
    /// result is not of the type asked for; CommError on a thread that is no arbiter, if the executor
    /// has no actor on any.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    pub fn call_as_system<T: DeserializeOwned + 'static>(
        &self,
        function: &str,
        params: impl Serialize + 'static,
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
    pub fn call_for<T: DeserializeOwned + 'static>(
        &self,
        caller: impl Into<Caller>,
        function: &str,
        params: impl Serialize + 'static,
    ) -> impl Future<Output = Result<T, Error>> + 'static {
        self.call_as(caller.into(), function, params)
    }

    /// Calls of functions by the type of their parameters, as the service itself, as
    /// [`call_as_system`](Self::call_as_system) says.
    #[must_use]
    pub fn client_as_system(&self) -> TypedClient {
        TypedClient::new(self.clone(), Caller::system())
    }

    /// The same on behalf of a user, or of an anonymous caller, as [`call_for`](Self::call_for) says.
    #[must_use]
    pub fn client_for(&self, caller: impl Into<Caller>) -> TypedClient {
        TypedClient::new(self.clone(), caller.into())
    }

    fn call_as<T: DeserializeOwned + 'static>(
        &self,
        caller: Caller,
        function: &str,
        params: impl Serialize + 'static,
    ) -> impl Future<Output = Result<T, Error>> + 'static {
        self.call_typed(self.invocation(function, params, caller))
    }

    /// Makes a call, here or where the function is hosted; returns its result, `None` for a
    /// function without one.
    ///
    /// # Errors
    /// As for [`call_for`](Self::call_for).
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    pub fn invoke(
        &self,
        invocation: Invocation,
    ) -> impl Future<Output = Result<Option<Value>, Error>> + use<> {
        self.carry(invocation)
    }

    /// The same, with the result as a type.
    pub(super) fn call_typed<T: DeserializeOwned + 'static>(
        &self,
        invocation: Result<Invocation, Error>,
    ) -> impl Future<Output = Result<T, Error>> + use<T> {
        // an async block would have room for the call twice
        match invocation {
            Ok(invocation) => {
                let read =
                    |result: Result<Option<Value>, _>| read_result(result?.unwrap_or_default());
                Either::Left(self.carry(invocation).map(read))
            }
            Err(error) => Either::Right(future::ready(Err(error))),
        }
    }

    /// While the call waits, the deadlock detection knows the flow that waits and the one that it waits for.
    fn carry(
        &self,
        invocation: Invocation,
    ) -> impl Future<Output = Result<Option<Value>, Error>> + use<> {
        let (executor, function) = (self.clone(), invocation.function.clone());
        let carried = if is_arbiter() && self.invoker_of(&function).is_none() {
            Carried::Here(Incoming::of_invocation(invocation))
        } else {
            Carried::Elsewhere(Box::new(invocation))
        };
        async move {
            let calling = match calling(&function) {
                Some(calling) => calling.await,
                None => None,
            };
            let call = calling.as_ref().map(Calling::call);
            let message = match carried {
                Carried::Here(incoming) => executor.carry_out(incoming.with_call(call)).await,
                Carried::Elsewhere(mut invocation) => {
                    invocation.call = call;
                    if let Some(invoker) = executor.invoker_of(&function) {
                        return invoker.invoke(*invocation).await;
                    }
                    // in a box, because calls from an arbiter need no room for it
                    Box::pin(executor.send(Dispatch::of_invocation(*invocation))).await?
                }
            };
            let Some(message) = message else { return Ok(None) };
            message.into_response().into_result().map(Some).map_err(|error| {
                let cause = FailedCall::new(function);
                Error::with_info(error.code, error.description).with_cause(cause)
            })
        }
    }

    /// The invoker for a function that is not hosted here, if there is one that may host it.
    fn invoker_of(&self, function: &FunctionName) -> Option<&dyn Invoker> {
        let invoker = self.shared.config.invoker.as_deref()?;
        (!self.shared.registry.hosts(function)).then_some(invoker)
    }

    /// A call of this function by this caller.
    pub(super) fn invocation(
        &self,
        function: &str,
        params: impl Serialize + 'static,
        caller: Caller,
    ) -> Result<Invocation, Error> {
        Invocation::of_text(self.shared.registry.named(function), function, params, caller)
    }

    /// Carries out a call on this arbiter; returns the message to the caller, if there is one.
    #[expect(clippy::manual_async_fn, reason = "an async function has its arguments twice")]
    pub(super) fn carry_out(&self, incoming: Incoming) -> impl Future<Output = Option<Message>> {
        async move {
            match self.dispatch(incoming).await.into_body() {
                ReplyBody::Message(message) => Some(message),
                ReplyBody::Nothing | ReplyBody::Raw(_) => None,
            }
        }
    }

    /// Lets an arbiter where the executor has an actor carry out a call.
    async fn send(&self, dispatch: Dispatch) -> Result<Option<Message>, Error> {
        let failed = |info| Error::with_info(codes::COMM_ERROR, info);
        let actor = self.address().ok_or_else(|| failed("the executor runs on no arbiter"))?;
        // the call is cancelled when this is dropped
        let (_wants, dispatch) = dispatch.cancellable();
        actor.send(dispatch).await.map_err(|_| failed("the arbiter of the executor ended"))
    }
}

/// Where a call is carried out. In a box, where most are not.
enum Carried {
    Here(Incoming),
    Elsewhere(Box<Invocation>),
}

/// The result as the type that was asked for; as it is, if that is JSON.
fn read_result<T: DeserializeOwned + 'static>(result: Value) -> Result<T, Error> {
    let mut result = Some(result);
    let json: &mut dyn Any = &mut result;
    match json.downcast_mut::<Option<T>>().and_then(Option::take) {
        Some(json) => Ok(json),
        None => T::deserialize(result.unwrap_or_default())
            .map_err(|error| Error::caused_by(codes::INVOKER_ERROR, error)),
    }
}

/// Calling other functions from a step that serves a request.
///
/// ```
/// # use asyncsteps_core::Template;
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
    /// Adds a step that calls a function of the executor that serves this request, or of another one
    /// through its [invoker](super::Builder::invoker), for the caller of the request: with its user and level, or anonymously (FTN3 §1.11). The result `(T,)` goes to
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
        params: impl Serialize + 'static,
    ) -> Result<Added<'_>, Error>;

    /// Adds a step that calls a function as the service itself, with the level System: for what the
    /// caller of the request may not do. See [`Executor::call_as_system`].
    ///
    /// # Errors
    /// InternalError if the flow serves no request.
    fn call_as_system<T: DeserializeOwned + 'static>(
        &mut self,
        function: &str,
        params: impl Serialize + 'static,
    ) -> Result<Added<'_>, Error>;
}

impl CallSteps for AsyncSteps {
    #[track_caller]
    fn call<T: DeserializeOwned + 'static>(
        &mut self,
        function: &str,
        params: impl Serialize + 'static,
    ) -> Result<Added<'_>, Error> {
        let caller = self.request()?.caller();
        add_call::<T>(self, caller, function, params)
    }

    #[track_caller]
    fn call_as_system<T: DeserializeOwned + 'static>(
        &mut self,
        function: &str,
        params: impl Serialize + 'static,
    ) -> Result<Added<'_>, Error> {
        add_call::<T>(self, Caller::system(), function, params)
    }
}

/// Adds a step that calls.
#[track_caller]
fn add_call<'a, T: DeserializeOwned + 'static>(
    asi: &'a mut AsyncSteps,
    caller: Caller,
    function: &str,
    params: impl Serialize + 'static,
) -> Result<Added<'a>, Error> {
    let executor = asi.request()?.executor();
    let invocation = executor.invocation(function, params, caller);
    Ok(asi.add(move |asi, ()| {
        let fences = fences(asi);
        let answer =
            executor.call_typed::<T>(invocation.map(|it| it.with_fences(fences).inside(true)));
        asi.await_in_place(answer.map(|result| result.map(|result| (result,))));
    }))
}
