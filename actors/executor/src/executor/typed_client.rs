//! Calls whose parameters name their function, result and errors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::flow::earliest;
use asyncsteps_actors::sync::FencingToken;
use asyncsteps_actors::trace::TraceParent;
use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{Code, Error, codes};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::arbiter::is_arbiter;
use super::caller::Caller;
use super::handle::Executor;
use super::key::checked_key;
use super::not_hosted::NotHosted;

/// The pauses before a call is made again.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(200), Duration::from_millis(600)];

/// The parameters of a function, as a type that names it: what a [`TypedClient`] calls.
///
/// The type is that of the function's parameters, or one with the same fields, so that a service and its clients can
/// share it:
///
/// ```
/// use asyncsteps::typed::Interface;
/// use asyncsteps::{BodyResult, Caller, Code, Cx, Executor, Service, TypedCall, TypedCallError};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, thiserror::Error, Code)]
/// enum SeatError {
///     #[error("{0}")]
///     #[code(public)]
///     NoSuchEvent(String),
///     #[error("no seat is left")]
///     SoldOut,
/// }
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Reserve {
///     event: String,
///     seats: i32,
/// }
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Reserved {
///     left: i32,
/// }
///
/// impl TypedCall for Reserve {
///     const FUNCTION: &'static str = "acme.seats:1.0:reserve";
///     type Result = Reserved;
///     type Errors = SeatError;
/// }
///
/// # struct Seats;
/// # impl Service for Seats { type Errors = SeatError; }
/// # async fn reserve(cx: &Cx<Seats, Reserve>) -> BodyResult<Reserved> {
/// #     match (&*cx.params.event, cx.params.seats) {
/// #         ("fair", seats @ ..=10) => Ok(Reserved { left: 10 - seats }),
/// #         ("fair", _) => Err(SeatError::SoldOut.into()),
/// #         (other, _) => Err(SeatError::NoSuchEvent(other.to_owned()).into()),
/// #     }
/// # }
/// # #[actix_rt::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut interface = Interface::new("acme.seats:1.0".parse()?);
/// # interface.allow_anonymous();
/// # let executor = Executor::builder()
/// #     .service(interface, Seats, |functions| { functions.on("reserve", reserve); })
/// #     .build()?;
/// let client = executor.client_for(Caller::anonymous());
/// let reserve = async |event: &str, seats| client.call(Reserve { event: event.to_owned(), seats }).await;
///
/// assert_eq!(reserve("fair", 3).await?.left, 7);
/// match reserve("fair", 11).await {
///     Err(TypedCallError::Declared(SeatError::SoldOut)) => {}
///     _ => panic!("there are ten"),
/// }
/// match reserve("ball", 1).await {
///     Err(TypedCallError::Declared(SeatError::NoSuchEvent(event))) => assert_eq!(event, "ball"),
///     _ => panic!("there is a fair"),
/// }
/// # Ok(()) }
/// ```
///
/// Where the function is hosted does not matter: here, on another node or at a URL, as the
/// [invoker](super::Builder::invoker) of the executor has it.
pub trait TypedCall: Serialize + 'static {
    /// The function, `iface:version:function`.
    const FUNCTION: &'static str;

    /// Its result; `()` for a function without one.
    type Result: DeserializeOwned + 'static;

    /// The errors that it declares, most often those of its [`Service`](crate::Service); [`Infallible`](std::convert::Infallible) for none.
    type Errors: Code + Send + Sync;
}

/// Why a [`TypedClient`] has no result.
///
/// `?` in a body of a step raises it as `?` does an [`Error`]; elsewhere it becomes a `Box<dyn Error>`, or by
/// [`into_error`](Self::into_error) an [`Error`].
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "an error is declared or not")]
pub enum TypedCallError<E> {
    /// An error that the function declares, and that [`Code::from_code`] makes of its code and text.
    Declared(E),
    /// Any other, with its code: a standard error such as DefenseRejected, CommError if it is not known whether the
    /// call was carried out, or a declared one whose value code and text do not say.
    Other(Error),
}

/// Calls functions for one caller, by the type of their parameters, see [`TypedCall`]. Cheap to clone.
///
/// [`Executor::client_for`], [`Executor::client_as_system`] and [`ServedRequest::client`](super::ServedRequest::client)
/// make one.
#[derive(Clone, Debug)]
pub struct TypedClient {
    executor: Executor,
    caller: Caller,
    /// The request that calls.
    trace: Option<TraceParent>,
    fences: Vec<FencingToken>,
    /// That request was in flight when it made this client.
    is_inside: bool,
    /// What its functions see as the key of their caller.
    key: Option<Arc<str>>,
}

impl TypedClient {
    pub(super) fn new(executor: Executor, caller: Caller) -> Self {
        Self { executor, caller, trace: None, fences: Vec::new(), is_inside: false, key: None }
    }

    pub(super) fn of_request(
        self,
        trace: TraceParent,
        fences: Vec<FencingToken>,
        is_inside: bool,
    ) -> Self {
        Self { trace: Some(trace), fences, is_inside, ..self }
    }

