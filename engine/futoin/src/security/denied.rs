//! Refusals.

use std::borrow::Cow;

use super::SecurityLevel;

/// FTN3 §1.9.1: credentials are wrong, or the channel does not allow the call.
pub const SECURITY_ERROR: &str = "SecurityError";

/// FTN3 §1.9.1: the caller is known, but not well enough for this call.
pub const PLEASE_REAUTH: &str = "PleaseReauth";

/// A caller turned away: the error code and the text for `edesc`.
///
/// The text is the same whatever was wrong with credentials, so that it tells nobody which users
/// exist (FTN8 §2.1.7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Denied {
    code: &'static str,
    text: Cow<'static, str>,
}

impl Denied {
    /// A refusal with an error code of FTN3 §1.9.1.
    #[must_use]
    pub fn new(code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into() }
    }

    /// Credentials that are wrong, or that nobody here can check.
    #[must_use]
    pub fn credentials() -> Self {
        Self::new(SECURITY_ERROR, "Basic Auth Verification Failed")
    }

    /// `-internal` from outside of the process.
    #[must_use]
    pub fn not_internal() -> Self {
        Self::new(SECURITY_ERROR, "Not internal channel")
    }

    /// A caller below the `required` level of a function (FTN3 §1.12).
    #[must_use]
    pub fn level(required: SecurityLevel) -> Self {
        Self::new(PLEASE_REAUTH, required.name())
    }

    /// The error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }
}
