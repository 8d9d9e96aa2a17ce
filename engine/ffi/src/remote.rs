//! The part of a handle that any thread may use.

use std::sync::Arc;

use asyncsteps::{Canceller, Completion, Foreign, SharedState, Stale, codes};

use crate::host::Host;
use crate::value::{UnknownFlags, Values};

#[derive(Default)]
pub(crate) struct Remote {
    pub(crate) external: External,
    pub(crate) host: Option<Arc<dyn Host>>,
    /// The state variables of the flow that all threads see.
    pub(crate) shared: Option<SharedState>,
    /// Of roots only, in a box as they are few.
    pub(crate) root: Option<Box<Root>>,
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

/// Whether somebody outside may complete the step. Boxes keep it small, because slots are many.
#[derive(Default)]
pub(crate) enum External {
    /// It does not wait.
    #[default]
    None,
    /// Another thread was faster than the callback of this use of the handle, which may still say
    /// that its step waits.
    Early(u32, Box<Answer>),
    Waiting(Box<Completion>),
    Completed,
}

/// How a step is completed from outside.
pub(crate) enum Answer {
    Success(Result<Values, UnknownFlags>),
    Error(String, Option<String>),
}

impl Answer {
    pub(crate) fn send(self, to: &Completion) -> Result<(), Stale> {
        match self {
            Self::Success(Ok(values)) => to.success(Foreign(values)),
            Self::Success(Err(unknown)) => to.error(codes::INTERNAL_ERROR, unknown.to_string()),
            Self::Error(code, info) => to.error(code, info),
        }
    }
}
