//! Why a call failed, and its outcome as far as it is known.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use asyncsteps_core::{Error, codes};
#[cfg(feature = "nats")]
use asyncsteps_executor::message::ErrorResult;
use asyncsteps_executor::{FailedCall, NotHosted};

use crate::node::NodeId;

/// Why a call failed.
///
/// | what happened | code | outcome |
/// |---|---|---|
/// | nothing serves the function, or the fabric is not connected | ConnectError | not carried out |
/// | no answer in time, or the connection was lost after sending | CommError | unknown |
/// | the answer of a service elsewhere cannot be read, or has a wrong signature | InvokerError, SecurityError | unknown |
/// | the message is too large | InvalidRequest | not carried out |
/// | the caller has too many calls in flight | DefenseRejected | not carried out |
/// | wrong parameters on the side of the caller | InvokerError | not carried out |
/// | the node refused the call, or its function failed | the code that it answered | answered |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    code: Cow<'static, str>,
    info: Option<String>,
    outcome: Outcome,
    is_not_hosted: bool,
    /// The interface is not known here.
    is_not_known: bool,
}

/// The outcome of a call that failed, as far as it is known.
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
    /// No node serves the function.
    #[must_use]
    pub fn not_served() -> Self {
        Self { is_not_hosted: true, ..Self::connect("no node serves the function") }
    }

    /// The same for an interface that is not known here, and not only away.
    pub(crate) fn not_known(self) -> Self {
        Self { is_not_known: true, ..self }
    }

    /// The same for a call of one node, if the call was one: others may serve the function.
    pub(crate) fn of_node(self, node: Option<&NodeId>) -> Self {
        match node {
            Some(node) if self.is_not_hosted => {
                Self::connect(format!("the node {node} does not serve the function"))
            }
            _ => self,
        }
    }

    /// The same for an order to a node: that nothing takes it says that there is no such node.
    #[cfg(feature = "nats")]
    pub(crate) fn of_missing_node(self, node: &NodeId) -> Self {
        match self.is_not_hosted {
            true => Self::connect(format!("there is no node {node}")),
            false => self,
        }
    }

    /// No node can be reached, or not the one that is asked for.
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
        let (code, info) = (code.into(), Some(info.into()));
        Self { code, info, outcome: Outcome::Unknown, is_not_hosted: false, is_not_known: false }
    }

    /// The call was not made.
    #[must_use]
    pub fn not_made(code: &'static str, info: impl Into<String>) -> Self {
        let (code, info) = (code.into(), Some(info.into()));
        Self {
            code,
            info,
            outcome: Outcome::NotCarriedOut,
            is_not_hosted: false,
            is_not_known: false,
        }
    }

    /// The node answered with an error.
    #[must_use]
    pub fn answered(code: impl Into<Cow<'static, str>>, info: impl Into<Option<String>>) -> Self {
        let (code, info) = (code.into(), info.into());
        Self { code, info, outcome: Outcome::Answered, is_not_hosted: false, is_not_known: false }
    }

    /// The error that a node answered with: ConnectError and CommError say what became of the call, such as one whose time
    /// was over.
    #[cfg(feature = "nats")]
    pub(crate) fn of_answer(error: ErrorResult) -> Self {
        let ErrorResult { code, description } = error;
        match &*code {
            codes::CONNECT_ERROR => Self::connect(description.unwrap_or_default()),
            codes::COMM_ERROR => Self::lost(description.unwrap_or_default()),
            _ => Self::answered(code, description),
        }
    }

    /// The error of a call within the process that failed with this error.
    pub(crate) fn of_flow(error: &Error) -> Self {
        let info = error.info().map(ToOwned::to_owned);
        match error.find::<FailedCall>() {
            Some(_) => Self::answered(error.code().to_owned(), info),
            // of a call that this one was handed on to
            None if error.code() == codes::COMM_ERROR => Self::lost(info.unwrap_or_default()),
            None => Self::connect(info.unwrap_or_default()),
        }
    }

    /// The answer to a call that was cancelled, because the node ends.
    pub(crate) fn cancelled() -> Self {
        Self::answered(codes::INTERNAL_ERROR, "Request was cancelled".to_owned())
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

    /// The error information in addition to the code.
    #[must_use]
    pub fn info(&self) -> Option<&str> {
        self.info.as_deref()
    }

    /// The outcome of the call, as far as it is known.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The error of a flow whose call of `function` failed: with the same code, a [`FailedCall`] as its
    /// cause if the node answered, [`NotHosted`] if the interface is not known here, and an
    /// [unknown outcome](Error::outcome_unknown) if it is.
    #[must_use]
    pub fn into_flow_error(self, function: impl Into<Arc<str>>) -> Error {
        let error = Error::with_info(self.code.into_owned(), self.info);
        match self.outcome {
            Outcome::NotCarriedOut if self.is_not_known => error.with_cause(NotHosted::new()),
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
