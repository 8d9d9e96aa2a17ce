//! Calls that are refused.

use std::borrow::Cow;

/// A call refused before its function runs: a standard error code and the text for `edesc`.
///
/// Checks of messages, of parameters and of callers all refuse in this way. The text is written for
/// the caller: it has nothing that only the service may know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    code: &'static str,
    text: Cow<'static, str>,
}

impl Refusal {
    /// A refusal with an error code of FTN3 §1.9.1.
    #[must_use]
    pub fn new(code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into() }
    }

    /// The error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }
}
