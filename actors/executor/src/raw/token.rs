//! What names and values of HTTP may consist of.

use asyncsteps::{Error, codes};

/// Whether a text is a token (RFC 9110 §5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_token)
}

/// The error of a handler that sets what cannot be sent.
pub(super) fn wrong(info: String) -> Error {
    Error::with_info(codes::INTERNAL_ERROR, info)
}
