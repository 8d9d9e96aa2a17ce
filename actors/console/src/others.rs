//! What the console shows besides the executor.

use std::sync::Arc;

use asyncsteps_durable::Durable;

use crate::nodes::Nodes;

/// What the console shows besides the executor, where an application has it.
#[derive(Clone, Default)]
pub(crate) struct ConsoleSources {
    pub(crate) nodes: Option<Arc<Nodes>>,
    pub(crate) durable: Option<Durable>,
}
