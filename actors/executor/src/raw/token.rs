//! The characters that names and values of HTTP may consist of.

use asyncsteps_core::{Error, codes};

/// Whether a text is a token (RFC 9110 §5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_token)
}

/// The error of a handler that sets what cannot be sent: its text goes to the log, and not to the caller.
pub(super) fn wrong(info: String) -> Error {
    Error::caused_by(codes::INTERNAL_ERROR, NotSendable(info))
}

/// A value that a handler has set and that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotSendable(String);
