//! The keys that callers send for their requests.

use asyncsteps_core::{Error, codes};
use asyncsteps_executor::channel::ChannelKind;
use asyncsteps_executor::{IDEMPOTENCY_KEY, RequestInfo};

/// The most characters of a key.
const LONGEST: usize = 128;

/// A key that a caller sends: 1 to 128 printable characters of ASCII, not only spaces.
pub(crate) fn checked(key: &str) -> Result<&str, Error> {
    let is_printable = key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    match is_printable && key.len() <= LONGEST && !key.trim().is_empty() {
        true => Ok(key),
        false => Err(wrong("The key")),
    }
}

/// The key in the headers of a request. The headers of a WebSocket belong to the connection, and not to each request
/// that comes over it.
pub(crate) fn in_headers(info: &RequestInfo) -> Result<Option<&str>, Error> {
    if info.channel().kind() == ChannelKind::WebSocket || !info.has_header(IDEMPOTENCY_KEY) {
        return Ok(None);
    }
    let key = info.header(IDEMPOTENCY_KEY).and_then(|key| checked(key).ok());
    key.map(Some).ok_or_else(|| wrong("The header Idempotency-Key"))
}

fn wrong(what: &str) -> Error {
    let rule = format!("1 to {LONGEST} printable ASCII characters, not only spaces");
    Error::with_info(codes::INVALID_REQUEST, format!("{what} has to be {rule}"))
}
