//! The cause of an error that came out of a call.

use std::sync::Arc;

/// The cause of an error that a call was answered with, within the process or by another node.
///
/// Raised by a function that is not prepared for it, an error that blames the call, such as
/// InvalidRequest, is InternalError for its caller: the call of the caller was right.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the call of {function} failed")]
pub struct FailedCall {
    function: Arc<str>,
}

impl FailedCall {
    /// The call of this function, `iface:version:function`, failed; for an [`Invoker`](super::Invoker).
    #[must_use]
    pub fn new(function: impl Into<Arc<str>>) -> Self {
        Self { function: function.into() }
    }

    /// The function, with interface and version.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.function
    }
}
