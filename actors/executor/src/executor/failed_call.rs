//! The cause of an error that came out of a call within the process.

use std::sync::Arc;

/// The cause of an error that a call within the process was answered with.
///
/// Raised by a function that is not prepared for it, an error that blames the call, such as
/// InvalidRequest, is InternalError for its caller: the call of the caller was right.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the call of {function} failed")]
pub struct FailedCall {
    pub(super) function: Arc<str>,
}

impl FailedCall {
    /// The function, with interface and version.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.function
    }
}
