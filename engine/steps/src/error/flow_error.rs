//! The error of a flow (FTN12 §1.2, §1.7): a code that handlers match on, information for people, and
//! its cause.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::iter;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::codes;
use super::domain::Codes;
use crate::location::StepLocation;
use crate::outcome::Undo;

/// An error code: open text, one of [`codes`] or one that an interface declares.
pub type ErrorCode = Cow<'static, str>;

/// The error of a step or of a flow (FTN12 §1.2, §1.7).
///
/// Handlers match on [`code`](Self::code); [`info`](Self::info) is for people. Cloning shares; facts
/// that a flow adds about one failure, such as its location, do not show in other clones.
#[derive(Clone)]
pub struct Error(Arc<SharedError>);

struct SharedError {
    origin: ContentOrigin,
    facts: ErrorFacts,
}

/// Where the content of an error is.
enum ContentOrigin {
    Own(ErrorContent),
    /// In this error, which has its own content: the facts are other ones.
    Other(Error),
}

struct ErrorContent {
    code: ErrorCode,
    info: Option<Cow<'static, str>>,
    cause: ErrorCause,
}

/// The facts that a flow knows about one failure with an error.
#[derive(Clone, Copy)]
struct ErrorFacts {
    /// The step that made the error, or else the first one that raised it.
    location: Option<StepLocation>,
    /// The number of attempts after which a step failed for good with the error.
    attempts: Option<u32>,
    /// The outcome of the step whose undo failed with the error.
    failed_undo: Option<Undo<()>>,
    /// The outcome of the body that failed with the error is unknown.
    outcome_unknown: bool,
}

enum ErrorCause {
    None,
    /// A rule of the API was broken.
    Rule,
    /// This time limit expired.
    Limit(Duration),
    Error(Box<dyn StdError + Send + Sync>),
    /// An error handler raised this error again, with other information.
    Again(Error),
    /// A panic payload is not `Sync`; the mutex makes it so, and is never contended.
    Panic(Mutex<Option<Box<dyn Any + Send>>>, Cow<'static, str>),
}

impl Error {
    /// An error with this code and no information.
    #[must_use]
    pub fn new(code: impl Into<ErrorCode>) -> Self {
        Self::build(code.into(), None, None, ErrorCause::None)
    }

    /// An error with a code and information for people (`error_info`, FTN12 §1.7).
    #[must_use]
    pub fn with_info(code: impl Into<ErrorCode>, info: impl Into<Info>) -> Self {
        Self::build(code.into(), info.into().0, None, ErrorCause::None)
    }

    /// An `InternalError` that a library raises by itself: its information is for logs. Callers of a service do not see
    /// it, because it was not [chosen](Self::is_deliberate) for them.
    #[must_use]
    pub fn unexpected(info: impl Into<Info>) -> Self {
        Self::build(codes::INTERNAL_ERROR.into(), info.into().0, None, ErrorCause::Rule)
    }

    /// An error with a code that wraps `cause`.
    ///
    /// It has no information: the text of the cause was not written for the callers of a service. It
    /// is for logs, as [`source`](StdError::source). See [`with_cause`](Self::with_cause).
    #[must_use]
    pub fn caused_by(
        code: impl Into<ErrorCode>,
        cause: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::build(code.into(), None, None, ErrorCause::Error(cause.into()))
    }

    /// The same error, caused by `cause`: the information is for callers, the cause for logs.
    ///
    /// ```
    /// use asyncsteps_core::Error;
    ///
    /// let cause = "x".parse::<u64>().expect_err("no digits");
    /// let error = Error::with_info("NotANumber", "an order has a number").with_cause(cause);
    /// assert_eq!(error.info(), Some("an order has a number"));
    /// ```
    #[must_use]
    pub fn with_cause(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let ErrorContent { code, info, .. } = self.content();
        Self::build(code.clone(), info.clone(), self.location(), ErrorCause::Error(cause.into()))
    }

    /// The error of a step whose time limit expired.
    pub(crate) fn timeout(limit: Duration, location: StepLocation) -> Self {
        Self::build(codes::TIMEOUT.into(), None, Some(location), ErrorCause::Limit(limit))
    }

    /// The same error, raised in the step at `location` unless a step made it.
    pub(crate) fn at(self, location: StepLocation) -> Self {
        if self.location().is_some() {
            return self;
        }
        self.with_facts(|facts| facts.location = Some(location))
    }

    pub(crate) fn raised(code: ErrorCode, info: Info, location: StepLocation) -> Self {
        Self::build(code, info.0, Some(location), ErrorCause::None)
    }

