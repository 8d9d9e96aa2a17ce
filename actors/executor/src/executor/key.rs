//! The keys that callers send for their requests.

use asyncsteps_core::{Error, codes};

/// The header of HTTP with the key of a request, which makes it once however often it is sent.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The most characters of a key.
const LONGEST: usize = 128;

/// A key that a caller sends: 1 to 128 printable characters of ASCII, without spaces around them.
///
/// # Errors
/// InvalidRequest with another one.
pub fn checked_key(key: &str) -> Result<&str, Error> {
    match is_key(key) {
        true => Ok(key),
        false => Err(wrong("The key")),
    }
}

/// The key in a header, which is `None` where it is no text, or where there are several: which of them counts the client
/// cannot know.
pub(super) fn key_of_header(header: Option<&str>) -> Result<&str, Error> {
    header.filter(|key| is_key(key)).ok_or_else(|| wrong("The one header Idempotency-Key"))
}

fn is_key(key: &str) -> bool {
    let is_printable = key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    is_printable && (1..=LONGEST).contains(&key.len()) && key.trim() == key
}

fn wrong(what: &str) -> Error {
    let rule = format!("1 to {LONGEST} printable ASCII characters, without spaces around them");
    Error::with_info(codes::INVALID_REQUEST, format!("{what} has to be {rule}"))
}
