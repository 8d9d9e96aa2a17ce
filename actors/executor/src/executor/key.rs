//! The keys that callers send for their requests.

use asyncsteps_core::{Error, codes};
use schemars::JsonSchema;
use serde::Deserialize;

/// The header of HTTP with the key of a request, which makes it once however often it is sent. Its parameter `policy` is a
/// [`KeyPolicy`]: `Idempotency-Key: order-17; policy=rerun_failed`.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The most characters of a key.
const LONGEST: usize = 128;

/// What a request does whose key an earlier request of its caller has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "who takes keys has to do each of them")]
pub enum KeyPolicy {
    /// It is the earlier request, however that ended.
    #[default]
    Return,
    /// If the earlier one has failed or was cancelled, it is a new request, which has the key from then on.
    RerunFailed,
    /// It is refused.
    Reject,
}

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

/// The key in a header and its policy; the header is `None` where it is no text, or where there are several: which of them
/// counts the client cannot know.
pub(super) fn key_of_header(header: Option<&str>) -> Result<(&str, KeyPolicy), Error> {
    let header = header.unwrap_or_default();
    let split = header.rsplit_once(';');
    let split = split.and_then(|(key, it)| Some((key, it.trim_start().strip_prefix("policy=")?)));
    let (key, policy) = match split {
        None => (header, KeyPolicy::Return),
        Some((key, "return")) => (key.trim_end(), KeyPolicy::Return),
        Some((key, "rerun_failed")) => (key.trim_end(), KeyPolicy::RerunFailed),
        Some((key, "reject")) => (key.trim_end(), KeyPolicy::Reject),
        Some(_) => {
            let info = "The policy of a key is return, rerun_failed or reject";
            return Err(Error::with_info(codes::INVALID_REQUEST, info));
        }
    };
    is_key(key).then_some((key, policy)).ok_or_else(|| wrong("The one header Idempotency-Key"))
}

fn is_key(key: &str) -> bool {
    let is_printable = key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    is_printable && (1..=LONGEST).contains(&key.len()) && key.trim() == key
}

fn wrong(what: &str) -> Error {
    let rule = format!("1 to {LONGEST} printable ASCII characters, without spaces around them");
    Error::with_info(codes::INVALID_REQUEST, format!("{what} has to be {rule}"))
}
