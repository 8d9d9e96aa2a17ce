//! Why a request is not carried out: the one form that every check returns.

use std::borrow::Cow;
use std::fmt;

use asyncsteps_actors::budget::BudgetRefusal;
use asyncsteps_core::{Error, codes};
use asyncsteps_futoin::Refusal;
use asyncsteps_futoin::message::Response;

/// A request that does not reach its function: the code and text of its answer.
///
/// Every check ends in this type: of the message, the interface, the caller and the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    code: &'static str,
    text: Option<Cow<'static, str>>,
    /// Where the value of the caller begins that the text quotes, if it quotes one.
    quote: Option<usize>,
    reason: RefusalReason,
}

/// Why a request was refused, for operators; codes are for callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The [`Budget`](asyncsteps_actors::budget::Budget) had no permit, no place in its queue, or no
    /// memory for it, or none in time.
    Budget,
    /// Its client exceeded its [limits](super::ClientLimits).
    ClientLimit,
    /// The executor takes no more requests.
    Closing,
    /// It was larger than its function takes (FTN3 §1.10).
    TooLarge,
    /// The message was no request.
    Malformed,
    /// There is no such interface, version or function here, or it is not implemented.
    Unknown,
    /// The caller is not known, not well enough, or may not call this.
    Security,
    /// It did not fit its definition.
    Invalid,
    /// Something else.
    Other,
}

impl RefusalReason {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Budget,
        Self::ClientLimit,
        Self::Closing,
        Self::TooLarge,
        Self::Malformed,
        Self::Unknown,
        Self::Security,
        Self::Invalid,
        Self::Other,
    ];

    /// One word, for labels: `budget`, `client_limit`, ...
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::ClientLimit => "client_limit",
            Self::Closing => "closing",
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Security => "security",
            Self::Invalid => "invalid",
            Self::Other => "other",
        }
    }

    fn of(code: &str) -> Self {
        match code {
            codes::UNKNOWN_INTERFACE | codes::NOT_SUPPORTED_VERSION | codes::NOT_IMPLEMENTED => {
                Self::Unknown
            }
            codes::SECURITY_ERROR | codes::UNAUTHORIZED | codes::PLEASE_REAUTH => Self::Security,
            codes::INVALID_REQUEST => Self::Invalid,
            _ => Self::Other,
        }
    }
}

impl Refused {
    pub(crate) fn new(code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: Some(text.into()), quote: None, reason: RefusalReason::of(code) }
    }

    pub(super) fn without_text(code: &'static str) -> Self {
        Self { code, text: None, quote: None, reason: RefusalReason::of(code) }
    }

    /// The message is larger than its function takes (FTN3 §1.10).
    pub(super) fn request_too_large() -> Self {
        let text = "Request size has exceeded the limit";
        Self { reason: RefusalReason::TooLarge, ..Self::new(codes::INVALID_REQUEST, text) }
    }

    /// The interface has no such function.
    pub(super) fn unknown_function(text: String) -> Self {
        Self { reason: RefusalReason::Unknown, ..Self::new(codes::INVALID_REQUEST, text) }
    }

    /// The executor takes no more requests, or cancels the waiting ones.
    pub(super) fn closing() -> Self {
        let text = "Executor is closing";
        Self { reason: RefusalReason::Closing, ..Self::new(codes::DEFENSE_REJECTED, text) }
    }

    /// The budget is used up; `refusal` says of what.
    #[cold]
    #[must_use]
    pub fn over_budget(refusal: BudgetRefusal) -> Self {
        let text = refusal.to_string();
        Self { reason: RefusalReason::Budget, ..Self::new(codes::DEFENSE_REJECTED, text) }
    }

    /// The message was no request.
    pub(super) fn malformed(refusal: &Refusal) -> Self {
        let text = refusal.to_string();
        Self { reason: RefusalReason::Malformed, ..Self::new(refusal.code(), text) }
    }

    /// There was no permit of the budget in time.
    pub(super) fn too_late() -> Self {
        let text = "Too many requests: no place in time";
        Self { reason: RefusalReason::Budget, ..Self::new(codes::DEFENSE_REJECTED, text) }
    }

    /// A limit of the client was reached; `error` says which.
    pub(super) fn over_client_limit(error: &Error) -> Self {
        let text = error.info().unwrap_or_default().to_owned();
        Self { reason: RefusalReason::ClientLimit, ..Self::new(codes::DEFENSE_REJECTED, text) }
    }

    /// Why, for operators.
    #[must_use]
    pub fn reason(&self) -> RefusalReason {
        self.reason
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

    /// The same without values of the caller, for the log.
    pub(super) fn logged(&self) -> Option<&str> {
        self.text().and_then(|text| text.get(..self.quote.unwrap_or(text.len())))
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
        let quote = Some(refusal.unquoted().len());
        Self { quote, ..Self::new(refusal.code(), refusal.to_string()) }
    }
}
