//! The keys that callers send for their requests.

use asyncsteps_core::{Error, codes};

use super::request::RequestInfo;
use crate::channel::ChannelKind;

/// The header of HTTP with the key of a request, which makes it once however often it is sent.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The most characters of a key.
const LONGEST: usize = 128;

/// A key that a caller sends: 1 to 128 printable characters of ASCII, not only spaces.
///
/// # Errors
/// InvalidRequest with another one.
pub fn checked_key(key: &str) -> Result<&str, Error> {
    match is_key(key) {
        true => Ok(key),
        false => Err(wrong("The key")),
    }
}

impl RequestInfo {
    /// The [key](IDEMPOTENCY_KEY) of its caller, if it has one. The headers of a WebSocket belong to the connection, and
    /// not to each request that comes over it.
    ///
    /// # Errors
    /// InvalidRequest with a header that is [no key](checked_key).
    pub fn idempotency_key(&self) -> Result<Option<&str>, Error> {
        if self.channel().kind() == ChannelKind::WebSocket || !self.has_header(IDEMPOTENCY_KEY) {
            return Ok(None);
        }
        let key = self.header(IDEMPOTENCY_KEY).filter(|key| is_key(key));
        key.map(Some).ok_or_else(|| wrong("The header Idempotency-Key"))
    }
}

fn is_key(key: &str) -> bool {
    let is_printable = key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    is_printable && key.len() <= LONGEST && !key.trim().is_empty()
}

fn wrong(what: &str) -> Error {
    let rule = format!("1 to {LONGEST} printable ASCII characters, not only spaces");
    Error::with_info(codes::INVALID_REQUEST, format!("{what} has to be {rule}"))
}
