//! Why a call failed, and what is known of its outcome.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use asyncsteps::{Error, codes};
use asyncsteps_executor::FailedCall;

/// Why a call failed.
///
/// | what happened | code | outcome |
/// |---|---|---|
/// | nothing serves the function, or the fabric is not connected | ConnectError | not carried out |
/// | no answer in time, or the connection was lost after sending | CommError | unknown |
/// | the answer of a service elsewhere cannot be read, or has a wrong signature | InvokerError, SecurityError | unknown |
/// | the message is too large | InvalidRequest | not carried out |
/// | the caller has too many calls under way | DefenseRejected | not carried out |
/// | wrong parameters on the side of the caller | InvokerError | not carried out |
/// | the node refused the call, or its function failed | the code that it answered | answered |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    code: Cow<'static, str>,
    info: Option<String>,
    outcome: Outcome,
}

/// What is known of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers have to know what to do in each case")]
pub enum Outcome {
    /// The call was not carried out: another attempt is safe.
    NotCarriedOut,
    /// The node answered with this error.
    Answered,
    /// The call may have been carried out, or still is.
    Unknown,
}

impl CallError {
    /// Nothing serves the function, or the fabric is not connected.
    #[must_use]
    pub fn connect(info: impl Into<String>) -> Self {
        Self::not_made(codes::CONNECT_ERROR, info)
    }

    /// The answer is missing.
    #[must_use]
    pub fn lost(info: impl Into<String>) -> Self {
        Self::unknown(codes::COMM_ERROR, info)
    }

    /// The answer does not say what became of the call.
    #[must_use]
    pub(crate) fn unknown(code: &'static str, info: impl Into<String>) -> Self {
        Self { code: code.into(), info: Some(info.into()), outcome: Outcome::Unknown }
    }

    /// The call was not made.
    #[must_use]
    pub fn not_made(code: &'static str, info: impl Into<String>) -> Self {
        Self { code: code.into(), info: Some(info.into()), outcome: Outcome::NotCarriedOut }
    }

    /// The node answered with an error.
    #[must_use]
    pub fn answered(code: impl Into<Cow<'static, str>>, info: impl Into<Option<String>>) -> Self {
        Self { code: code.into(), info: info.into(), outcome: Outcome::Answered }
    }

    /// The error of a call whose last attempt failed with this error. An attempt that was not carried out
    /// says nothing about one before that may have been.
    pub(crate) fn after(self, before: Option<Self>) -> Self {
        match before {
            Some(before)
                if before.outcome == Outcome::Unknown && self.outcome == Outcome::NotCarriedOut =>
            {
                before
            }
            _ => self,
        }
    }

    /// The code (FTN3 §1.9.1), or one that the interface declares.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// What there is to say beside the code.
    #[must_use]
    pub fn info(&self) -> Option<&str> {
        self.info.as_deref()
    }

    /// What is known of the call.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The error of a flow whose call of `function` failed: with the same code, a [`FailedCall`] as its
    /// cause if the node answered, and an [unknown outcome](Error::outcome_unknown) if it is.
    #[must_use]
    pub fn into_flow_error(self, function: impl Into<Arc<str>>) -> Error {
        let error = Error::with_info(self.code.into_owned(), self.info);
        match self.outcome {
            Outcome::NotCarriedOut => error,
            Outcome::Answered => error.with_cause(FailedCall::new(function)),
            Outcome::Unknown => error.outcome_unknown(),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.info {
            Some(info) => write!(f, "{}: {info}", self.code),
            None => f.write_str(&self.code),
        }
    }
}

impl std::error::Error for CallError {}
