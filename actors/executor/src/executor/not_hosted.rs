//! The cause of an error that says that nothing hosts a function.

/// The cause of a ConnectError of an [`Invoker`](super::Invoker): it knows no such function. That the nodes of one that it
/// knows are away is a ConnectError without this.
///
/// Where a request was [forwarded](super::Builder::forward), its caller gets UnknownInterface or
/// NotSupportedVersion for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing hosts the function")]
#[non_exhaustive]
pub struct NotHosted;

impl NotHosted {
    /// Nothing hosts the function; for an [`Invoker`](super::Invoker).
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Default for NotHosted {
    fn default() -> Self {
        Self::new()
    }
}
