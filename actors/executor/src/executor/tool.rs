//! A function as a tool of language models, for transports that serve tools.

use std::sync::Arc;

use asyncsteps_futoin::iface::{Definition, FunctionName};

/// A function that is listed as a [tool](super::Functions::tool) of language models.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolInfo {
    /// Its full name.
    pub function: FunctionName,
    /// What it does, as its service says it.
    pub what: Arc<str>,
    /// Its interface.
    pub definition: Arc<Definition>,
    /// Whether a host stores its requests, so that they may take longer than their callers wait.
    pub is_stored: bool,
}
