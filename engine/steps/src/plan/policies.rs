//! The options of a step in addition to its handlers (FTN12 §2.2.1).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::body::Nested;
use crate::args::{Args, ArgsMismatch, Arguments};
use crate::replay::ReplayHooks;
use crate::retry::Retry;
use crate::stack::UndoPlan;
use crate::sync::ISync;

/// The policies of a step of a flow.
#[derive(Clone, Default)]
pub(crate) struct Policies {
    pub(crate) lock: Option<Arc<dyn ISync>>,
    pub(crate) tries: Option<RetryPolicy>,
    pub(crate) undo: Option<Arc<dyn UndoPlan>>,
    pub(crate) one: AttemptPolicies,
}

/// The policies of each attempt of a step.
#[derive(Clone, Default)]
pub(crate) struct AttemptPolicies {
    pub(crate) limiter: Option<Arc<dyn ISync>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) is_shielded: bool,
    /// The flow ends when the time limit has passed.
    pub(crate) ends_flow: bool,
    /// The step has an undo.
    pub(crate) undoes: bool,
    pub(crate) memory: Option<Rc<dyn ReplayHooks>>,
    /// The step returns what it takes, if it ended normally in an earlier run.
    pub(crate) passes: bool,
}

impl Policies {
    /// Adds a lock, inside the locks that the step already has.
    pub(crate) fn add_lock(&mut self, object: impl ISync + 'static) {
        let outer = self.lock.take();
        self.lock = Some(nest(outer, Arc::new(object), false));
    }

    /// Adds a limiter, inside the limiters that the step already has.
    pub(crate) fn add_limiter(&mut self, object: impl ISync + 'static) {
        let outer = self.one.limiter.take();
        self.one.limiter = Some(nest(outer, Arc::new(object), true));
    }
}

#[expect(
    clippy::arc_with_non_send_sync,
    reason = "the objects of a template can be shared by threads"
)]
fn nest(outer: Option<Arc<dyn ISync>>, inner: Arc<dyn ISync>, is_place: bool) -> Arc<dyn ISync> {
    match outer {
        Some(outer) => Arc::new(Nested { outer, inner, is_place }),
        None => inner,
    }
}

/// The policies of a step of a template, which threads share.
#[derive(Default)]
pub(crate) struct SharedPolicies {
    pub(crate) lock: Option<Arc<dyn ISync + Send + Sync>>,
    pub(crate) tries: Option<RetryPolicy>,
    pub(crate) limiter: Option<Arc<dyn ISync + Send + Sync>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) is_shielded: bool,
    pub(crate) undo: Option<Arc<dyn UndoPlan + Send + Sync>>,
}

/// A retry policy, and how the arguments are kept for the next attempt.
#[derive(Clone)]
pub(crate) struct RetryPolicy {
    pub(crate) retry: Arc<Retry>,
    pub(crate) copy: fn(Args) -> Result<(Args, Args), ArgsMismatch>,
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

impl RetryPolicy {
    pub(crate) fn new<A: Replayable>(retry: Retry) -> Self {
        Self { retry: Arc::new(retry), copy: Args::copied::<A> }
    }
}

impl SharedPolicies {
    /// Adds a lock, inside the locks that the step already has.
    pub(crate) fn add_lock(&mut self, object: impl ISync + Send + Sync + 'static) {
        let outer = self.lock.take();
        self.lock = Some(nest_shared(outer, Arc::new(object), false));
    }

    /// Adds a limiter, inside the limiters that the step already has.
    pub(crate) fn add_limiter(&mut self, object: impl ISync + Send + Sync + 'static) {
        let outer = self.limiter.take();
        self.limiter = Some(nest_shared(outer, Arc::new(object), true));
    }

    /// The policies for one flow of the template.
    #[inline(always)]
    pub(crate) fn for_flow(&self) -> Policies {
        Policies {
            lock: self.lock.clone().map(|object| -> Arc<dyn ISync> { object }),
            tries: self.tries.clone(),
            undo: self.undo.clone().map(|undo| -> Arc<dyn UndoPlan> { undo }),
            one: AttemptPolicies {
                limiter: self.limiter.clone().map(|object| -> Arc<dyn ISync> { object }),
                timeout: self.timeout,
                is_shielded: self.is_shielded,
                ends_flow: false,
                undoes: self.undo.is_some(),
                memory: None,
                passes: false,
            },
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
