//! The remote part of a handle, which any thread may use.

use std::sync::Arc;

use asyncsteps_core::{Canceller, Completion, Foreign, SharedState, Stale, codes};

use crate::end::RootEnd;
use crate::host::EventLoop;
use crate::value::{UnknownFlags, Values};

#[derive(Default)]
pub(crate) struct RemotePart {
    pub(crate) external: External,
    pub(crate) host: Option<Arc<dyn EventLoop>>,
    /// The state variables of the flow that all threads see.
    pub(crate) shared: Option<SharedState>,
    /// Of roots only, in a box because they are few.
    pub(crate) root: Option<Box<Root>>,
}

pub(crate) struct Root {
    pub(crate) canceller: Canceller,
    pub(crate) phase: RootPhase,
    /// Counts executions.
    pub(crate) run: u32,
    /// The end of the current execution.
    pub(crate) end: Option<Arc<RootEnd>>,
}

/// The phase of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootPhase {
    Configuring,
    Executing,
    /// The handler for the error that ended it is called.
    Ending,
    Over,
}

impl Root {
    pub(crate) fn new(canceller: Canceller) -> Self {
        Self { canceller, phase: RootPhase::Configuring, run: 0, end: None }
    }

    /// Whether it can be configured and executed. While it ends, only its handler can do that, which
    /// runs on its own thread.
    pub(crate) fn is_idle(&self, is_own: bool) -> bool {
        match self.phase {
            RootPhase::Configuring | RootPhase::Over => true,
            RootPhase::Ending => is_own,
            RootPhase::Executing => false,
        }
    }

    /// Whether `run` is the current execution.
    pub(crate) fn is_executing(&self, run: u32) -> bool {
        self.run == run && matches!(self.phase, RootPhase::Executing | RootPhase::Ending)
    }

    /// Begins an execution and returns its number and its end; `None` during another one.
    pub(crate) fn start(&mut self, is_own: bool) -> Option<(u32, Arc<RootEnd>)> {
        if !self.is_idle(is_own) {
            return None;
        }
        self.phase = RootPhase::Executing;
        self.run = self.run.wrapping_add(1);
        let end = self.end.insert(Arc::default());
        Some((self.run, Arc::clone(end)))
    }

    pub(crate) fn end(&mut self) {
        self.phase = RootPhase::Over;
        self.end = None;
    }
}

/// Whether foreign code may complete the step from outside. Boxes keep it small, because there are many
/// slots.
#[derive(Default)]
pub(crate) enum External {
    /// It does not wait.
    #[default]
    None,
    /// An answer that another thread sent during the callback, which may still say that its step
    /// waits. The number is the generation of the handle.
    Early(u32, Box<ExternalAnswer>),
    Waiting(Box<Completion>),
    Completed,
}

/// The answer that completes a step from outside.
pub(crate) enum ExternalAnswer {
    Success(Result<Values, UnknownFlags>),
    Error(String, Option<String>),
}

impl ExternalAnswer {
    pub(crate) fn send(self, to: &Completion) -> Result<(), Stale> {
        match self {
            Self::Success(Ok(values)) => to.success(Foreign(values)),
            Self::Success(Err(unknown)) => to.error(codes::INTERNAL_ERROR, unknown.to_string()),
            Self::Error(code, info) => to.error(code, info),
        }
    }
}