    /// The error that an error handler raises for `handled`. With the same code it is raised again: it
    /// keeps its cause, and the number of attempts of the step that failed with it.
    pub(crate) fn raised_for(
        handled: &Self,
        code: ErrorCode,
        info: Info,
        location: StepLocation,
    ) -> Self {
        if handled.code() != code {
            return Self::raised(code, info, location);
        }
        let error = Self::build(code, info.0, Some(location), ErrorCause::Again(handled.clone()));
        match handled.attempts() {
            Some(attempts) => error.after_attempts(attempts),
            None => error,
        }
    }

    /// The error of a step that broke a rule of the API.
    pub(crate) fn violation(rule: impl fmt::Display, location: StepLocation) -> Self {
        let info = Cow::Owned(format!("{rule}, in the step {location}"));
        Self::build(codes::INTERNAL_ERROR.into(), Some(info), Some(location), ErrorCause::Rule)
    }

    pub(crate) fn panicked(payload: Box<dyn Any + Send>, location: StepLocation) -> Self {
        let text: Cow<'static, str> = if let Some(text) = payload.downcast_ref::<&'static str>() {
            Cow::Borrowed(text)
        } else if let Some(text) = payload.downcast_ref::<String>() {
            Cow::Owned(text.clone())
        } else {
            Cow::Borrowed("a value that is not text")
        };
        let info = Cow::Owned(format!("panic in the step {location}: {text}"));
        let cause = ErrorCause::Panic(Mutex::new(Some(payload)), text);
        Self::build(codes::INTERNAL_ERROR.into(), Some(info), Some(location), cause)
    }

    fn build(
        code: ErrorCode,
        info: Option<Cow<'static, str>>,
        location: Option<StepLocation>,
        cause: ErrorCause,
    ) -> Self {
        Self(Arc::new(SharedError {
            origin: ContentOrigin::Own(ErrorContent { code, info, cause }),
            facts: ErrorFacts {
                location,
                attempts: None,
                failed_undo: None,
                outcome_unknown: false,
            },
        }))
    }

    fn content(&self) -> &ErrorContent {
        match &self.0.origin {
            ContentOrigin::Own(content) => content,
            ContentOrigin::Other(error) => error.content(),
        }
    }

