//! What can be said about a step beside its handlers (FTN12 §2.2.1).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::body::Nested;
use crate::args::{Args, Arguments, Mismatch};
use crate::error::StepResult;
use crate::replay::ReplayHooks;
use crate::retry::Retry;
use crate::stack::{AsyncSteps, Undoable};
use crate::sync::{ISync, Section};

/// The policies of a step of a flow.
#[derive(Clone, Default)]
pub(crate) struct Policies {
    pub(crate) lock: Option<Rc<dyn ISync>>,
    pub(crate) tries: Option<Tries>,
    pub(crate) limiter: Option<Rc<dyn ISync>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) is_shielded: bool,
    /// The flow ends when the time limit has passed.
    pub(crate) ends_flow: bool,
    pub(crate) undo: Option<Rc<dyn UndoPlan>>,
    pub(crate) memory: Option<Rc<dyn ReplayHooks>>,
}

impl Policies {
    /// Adds a lock, within those that the step has.
    pub(crate) fn add_lock(&mut self, object: impl ISync + 'static) {
        let outer = self.lock.take();
        self.lock = Some(nest(outer, Rc::new(object), false));
    }

    /// Adds a limiter, within those that the step has.
    pub(crate) fn add_limiter(&mut self, object: impl ISync + 'static) {
        let outer = self.limiter.take();
        self.limiter = Some(nest(outer, Rc::new(object), true));
    }
}

fn nest(outer: Option<Rc<dyn ISync>>, inner: Rc<dyn ISync>, is_place: bool) -> Rc<dyn ISync> {
    match outer {
        Some(outer) => Rc::new(Nested { outer, inner, is_place }),
        None => inner,
    }
}

/// The policies of a step of a template, which threads share.
#[derive(Default)]
pub(crate) struct SharedPolicies {
    pub(crate) lock: Option<Arc<dyn ISync + Send + Sync>>,
    pub(crate) tries: Option<Tries>,
    pub(crate) limiter: Option<Arc<dyn ISync + Send + Sync>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) is_shielded: bool,
    pub(crate) undo: Option<Arc<dyn UndoPlan + Send + Sync>>,
}

/// A retry policy, and how the arguments are kept for the next attempt.
#[derive(Clone)]
pub(crate) struct Tries {
    pub(crate) retry: Retry,
    pub(crate) copy: fn(Args) -> Result<(Args, Args), Mismatch>,
}

/// Makes the undo of a step when the step starts.
pub(crate) trait UndoPlan {
    fn entry(&self) -> Rc<dyn Undoable>;
}

/// The undo of a step of a template.
struct SharedUndo(Arc<dyn UndoPlan + Send + Sync>);

impl UndoPlan for SharedUndo {
    fn entry(&self) -> Rc<dyn Undoable> {
        self.0.entry()
    }
}

/// Arguments that can be passed again, to another attempt or to an undo: they can be cloned (FTN12 §2.2.2).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for another attempt or for an undo",
    label = "no argument that can be cloned",
    note = "derive `Clone` for a type of your own, or pass it as an `Rc`",
    note = "`asyncsteps::Untyped` stands for the result of a callback: write the step with `run` instead \
            of `add`"
)]
pub trait Replayable: Arguments + Clone {}

#[diagnostic::do_not_recommend]
impl<T: Arguments + Clone> Replayable for T {}

impl Tries {
    pub(crate) fn new<A: Replayable>(retry: Retry) -> Self {
        let copy = |args| {
            let args = A::from_args(args)?;
            Ok((args.clone().into_args(), args.into_args()))
        };
        Self { retry, copy }
    }
}

impl SharedPolicies {
    /// Adds a lock, within those that the step has.
    pub(crate) fn add_lock(&mut self, object: impl ISync + Send + Sync + 'static) {
        let outer = self.lock.take();
        self.lock = Some(nest_shared(outer, Arc::new(object), false));
    }

    /// Adds a limiter, within those that the step has.
    pub(crate) fn add_limiter(&mut self, object: impl ISync + Send + Sync + 'static) {
        let outer = self.limiter.take();
        self.limiter = Some(nest_shared(outer, Arc::new(object), true));
    }

    /// The policies for one flow of the template.
    pub(crate) fn for_flow(&self) -> Policies {
        let object = |shared: &Option<Arc<dyn ISync + Send + Sync>>| -> Option<Rc<dyn ISync>> {
            shared.as_ref().map(|object| Rc::new(Shared(Arc::clone(object))) as Rc<dyn ISync>)
        };
        Policies {
            lock: object(&self.lock),
            tries: self.tries.clone(),
            limiter: object(&self.limiter),
            timeout: self.timeout,
            is_shielded: self.is_shielded,
            ends_flow: false,
            undo: self
                .undo
                .as_ref()
                .map(|undo| -> Rc<dyn UndoPlan> { Rc::new(SharedUndo(Arc::clone(undo))) }),
            memory: None,
        }
    }
}

type SharedObject = Arc<dyn ISync + Send + Sync>;

fn nest_shared(outer: Option<SharedObject>, inner: SharedObject, is_place: bool) -> SharedObject {
    match outer {
        Some(outer) => Arc::new(Nested { outer, inner, is_place }),
        None => inner,
    }
}

/// An object of a template.
struct Shared(Arc<dyn ISync + Send + Sync>);

impl ISync for Shared {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        self.0.sync(asi, section)
    }
}
