//! The part of a handle that belongs to the thread of the event loop.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps::{Flow, Parallel};

use crate::context::{Context, Memory, Told};
use crate::guard::Misuse;
use crate::handle::Handle;
use crate::host::Stop;

#[derive(Default)]
pub(crate) struct Local {
    pub(crate) target: Target,
    pub(crate) context: Option<Rc<Context>>,
    /// What lives as long as the step.
    pub(crate) memory: Memory,
    /// What `handle_error` of the running callback was told last.
    pub(crate) error: Option<Told>,
    /// What was called, as long as it has data of its own to release.
    pub(crate) called: Option<Arc<dyn Any>>,
    /// The handle lives on with its step, which will close it.
    pub(crate) attached: bool,
    /// Its step has sub-steps: nobody else may complete it.
    pub(crate) has_steps: bool,
    /// The other part of the handle is in use.
    pub(crate) has_remote: bool,
    pub(crate) is_root: bool,
    /// The root that this is a parallel step of: it goes to another thread with it.
    pub(crate) of: Option<Handle>,
    /// Ends a root that is running.
    pub(crate) stop: Option<Stop>,
}

/// What steps are added to outside of callbacks.
#[derive(Default)]
pub(crate) enum Target {
    #[default]
    None,
    /// A root that is being configured.
    Root(Box<Flow>),
    /// A root that is over, and not configured again yet.
    Ended,
    /// The branches of a parallel step; `None` once it started.
    Branches(Branches),
}

pub(crate) type Branches = Rc<RefCell<Option<Vec<Branch>>>>;

/// Adds one branch.
pub(crate) type Branch = Box<dyn FnOnce(&mut Parallel)>;

impl Local {
    /// What all handles of the flow share.
    pub(crate) fn context(&self) -> Result<&Rc<Context>, Misuse> {
        self.context.as_ref().ok_or(Misuse::Stale)
    }

    /// Releases what is left, memory first.
    pub(crate) fn release(&mut self) {
        drop(std::mem::take(&mut self.memory));
        drop(std::mem::take(&mut self.target));
        self.called = None;
    }
}
