//! What there is to see beside the executor.

use std::sync::Arc;

use asyncsteps_durable::Durable;

use crate::nodes::Nodes;

/// What there is to see beside the executor, where an application has it.
#[derive(Clone, Default)]
pub(crate) struct Others {
    pub(crate) nodes: Option<Arc<Nodes>>,
    pub(crate) durable: Option<Durable>,
}