    /// The same error with other facts; its clones keep theirs.
    fn with_facts(mut self, change: impl FnOnce(&mut ErrorFacts)) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            change(&mut inner.facts);
            return self;
        }
        let mut facts = self.0.facts;
        change(&mut facts);
        let origin = match &self.0.origin {
            ContentOrigin::Own(_) => self,
            ContentOrigin::Other(error) => error.clone(),
        };
        Self(Arc::new(SharedError { origin: ContentOrigin::Other(origin), facts }))
    }

    /// The code that handlers match on, such as [`codes::TIMEOUT`].
    #[must_use]
    pub fn code(&self) -> &str {
        &self.content().code
    }

    /// `error_info` of FTN12 §1.7: the text of the error, for people.
    #[must_use]
    pub fn info(&self) -> Option<&str> {
        self.content().info.as_deref()
    }

    /// The step in which the error was raised, if it was raised in a step; for a `Timeout` the step
    /// that had the limit.
    #[must_use]
    pub fn location(&self) -> Option<StepLocation> {
        self.0.facts.location
    }

    /// The time limit of a `Timeout`; [`location`](Self::location) names the step that had it.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        match &self.content().cause {
            ErrorCause::Limit(limit) => Some(*limit),
            ErrorCause::Again(handled) => handled.limit(),
            ErrorCause::None | ErrorCause::Rule | ErrorCause::Error(_) | ErrorCause::Panic(..) => {
                None
            }
        }
    }

    /// The number of attempts after which a step failed for good with this error, for logs; `None`
    /// if no step that is tried again did, see [`Retry`](crate::Retry).
    #[must_use]
    pub fn attempts(&self) -> Option<u32> {
        self.0.facts.attempts
    }

    /// The same error, with which a step failed for good; the outermost of several steps counts.
    pub(crate) fn after_attempts(self, attempts: u32) -> Self {
        self.with_facts(|facts| facts.attempts = Some(attempts))
    }

    /// The outcome of the step whose undo failed with this error; `None` if this is not the error of
    /// an undo, see [`Added::undo`](crate::Added::undo). [`location`](Self::location) names the step.
    #[must_use]
    pub fn failed_undo(&self) -> Option<Undo<()>> {
        self.0.facts.failed_undo
    }

    /// The same error, with which the undo of a step failed for good.
    pub(crate) fn of_undo(self, is_done: bool) -> Self {
        let undone = if is_done { Undo::Done(()) } else { Undo::Unknown };
        self.with_facts(|facts| facts.failed_undo = Some(undone))
    }

    /// The same error of a body that does not know whether it had its effect, as when a connection is
    /// lost before the answer. So the step is undone as [`Undo::Unknown`], see
    /// [`Added::undo`](crate::Added::undo).
    ///
    /// ```
    /// # use asyncsteps_core::{BodyResult, Error, codes};
    /// # async fn charge() -> Result<u32, std::io::Error> { Ok(7) }
    /// # async fn body() -> BodyResult<u32> {
    /// let lost = |error| Error::caused_by(codes::COMM_ERROR, error).outcome_unknown();
    /// Ok(charge().await.map_err(lost)?)
    /// # }
    /// ```
    #[must_use]
    pub fn outcome_unknown(self) -> Self {
        self.with_facts(|facts| facts.outcome_unknown = true)
    }

    pub(crate) fn leaves_outcome_unknown(&self) -> bool {
        self.0.facts.outcome_unknown
    }

    /// The first error of this type among this one and what [caused](StdError::source) it.
    ///
    /// ```
    /// use std::num::ParseIntError;
    /// use asyncsteps_core::{Error, codes};
    ///
    /// let cause = "x".parse::<u64>().expect_err("no digits");
    /// let error = Error::caused_by(codes::INVALID_REQUEST, cause);
    /// assert!(error.find::<ParseIntError>().is_some());
    /// ```
    #[must_use]
    pub fn find<E: StdError + 'static>(&self) -> Option<&E> {
        causes(self).find_map(|error| error.downcast_ref())
    }

    /// The same error with the code of the first error in `C` that [caused](StdError::source) it, and
    /// with its text for callers. An error whose code was chosen keeps it, and so does one without
    /// such a cause.
    #[must_use]
    pub fn coded<C: Codes>(mut self) -> Self {
        let ErrorCause::Error(cause) = &self.content().cause else { return self };
        if self.code() != codes::INTERNAL_ERROR {
            return self;
        }
        let Some((code, info)) = causes(&**cause).find_map(C::of) else { return self };
        let info = info.map(Cow::Owned);
        if let Some(SharedError { origin: ContentOrigin::Own(content), .. }) =
            Arc::get_mut(&mut self.0)
        {
            (content.code, content.info) = (code.into(), info);
            return self;
        }
        let known = self.0.facts;
        let coded = Self::build(code.into(), info, None, ErrorCause::Error(Box::new(self)));
        coded.with_facts(|facts| *facts = known)
    }

    /// Whether this is the very error `other`, and not one like it; the facts may be other ones.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        ptr::eq(self.content(), other.content())
    }

    /// Whether a step or a completion chose this code, so that callers of a service may see it. It did
    /// not for a panic, a broken rule, or a foreign error without a code.
    #[must_use]
    pub fn is_deliberate(&self) -> bool {
        match &self.content().cause {
            ErrorCause::None | ErrorCause::Limit(_) | ErrorCause::Again(_) => true,
            ErrorCause::Error(_) => self.code() != codes::INTERNAL_ERROR,
            ErrorCause::Rule | ErrorCause::Panic(..) => false,
        }
    }

    /// The message of the panic, if a callback panicked.
    #[must_use]
    pub fn panic_message(&self) -> Option<&str> {
        match &self.content().cause {
            ErrorCause::Panic(_, text) => Some(text),
            ErrorCause::None
            | ErrorCause::Rule
            | ErrorCause::Limit(_)
            | ErrorCause::Error(_)
            | ErrorCause::Again(_) => None,
        }
    }

    /// Takes the payload of the panic, to resume it elsewhere; `None` if no callback panicked or the
    /// payload was taken before.
    #[must_use]
    pub fn take_panic_payload(&self) -> Option<Box<dyn Any + Send>> {
        match &self.content().cause {
            ErrorCause::Panic(payload, _) => {
                payload.lock().unwrap_or_else(PoisonError::into_inner).take()
            }
            ErrorCause::None
            | ErrorCause::Rule
            | ErrorCause::Limit(_)
            | ErrorCause::Error(_)
            | ErrorCause::Again(_) => None,
        }
    }
}

/// An error and its causes.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    iter::successors(Some(error), |error| (**error).source())
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("code", &self.content().code)
            .field("info", &self.content().info)
            .finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())?;
        if let (ErrorCause::Limit(limit), Some(location)) = (&self.content().cause, self.location())
        {
            return write!(f, ": the limit of {limit:?} of the step {location}");
        }
        match self.info() {
            Some(info) => write!(f, ": {info}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.content().cause {
            ErrorCause::Error(cause) => Some(&**cause),
            ErrorCause::Again(handled) => Some(handled),
            ErrorCause::None | ErrorCause::Rule | ErrorCause::Limit(_) | ErrorCause::Panic(..) => {
                None
            }
        }
    }
}

/// The optional information that goes with an error code (`error_info`, FTN12 §1.7).
///
/// It converts from `&'static str` and `String`. `()` and `None` mean no information, which clears
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

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Error>();
};
