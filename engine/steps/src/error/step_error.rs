//! The results of callbacks (FTN12 §2.2.2), and how `?` raises errors.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error as StdError;

use super::codes;
use super::flow_error::{Error, ErrorCode};

/// The result of a callback (FTN12 §2.2.2): `Err` if it failed or ended a loop.
///
/// [`AsyncSteps::success`](crate::AsyncSteps::success) and
/// [`error`](crate::AsyncSteps::error) return it too, so that `return asi.error("Code", ())`
/// and `?` both read naturally.
pub type StepResult = BodyResult<()>;

/// The result of an async body (FTN12 §1.13): a value, or the error that `?` raised.
pub type BodyResult<T> = Result<T, StepError>;

/// The error type of a step: an error, or the end of a loop, that a callback returns (FTN12 §2.2.2).
///
/// Any [`std::error::Error`] converts into it, and so does what converts into a boxed one, such as
/// text or `anyhow::Error`. So `?` raises `InternalError` with that error as `last_exception`; an
/// [`Error`] keeps its own code. [`ErrorExt`] assigns it another code. Unlike `AsyncSteps::error`,
/// `?` may be used after adding sub-steps: they are dropped.
#[derive(Debug)]
#[must_use = "return it, or the callback goes on"]
pub struct StepError(pub(crate) Option<StepFault>);

/// Why a step did not complete.
#[derive(Debug)]
pub(crate) enum StepFault {
    Error(Error),
    /// Boxed, so that the result of a callback fits into two registers.
    Loop(Box<LoopEnd>),
}

/// The end of an iteration or of a loop (FTN12 §2.2.4).
#[derive(Debug)]
pub(crate) struct LoopEnd {
    /// The loop goes on with its next iteration.
    pub(crate) continues: bool,
    /// The label of the loop; `None` for the innermost one.
    pub(crate) label: Option<Cow<'static, str>>,
}

impl StepError {
    /// The interface has recorded the fault.
    pub(crate) const RECORDED: Self = Self(None);

    pub(crate) fn error(error: Error) -> Self {
        Self(Some(StepFault::Error(error)))
    }

    /// The error that `?` raised in an async body; InternalError if a callback of a step has raised
    /// it, which only its own flow can take.
    #[must_use]
    pub fn into_error(self) -> Error {
        match self.0 {
            Some(StepFault::Error(error)) => error,
            Some(StepFault::Loop(_)) | None => {
                let info = "an async body returned what a callback had raised";
                Error::with_info(codes::INTERNAL_ERROR, info)
            }
        }
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>> + 'static> From<E> for StepError {
    fn from(error: E) -> Self {
        let mut slot = Some(error);
        let own =
            (&mut slot as &mut dyn Any).downcast_mut::<Option<Error>>().and_then(Option::take);
        Self(match (own, slot) {
            (Some(error), _) => Some(StepFault::Error(error)),
            (None, Some(cause)) => Some(StepFault::Error(match cause.into().downcast::<Error>() {
                Ok(error) => *error,
                Err(cause) => Error::caused_by(codes::INTERNAL_ERROR, cause),
            })),
            (None, None) => None,
        })
    }
}

/// Assigns the error of a `Result` a code of FTN3 or of the interface (FTN12 §1.2).
///
/// ```
/// use asyncsteps_core::{ErrorExt, Template};
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
    /// The error of `self`, which a callback can raise with `?`.
    fn code(self, code: impl Into<ErrorCode>) -> Result<T, StepError>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> ErrorExt<T> for Result<T, E> {
    fn code(self, code: impl Into<ErrorCode>) -> Result<T, StepError> {
        self.map_err(|error| StepError::error(Error::caused_by(code, error)))
    }
}

/// The return types of callbacks (FTN12 §2.2.2): nothing, or a [`StepResult`].
#[diagnostic::on_unimplemented(
    message = "a callback returns nothing or a `StepResult`, not `{Self}`",
    label = "this callback returns something else",
    note = "give a result with `asi.success(value)`, which returns a `StepResult`",
    note = "raise an error with `?`, or with `asi.error(code, info)`; its type is `asyncsteps::StepError`",
    note = "add an async closure with `run` instead of `add`",
    note = "behind a step that was just added, such as `asi.add(..).named(..)`, write a `;`"
)]
pub trait StepReturn: sealed::Sealed {
    /// The value as a [`StepResult`].
    ///
    /// # Errors
    /// The callback raised an error or ended a loop.
    fn into_result(self) -> StepResult;
}

/// The output of a future that a step awaits (FTN12 §1.13): a `Result`.
#[diagnostic::on_unimplemented(
    message = "a step awaits a future that gives a `Result`, not `{Self}`",
    label = "this future gives something else",
    note = "end it with `Ok::<_, asyncsteps::Error>(value)`",
    note = "or write an async closure, `run(async |()| Ok(value))`: its error type is known"
)]
pub trait AwaitedResult<T, E>: sealed::Sealed {
    /// The value as a `Result`.
    ///
    /// # Errors
    /// The future failed.
    fn into_result(self) -> Result<T, E>;
}

impl<T, E> AwaitedResult<T, E> for Result<T, E> {
    fn into_result(self) -> Self {
        self
    }
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

#[diagnostic::do_not_recommend]
impl StepReturn for sealed::Never {
    fn into_result(self) -> StepResult {
        self
    }
}

mod sealed {
    /// `!`, which has no name on a stable compiler. It is the return type of a callback that always
    /// panics, for instance because it is not finished.
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
    impl<T, E> Sealed for Result<T, E> {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_mark_keeps_the_code_of_a_flow_error() {
        let raised = StepError::from(Error::with_info("OutOfStock", "no apples"));
        let Some(StepFault::Error(error)) = raised.0 else { unreachable!("an error was raised") };
        assert_eq!((error.code(), error.info()), ("OutOfStock", Some("no apples")));
    }

    #[test]
    fn a_question_mark_wraps_any_other_error_as_internal() {
        let cause = "x".parse::<u8>().expect_err("not a number");
        let Some(StepFault::Error(error)) = StepError::from(cause.clone()).0 else {
            unreachable!()
        };
        assert_eq!(error.code(), codes::INTERNAL_ERROR);
        assert_eq!(error.source().map(ToString::to_string), Some(cause.to_string()));
        assert_eq!(error.to_string(), "InternalError");
    }
}
