//! The part of a handle that any thread may use.

use std::sync::Arc;

use asyncsteps::{Canceller, Completion, Foreign, SharedState, Stale, codes};

use crate::end::End;
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
    /// Counts executions.
    pub(crate) run: u32,
    /// The end of the one that goes on.
    pub(crate) end: Option<Arc<End>>,
}

/// How far a root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Configuring,
    Executing,
    /// The handler for the error that ended it is called.
    Ending,
    Over,
}

impl Root {
    pub(crate) fn new(canceller: Canceller) -> Self {
        Self { canceller, phase: Phase::Configuring, run: 0, end: None }
    }

    /// Whether it can be configured and executed: by its handler, which `is_own` thread calls, also
    /// in the end.
    pub(crate) fn is_idle(&self, is_own: bool) -> bool {
        match self.phase {
            Phase::Configuring | Phase::Over => true,
            Phase::Ending => is_own,
            Phase::Executing => false,
        }
    }

    /// Whether this execution goes on.
    pub(crate) fn is_executing(&self, run: u32) -> bool {
        self.run == run && matches!(self.phase, Phase::Executing | Phase::Ending)
    }

    /// Begins an execution, unless one goes on; gives which it is, and its end.
    pub(crate) fn start(&mut self, is_own: bool) -> Option<(u32, Arc<End>)> {
        if !self.is_idle(is_own) {
            return None;
        }
        self.phase = Phase::Executing;
        self.run = self.run.wrapping_add(1);
        let end = self.end.insert(Arc::default());
        Some((self.run, Arc::clone(end)))
    }

    pub(crate) fn end(&mut self) {
        self.phase = Phase::Over;
        self.end = None;
    }
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
