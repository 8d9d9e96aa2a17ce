//! Calls that are refused.

use std::borrow::Cow;
use std::fmt;

/// A call refused before its function runs: a standard error code and the text for `edesc`.
///
/// Checks of messages, of parameters and of callers all refuse in this way. The text is written for
/// the caller: it has nothing that only the service may know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    code: &'static str,
    text: Cow<'static, str>,
    value: Option<Box<str>>,
}

impl Refusal {
    /// A refusal with an error code of FTN3 §1.9.1.
    #[must_use]
    pub fn new(code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into(), value: None }
    }

    /// The same with the value that is refused, which is for the log only.
    #[must_use]
    pub(crate) fn of_value(self, value: impl fmt::Display) -> Self {
        Self { value: Some(value.to_string().into()), ..self }
    }

    /// The error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The text for `edesc`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A value of the service that breaks its declaration, cut to a few bytes: for the log, and not for
    /// the caller.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }
}
