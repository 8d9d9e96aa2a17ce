//! The part of a handle that any thread may use.

use std::sync::Arc;

use asyncsteps::{Canceller, Completion};

use crate::host::Host;

#[derive(Default)]
pub(crate) struct Remote {
    /// Completes the step, if it waits.
    pub(crate) completion: Option<Arc<Completion>>,
    pub(crate) host: Option<Arc<dyn Host>>,
    /// Of roots only.
    pub(crate) root: Option<Root>,
}

pub(crate) struct Root {
    pub(crate) canceller: Canceller,
    pub(crate) phase: Phase,
}

/// How far a root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Configuring,
    Executing,
    Over,
}
