//! Calls that are refused.

use std::borrow::Cow;
use std::fmt::Display;

/// A call refused before its function runs: a standard error code and the text for `edesc`.
///
/// Checks of messages, of parameters and of callers all refuse in this way. The text is written for
/// the caller: it has nothing that only the service may know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    code: &'static str,
    text: Cow<'static, str>,
    /// Where the value of the caller begins that the text quotes, or its end.
    quote: usize,
}

impl Refusal {
    /// A refusal with an error code of FTN3 §1.9.1.
    #[must_use]
    pub fn new(code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self { code, quote: text.len(), text }
    }

    /// The same, whose text ends with a value.
    pub(crate) fn quoting(code: &'static str, text: String, value: impl Display) -> Self {
        Self { code, quote: text.len(), text: format!("{text} = {value}").into() }
    }

    /// The text without the value that it quotes: for logs, which outlive what is recorded about people.
    #[must_use]
    pub fn unquoted(&self) -> &str {
        self.text.get(..self.quote).unwrap_or_default()
    }

    /// The error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }
}
