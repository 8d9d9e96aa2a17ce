//! The part of a handle that belongs to the thread of the event loop.
#![expect(unsafe_code, reason = "the interface of the running step is kept as a pointer")]

use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;

use asyncsteps::{AsyncSteps, Flow, Parallel};

use crate::context::{Context, Memory};
use crate::guard::Misuse;
use crate::handle::Handle;
use crate::host::Stop;

#[derive(Default)]
pub(crate) struct Local {
    pub(crate) target: Target,
    pub(crate) context: Option<Rc<Context>>,
    /// What lives as long as the step.
    pub(crate) memory: Memory,
    /// What `handle_error` of the running callback was told last: code and information.
    pub(crate) error: Option<(String, Option<String>)>,
    /// The handle lives on with its step, which will close it.
    pub(crate) attached: bool,
    /// The other part of the handle is in use.
    pub(crate) has_remote: bool,
    pub(crate) is_root: bool,
    /// Ends a root that is running.
    pub(crate) stop: Option<Stop>,
}

/// What steps are added to.
#[derive(Default)]
pub(crate) enum Target {
    #[default]
    None,
    /// The running callback.
    Steps(Steps),
    /// A root that was not executed yet.
    Root(Box<Flow>),
    /// The branches of a parallel step; `None` once it started.
    Branches(Branches),
}

pub(crate) type Branches = Rc<RefCell<Option<Vec<Branch>>>>;

/// Adds one branch.
pub(crate) type Branch = Box<dyn FnOnce(&mut Parallel)>;

/// The interface of the running callback, as long as it runs.
pub(crate) struct Steps(NonNull<AsyncSteps>);

impl Steps {
    pub(crate) fn get_mut(&mut self) -> &mut AsyncSteps {
        // SAFETY: `Scope` makes it from a unique reference which it keeps borrowed, and takes it
        // away before that borrow ends; only the thread of the callback gets here, and no
        // function of the table keeps the reference while it calls out
        unsafe { self.0.as_mut() }
    }
}

impl Target {
    /// The interface that steps are added to: of the running callback or of a root.
    pub(crate) fn steps(&mut self) -> Option<&mut AsyncSteps> {
        match self {
            Self::Steps(steps) => Some(steps.get_mut()),
            Self::Root(flow) => Some(flow.steps()),
            Self::None | Self::Branches(_) => None,
        }
    }
}

impl Local {
    /// What all handles of the flow share.
    pub(crate) fn context(&self) -> Result<&Rc<Context>, Misuse> {
        self.context.as_ref().ok_or(Misuse::Stale)
    }

    /// Releases what is left, memory first.
    pub(crate) fn release(&mut self) {
        drop(std::mem::take(&mut self.memory));
        drop(std::mem::take(&mut self.target));
    }
}

/// A callback in progress: its handle can be used with the interface of the callback.
pub(crate) struct Scope(Handle);

/// How a callback left its handle.
pub(crate) struct Left {
    pub(crate) attached: bool,
    pub(crate) error: Option<(String, Option<String>)>,
}

impl Left {
    /// Raises what `handle_error` was told.
    pub(crate) fn raise(self, asi: &mut AsyncSteps) {
        if let Some((code, info)) = self.error {
            // recorded in the flow
            let _ = asi.error(code, info);
        }
    }
}

impl Scope {
    /// The handle has to be this thread's, and `asi` must not be used before [`leave`](Self::leave).
    pub(crate) fn enter(handle: Handle, asi: &mut AsyncSteps) -> Self {
        if let Ok(mut local) = handle.local() {
            local.target = Target::Steps(Steps(NonNull::from(asi)));
        }
        Self(handle)
    }

    pub(crate) fn leave(self) -> Left {
        let left = self.end();
        std::mem::forget(self);
        left
    }

    fn end(&self) -> Left {
        let Ok(mut local) = self.0.local() else { return Left { attached: true, error: None } };
        local.target = Target::None;
        Left { attached: local.attached, error: local.error.take() }
    }
}

/// The callback panicked.
impl Drop for Scope {
    fn drop(&mut self) {
        if !self.end().attached {
            self.0.close();
        }
    }
}
