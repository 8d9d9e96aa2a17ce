//! Why a request is not carried out: the one form that every check gives.

use std::borrow::Cow;
use std::fmt;

use asyncsteps::{Error, codes};
use asyncsteps_futoin::Refusal;
use asyncsteps_futoin::message::Response;

/// A request that does not reach its function: the code and text of its answer.
///
/// Every check ends in this type: of the message, the interface, the caller and the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    code: &'static str,
    text: Option<Cow<'static, str>>,
    reason: Reason,
}

/// What a transport may have to know of a refusal beside its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Other,
    RequestTooLarge,
}

impl Refused {
    pub(crate) fn new(code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: Some(text.into()), reason: Reason::Other }
    }

    pub(super) fn without_text(code: &'static str) -> Self {
        Self { code, text: None, reason: Reason::Other }
    }

    /// The message is larger than its function takes (FTN3 §1.10).
    pub(super) fn request_too_large() -> Self {
        let text = "Request size has exceeded the limit";
        Self { reason: Reason::RequestTooLarge, ..Self::new(codes::INVALID_REQUEST, text) }
    }

    /// The executor takes no more requests, or cancels those that wait.
    pub(super) fn closing() -> Self {
        Self::new(codes::DEFENSE_REJECTED, "Executor is closing")
    }

    /// A limit of the budget or of a client was reached; `error` says which.
    pub(crate) fn over_limit(error: &Error) -> Self {
        Self::new(codes::DEFENSE_REJECTED, error.info().unwrap_or_default().to_owned())
    }

    /// The error code of the answer (FTN3 §1.9).
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The text of the answer, if it has one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Whether the message was larger than its function takes (FTN3 §1.10).
    #[must_use]
    pub fn is_request_too_large(&self) -> bool {
        self.reason == Reason::RequestTooLarge
    }

    pub(super) fn to_response(&self) -> Response {
        Response::error(self.code, self.text())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code)?;
        self.text().map_or(Ok(()), |text| write!(f, ": {text}"))
    }
}

impl std::error::Error for Refused {}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}
