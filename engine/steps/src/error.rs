//! Flow errors (FTN12 §1.2, §1.7): a code that handlers match on, information for people, and what
//! caused it.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::place::Place;

/// Error codes with a meaning of their own (FTN3 §1.9.1, FTN12 §1.3 and §1.11.6).
///
/// Codes are open: interfaces declare more of them, so a code is text and not an enum.
pub mod codes {
    /// The connection to the peer could not be made; nothing was sent.
    pub const CONNECT_ERROR: &str = "ConnectError";
    /// The connection broke after sending; the outcome is unknown.
    pub const COMM_ERROR: &str = "CommError";
    /// The interface is not known to the peer.
    pub const UNKNOWN_INTERFACE: &str = "UnknownInterface";
    /// The interface is known, the version is not.
    pub const NOT_SUPPORTED_VERSION: &str = "NotSupportedVersion";
    /// The function is declared and has no implementation.
    pub const NOT_IMPLEMENTED: &str = "NotImplemented";
    /// The caller may not do this.
    pub const UNAUTHORIZED: &str = "Unauthorized";
    /// A bug or a broken rule on this side.
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// A bug on the calling side.
    pub const INVOKER_ERROR: &str = "InvokerError";
    /// The request does not follow the interface.
    pub const INVALID_REQUEST: &str = "InvalidRequest";
    /// Refused to protect the service: a limit is reached.
    pub const DEFENSE_REJECTED: &str = "DefenseRejected";
    /// The caller has to authenticate again, at a higher level.
    pub const PLEASE_REAUTH: &str = "PleaseReauth";
    /// Credentials or signature are wrong, or the channel is not secure enough.
    pub const SECURITY_ERROR: &str = "SecurityError";
    /// A time limit expired (`set_timeout`).
    pub const TIMEOUT: &str = "Timeout";
}

/// An error code: open text, one of [`codes`] or one that an interface declares.
pub type ErrorCode = Cow<'static, str>;

/// An error on its way through a flow, or the one that ended it (FTN12 §1.2, §1.7).
///
/// Handlers match on [`code`](Self::code); [`info`](Self::info) is for people. Cloning shares.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    code: ErrorCode,
    info: Option<Cow<'static, str>>,
    /// Where the error was made, if a step made it.
    place: Option<Place>,
    /// Where an error that was made elsewhere was raised; set by the flow.
    raised: OnceLock<Place>,
    cause: Cause,
}

enum Cause {
    None,
    /// A rule of the API was broken.
    Rule,
    /// This time limit expired.
    Limit(Duration),
    Error(Box<dyn StdError + Send + Sync>),
    /// A panic payload is `Send` only; the mutex makes it shareable and is never contended.
    Panic(Mutex<Option<Box<dyn Any + Send>>>, Cow<'static, str>),
}

impl Error {
    /// An error with this code and no information.
    #[must_use]
    pub fn new(code: impl Into<ErrorCode>) -> Self {
        Self::build(code.into(), None, None, Cause::None)
    }

    /// An error with a code and information for people (`error_info`, FTN12 §1.7).
    #[must_use]
    pub fn with_info(code: impl Into<ErrorCode>, info: impl Into<Info>) -> Self {
        Self::build(code.into(), info.into().0, None, Cause::None)
    }

    /// An error with a code that wraps `cause`.
    ///
    /// It has no information: the text of the cause was not written for the callers of a service, so
    /// it is for logs, as [`source`](StdError::source). See [`with_cause`](Self::with_cause).
    #[must_use]
    pub fn caused_by(
        code: impl Into<ErrorCode>,
        cause: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::build(code.into(), None, None, Cause::Error(cause.into()))
    }

    /// The same error, caused by `cause`: the information is for callers, the cause for logs.
    ///
    /// ```
    /// use asyncsteps::Error;
    ///
    /// let cause = "x".parse::<u64>().expect_err("no digits");
    /// let error = Error::with_info("NotANumber", "an order has a number").with_cause(cause);
    /// assert_eq!(error.info(), Some("an order has a number"));
    /// ```
    #[must_use]
    pub fn with_cause(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let Inner { code, info, .. } = &*self.0;
        Self::build(code.clone(), info.clone(), self.place(), Cause::Error(cause.into()))
    }

    /// The time limit of the step at `place` expired.
    pub(crate) fn timeout(limit: Duration, place: Place) -> Self {
        Self::build(codes::TIMEOUT.into(), None, Some(place), Cause::Limit(limit))
    }

    /// The same error, raised in the step at `place` unless it has a place.
    pub(crate) fn at(self, place: Place) -> Self {
        if self.0.place.is_none() {
            self.0.raised.get_or_init(|| place);
        }
        self
    }

