//! Errors as text for the log.

use std::error::Error as StdError;

/// The texts of an error and of its causes.
pub(super) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
