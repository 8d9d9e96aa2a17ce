//! The local part of a handle, which belongs to the thread of the event loop.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{Flow, Parallel};

use crate::context::{Context, ToldError};
use crate::guard::Misuse;
use crate::handle::Handle;
use crate::host::Stop;
use crate::memory::MemoryBlocks;

#[derive(Default)]
pub(crate) struct LocalPart {
    pub(crate) target: Target,
    pub(crate) context: Option<Rc<Context>>,
    /// The memory that lives as long as the step.
    pub(crate) memory: MemoryBlocks,
    /// The last error that the running callback passed to `handle_error`.
    pub(crate) error: Option<ToldError>,
    /// The callbacks that were called, if they have data to release.
    pub(crate) called: Option<Arc<dyn Any>>,
    /// The handle lives as long as its step, which closes it.
    pub(crate) attached: bool,
    /// Its step has sub-steps, so that only they complete it.
    pub(crate) has_steps: bool,
    /// The remote part of the handle is in use.
    pub(crate) has_remote: bool,
    pub(crate) is_root: bool,
    /// The root of a parallel step. It changes its owner together with the root.
    pub(crate) root: Option<Handle>,
    /// Ends a root that is running.
    pub(crate) stop: Option<Stop>,
}

/// Where steps are added outside of callbacks.
#[derive(Default)]
pub(crate) enum Target {
    #[default]
    None,
    /// A root that is being configured.
    Root(Box<Flow>),
    /// A root that has ended and is not configured again yet.
    Ended,
    /// The branches of a parallel step; `None` once it started.
    Branches(Branches),
}

pub(crate) type Branches = Rc<RefCell<Option<Vec<Branch>>>>;

/// Adds one branch.
pub(crate) type Branch = Box<dyn FnOnce(&mut Parallel)>;

impl LocalPart {
    /// The context of the flow.
    pub(crate) fn context(&self) -> Result<&Rc<Context>, Misuse> {
        self.context.as_ref().ok_or(Misuse::Stale)
    }

    /// Releases the parts, memory first.
    pub(crate) fn release(&mut self) {
        drop(std::mem::take(&mut self.memory));
        drop(std::mem::take(&mut self.target));
        self.called = None;
    }
}