    pub(crate) fn raised(code: ErrorCode, info: Info, place: Place) -> Self {
        Self::build(code, info.0, Some(place), Cause::None)
    }

    /// A broken rule of the API: the rule and the place of the step that broke it.
    pub(crate) fn violation(rule: impl fmt::Display, place: Place) -> Self {
        let info = Cow::Owned(format!("{rule}, in the step {place}"));
        Self::build(codes::INTERNAL_ERROR.into(), Some(info), Some(place), Cause::Rule)
    }

    pub(crate) fn panicked(payload: Box<dyn Any + Send>, place: Place) -> Self {
        let text: Cow<'static, str> = if let Some(text) = payload.downcast_ref::<&'static str>() {
            Cow::Borrowed(text)
        } else if let Some(text) = payload.downcast_ref::<String>() {
            Cow::Owned(text.clone())
        } else {
            Cow::Borrowed("a value that is not text")
        };
        let info = Cow::Owned(format!("panic in the step {place}: {text}"));
        let cause = Cause::Panic(Mutex::new(Some(payload)), text);
        Self::build(codes::INTERNAL_ERROR.into(), Some(info), Some(place), cause)
    }

    fn build(
        code: ErrorCode,
        info: Option<Cow<'static, str>>,
        place: Option<Place>,
        cause: Cause,
    ) -> Self {
        Self(Arc::new(Inner { code, info, place, raised: OnceLock::new(), cause }))
    }

    /// The code that handlers match on, such as [`codes::TIMEOUT`].
    #[must_use]
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// `error_info` of FTN12 §1.7: what went wrong, for people.
    #[must_use]
    pub fn info(&self) -> Option<&str> {
        self.0.info.as_deref()
    }

    /// The step in which the error was raised, if it was raised in a step; of a `Timeout` the step
    /// whose limit it was.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        self.0.place.or_else(|| self.0.raised.get().copied())
    }

    /// Of the `Timeout` of a time limit: the limit. [`place`](Self::place) tells whose it was.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        match &self.0.cause {
            Cause::Limit(limit) => Some(*limit),
            Cause::None | Cause::Rule | Cause::Error(_) | Cause::Panic(..) => None,
        }
    }

    /// Whether a step or a completion chose this code: not a panic, not a broken rule, and not an
    /// error without a code of its own. What callers of a service may see, without its secrets.
    #[must_use]
    pub fn is_deliberate(&self) -> bool {
        match &self.0.cause {
            Cause::None | Cause::Limit(_) => true,
            Cause::Error(_) => self.code() != codes::INTERNAL_ERROR,
            Cause::Rule | Cause::Panic(..) => false,
        }
    }

    /// The message of the panic that this error stands for, if a callback panicked.
    #[must_use]
    pub fn panic_message(&self) -> Option<&str> {
        match &self.0.cause {
            Cause::Panic(_, text) => Some(text),
            Cause::None | Cause::Rule | Cause::Limit(_) | Cause::Error(_) => None,
        }
    }

    /// Takes the payload of the panic that this error stands for, to resume it elsewhere.
    ///
    /// Gives `None` if no callback panicked or the payload was taken before.
    #[must_use]
    pub fn take_panic_payload(&self) -> Option<Box<dyn Any + Send>> {
        match &self.0.cause {
            Cause::Panic(payload, _) => {
                payload.lock().unwrap_or_else(PoisonError::into_inner).take()
            }
            Cause::None | Cause::Rule | Cause::Limit(_) | Cause::Error(_) => None,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("code", &self.0.code).field("info", &self.0.info).finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())?;
        if let (Cause::Limit(limit), Some(place)) = (&self.0.cause, self.place()) {
            return write!(f, ": the limit of {limit:?} of the step {place}");
        }
        match self.info() {
            Some(info) => write!(f, ": {info}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.cause {
            Cause::Error(cause) => Some(&**cause),
            Cause::None | Cause::Rule | Cause::Limit(_) | Cause::Panic(..) => None,
        }
    }
}

/// The optional information that goes with an error code (`error_info`, FTN12 §1.7).
///
/// Made from `&'static str` and `String`; `()` and `None` stand for "none", which clears
/// the information of an earlier error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info(Option<Cow<'static, str>>);

impl From<&'static str> for Info {
    fn from(text: &'static str) -> Self {
        Self(Some(Cow::Borrowed(text)))
    }
}

impl From<String> for Info {
    fn from(text: String) -> Self {
        Self(Some(Cow::Owned(text)))
    }
}

impl From<Option<String>> for Info {
    fn from(text: Option<String>) -> Self {
        Self(text.map(Cow::Owned))
    }
}

impl From<()> for Info {
    fn from((): ()) -> Self {
        Self(None)
    }
}

