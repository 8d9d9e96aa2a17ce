//! The steps of a function.

use std::fmt;
use std::time::Duration;

use asyncsteps::sync::ISync;
use asyncsteps::{Added, Arguments, AsyncSteps, Error, Fallible, Flow, StepReturn};

use super::context::{Cx, Service};
use super::step::Step;

/// The steps of a function, which know the state `S` of the service and the parameters `P`.
///
/// Steps run in the order added, after the function returned. Each is an async closure, so that what
/// is written behind it can try it again; [`Step::then`] hands a result to the next step, as a type
/// that the compiler checks.
pub struct Steps<S: Service, P> {
    pub(super) flow: Flow,
    pub(super) cx: Cx<S, P>,
    this: Vec<Policy>,
    /// The normal end of the steps is final.
    pub(super) is_final: bool,
}

/// Something that is said about the function as a whole.
type Policy = Box<dyn FnOnce(&mut Added<'_>)>;

impl<S: Service, P: 'static> Steps<S, P> {
    pub(super) fn new(cx: Cx<S, P>) -> Self {
        Self { flow: Flow::new(), cx, this: Vec::new(), is_final: false }
    }

    /// The context that bodies get, to be used while steps are added. Bodies have their own.
    #[must_use]
    pub fn cx(&self) -> Cx<S, P> {
        self.cx.clone()
    }

    /// The function as a whole, to say something about it.
    pub fn this(&mut self) -> This<'_> {
        This(&mut self.this)
    }

    /// Adds a step that is an async closure (FTN12 §1.13). `body` takes the result of the step before
    /// it, `()` for none.
    ///
    /// In the body `?` takes any error. One that [`Service::Errors`] lists has its code when the step
    /// ends. `name` is the name of the step in stacks, errors and traces, and in its [key](Cx::key).
    #[track_caller]
    pub fn run<A, T, F>(&mut self, name: &'static str, body: F) -> Step<'_, S, P, A, T>
    where
        A: Arguments,
        T: 'static,
        F: AsyncFn(&Cx<S, P>, A) -> Fallible<T> + 'static,
    {
        Step::add(&mut self.flow, &self.cx, name, body)
    }

    /// Adds a step that completes after `pause`.
    #[track_caller]
    pub fn sleep(&mut self, pause: Duration) {
        self.flow.sleep(pause);
    }

    /// The flow that the steps are added to, for what this interface does not offer: loops, and steps
    /// as FTN12 has them. Their results are checked when they run.
    pub fn plain(&mut self) -> &mut Flow {
        &mut self.flow
    }

    /// Makes the steps sub-steps of the running one.
    pub(super) fn finish(self, asi: &mut AsyncSteps) {
        let Self { flow, cx, this, is_final } = self;
        let mut whole = match is_final {
            true => asi.scope(move |asi, ()| asi.append(flow)),
            false if this.is_empty() => return asi.append(flow),
            false => asi.add(move |asi, ()| asi.append(flow)),
        };
        whole.located_at(cx.source());
        for policy in this {
            policy(&mut whole);
        }
    }
}

/// The function as a whole. What is said about it nests as behind a step, see [`Added`].
pub struct This<'a>(&'a mut Vec<Policy>);

#[expect(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "what is given back only serves to say more about it"
)]
impl This<'_> {
    /// Runs the function while it holds `lock`, see [`Added::locked`].
    pub fn locked<O: ISync + Clone + 'static>(self, lock: &O) -> Self {
        let lock = lock.clone();
        self.say(move |whole| _ = whole.locked(&lock))
    }

    /// Runs the function while it holds a place in `limiter`, see [`Added::limited`].
    pub fn limited<O: ISync + Clone + 'static>(self, limiter: &O) -> Self {
        let limiter = limiter.clone();
        self.say(move |whole| _ = whole.limited(&limiter))
    }

    /// Limits the time of the function, see [`Added::timeout`].
    pub fn timeout(self, limit: Duration) -> Self {
        self.say(move |whole| _ = whole.timeout(limit))
    }

    /// Sets the error handler of the function, see [`Added::on_error`].
    pub fn on_error<R, F>(self, handler: F) -> Self
    where
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, &Error) -> R + 'static,
    {
        self.say(move |whole| _ = whole.on_error(handler))
    }

    fn say(self, policy: impl FnOnce(&mut Added<'_>) + 'static) -> Self {
        self.0.push(Box::new(policy));
        self
    }
}

impl<S: Service, P> fmt::Debug for Steps<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("cx", &self.cx).finish_non_exhaustive()
    }
}

impl fmt::Debug for This<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "This({})", self.0.len())
    }
}