    /// The same as the service itself, such as for functions that only services may call. What it calls still knows the
    /// request that calls, with its trace and the locks and entities that it has.
    #[must_use]
    pub fn as_system(self) -> Self {
        Self { caller: Caller::system(), ..self }
    }

    /// The same for a call that may have to be made again: with a key of 1 to 128 printable ASCII characters, without
    /// spaces around them. A function that looks at keys, such as one of an entity or a durable one, is carried out once for
    /// all calls of a user with the same key, wherever it is hosted; others ignore it.
    ///
    /// A service at a URL tells users apart only if it is registered with `on_behalf_of_users`: else all calls of it are of one
    /// user, and a key has to be different for each. Over a WebSocket to such a service there are no keys: the call fails with
    /// InvalidRequest. The [key of a step](crate::Cx::key) can be longer than 128 characters. `order-17; policy=rerun_failed` is the
    /// key `order-17` with a [policy](crate::KeyPolicy) for an earlier call that has failed.
    ///
    /// ```
    /// # use asyncsteps_executor::{TypedCall, TypedCallError, TypedClient};
    /// # async fn reserve<C: TypedCall + Clone>(client: TypedClient, order: C) -> Result<C::Result, TypedCallError<C::Errors>> {
    /// let client = client.with_key("order-17");
    /// match client.call(order.clone()).await {
    ///     // it may have been carried out, or not, after several attempts: the same call later has the answer
    ///     Err(error) if ["CommError", "OutcomeUnknown"].contains(&error.code()) => client.call(order).await,
    ///     answer => answer,
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn with_key(self, key: impl Into<Arc<str>>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Calls the function that the type of the parameters names; returns its result.
    ///
    /// Made on an arbiter, a call that was not carried out (ConnectError, unless the function declares it) is made again,
    /// up to three times within a second, as long as its flow has time; with a [key](Self::with_key) also one whose outcome
    /// is unknown (CommError).
    ///
    /// # Errors
    /// As for [`Executor::call_for`], and InvalidRequest with a [key](Self::with_key) that is none.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    pub async fn call<C: TypedCall>(
        &self,
        call: C,
    ) -> Result<C::Result, TypedCallError<C::Errors>> {
        self.result::<C>(call).await.map_err(TypedCallError::of)
    }

    async fn result<C: TypedCall>(&self, call: C) -> Result<C::Result, Error> {
        self.key.as_deref().map(checked_key).transpose()?;
        let mut invocation = self.executor.invocation(C::FUNCTION, call, self.caller.clone())?;
        if self.trace.is_some() {
            invocation.trace = self.trace;
        }
        invocation.is_inside = self.is_inside;
        invocation.fences.clone_from(&self.fences);
        invocation.key.clone_from(&self.key);
        for pause in PAUSES {
            let error = match self.executor.call_typed(Ok(invocation.clone())).await {
                Err(error) if is_arbiter() && self.may_repeat::<C>(&error) => error,
                result => return result,
            };
            let again = clock::now() + pause;
            if earliest(None).is_some_and(|deadline| deadline <= again) {
                return Err(error);
            }
            tracing::debug!(f = C::FUNCTION, error = error.code(), "a call is made again");
            timer::sleep_until(again).await;
        }
        self.executor.call_typed(Ok(invocation)).await
    }

    /// Whether a call that failed is made again: it was not carried out, or it may have been and has a key.
    fn may_repeat<C: TypedCall>(&self, error: &Error) -> bool {
        let code = error.code();
        let is_away = code == codes::CONNECT_ERROR && error.find::<NotHosted>().is_none();
        let is_safe = is_away || self.key.is_some() && code == codes::COMM_ERROR;
        is_safe && C::Errors::from_code(code, error.info()).is_none()
    }
}

impl<E: Code + Send + Sync> TypedCallError<E> {
    fn of(error: Error) -> Self {
        let declared = E::from_code(error.code(), error.info());
        match declared.map(|declared| declared.downcast::<E>()) {
            Some(Ok(declared)) => Self::Declared(*declared),
            Some(Err(_)) | None => Self::Other(error),
        }
    }

    /// The code of the error.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Declared(error) => error.code(),
            Self::Other(error) => error.code(),
        }
    }

    /// The error without its type; a declared one is its cause.
    #[must_use]
    pub fn into_error(self) -> Error {
        match self {
            Self::Declared(declared) => {
                let error = match declared.info() {
                    Some(info) => Error::with_info(declared.code(), info),
                    None => Error::new(declared.code()),
                };
                error.with_cause(declared)
            }
            Self::Other(error) => error,
        }
    }
}

impl<E: Code> fmt::Display for TypedCallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declared(error) => fmt::Display::fmt(error, f),
            Self::Other(error) => fmt::Display::fmt(error, f),
        }
    }
}

// it is no `std::error::Error`, so that `?` raises what is in it, with its code
impl<E: Code + Send + Sync> From<TypedCallError<E>> for Box<dyn std::error::Error + Send + Sync> {
    fn from(error: TypedCallError<E>) -> Self {
        Box::new(error.into_error())
    }
}

impl<E: Code + Send + Sync> From<TypedCallError<E>> for Box<dyn std::error::Error> {
    fn from(error: TypedCallError<E>) -> Self {
        Box::new(error.into_error())
    }
}