/// What a callback returns when it did not simply come to its end.
///
/// [`AsyncSteps::success`](crate::AsyncSteps::success) and
/// [`error`](crate::AsyncSteps::error) return it too, so that `return asi.error("Code", ())`
/// and `?` both read naturally.
pub type StepResult = Result<(), Raised>;

/// An error, or the end of a loop, on its way out of a callback.
///
/// Any [`std::error::Error`] converts into it, so `?` raises `InternalError` with that error as
/// `last_exception`; an [`Error`] keeps its own code. See [`ErrorExt`] for a code of one's own.
/// Other than `AsyncSteps::error`, `?` may follow the adding of sub-steps: they are dropped.
#[derive(Debug)]
#[must_use = "return it, or the callback goes on after its end"]
pub struct Raised(pub(crate) Option<Fault>);

#[derive(Debug)]
pub(crate) enum Fault {
    Error(Error),
    /// Boxed, so that the result of a callback fits into two registers.
    Loop(Box<LoopEnd>),
}

/// Which loop to leave, and how (FTN12 §2.2.4).
#[derive(Debug)]
pub(crate) struct LoopEnd {
    pub(crate) again: bool,
    pub(crate) label: Option<Cow<'static, str>>,
}

impl Raised {
    /// The fault itself was recorded in the flow when it was raised.
    pub(crate) const RECORDED: Self = Self(None);

    pub(crate) fn error(error: Error) -> Self {
        Self(Some(Fault::Error(error)))
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Raised {
    fn from(error: E) -> Self {
        let mut slot = Some(error);
        let own =
            (&mut slot as &mut dyn Any).downcast_mut::<Option<Error>>().and_then(Option::take);
        Self(match (own, slot) {
            (Some(error), _) => Some(Fault::Error(error)),
            (None, Some(cause)) => {
                Some(Fault::Error(Error::caused_by(codes::INTERNAL_ERROR, cause)))
            }
            (None, None) => None,
        })
    }
}

/// Gives the error of a `Result` a code of FTN3 or of the interface.
///
/// ```
/// use asyncsteps::{ErrorExt, Template};
///
/// let parse = Template::build(|asi| {
///     asi.add(|asi, text: String| {
///         let number: u64 = text.parse().code("NotANumber")?;
///         asi.success(number)
///     });
/// });
/// # let _ = parse;
/// ```
pub trait ErrorExt<T> {
    /// Raises the error with `code`; the error itself becomes `last_exception`.
    ///
    /// # Errors
    /// The error of `self`, as one that a callback can raise with `?`.
    fn code(self, code: impl Into<ErrorCode>) -> Result<T, Raised>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> ErrorExt<T> for Result<T, E> {
    fn code(self, code: impl Into<ErrorCode>) -> Result<T, Raised> {
        self.map_err(|error| Raised::error(Error::caused_by(code, error)))
    }
}

/// What a callback may return: nothing, or a [`StepResult`].
pub trait StepReturn: sealed::Sealed {
    /// The result as the engine takes it.
    ///
    /// # Errors
    /// What the callback raised.
    fn into_result(self) -> StepResult;
}

impl StepReturn for () {
    fn into_result(self) -> StepResult {
        Ok(())
    }
}

impl StepReturn for StepResult {
    fn into_result(self) -> StepResult {
        self
    }
}

impl StepReturn for sealed::Never {
    fn into_result(self) -> StepResult {
        self
    }
}

mod sealed {
    /// `!`, which has no name of its own on a stable compiler: a callback that always panics, such
    /// as an unfinished one, is a callback too.
    pub(super) type Never = <fn() -> ! as Returns>::Output;

    #[expect(unnameable_types, reason = "it only serves to name a type")]
    pub trait Returns {
        type Output;
    }

    impl<T> Returns for fn() -> T {
        type Output = T;
    }

    #[expect(unnameable_types, reason = "that is what seals a trait")]
    pub trait Sealed {}
    impl Sealed for () {}
    impl Sealed for Never {}
    impl Sealed for super::StepResult {}
}

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Error>();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_mark_keeps_the_code_of_a_flow_error() {
        let raised = Raised::from(Error::with_info("OutOfStock", "no apples"));
        let Some(Fault::Error(error)) = raised.0 else { unreachable!("an error was raised") };
        assert_eq!((error.code(), error.info()), ("OutOfStock", Some("no apples")));
    }

    #[test]
    fn a_question_mark_wraps_any_other_error_as_internal() {
        let cause = "x".parse::<u8>().expect_err("not a number");
        let Some(Fault::Error(error)) = Raised::from(cause.clone()).0 else { unreachable!() };
        assert_eq!(error.code(), codes::INTERNAL_ERROR);
        assert_eq!(error.source().map(ToString::to_string), Some(cause.to_string()));
        assert_eq!(error.to_string(), "InternalError");
    }
}
