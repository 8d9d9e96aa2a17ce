//! The result of adding a step: the new step, to set a handler, a label or a name (FTN12 §2.2.1).

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use crate::args::Arguments;
use crate::error::{Error, StepError, StepReturn};
use crate::outcome::Undo;
use crate::plan::{Replayable, RetryPolicy, StepWithPolicies};
use crate::replay::ReplayHooks;
use crate::retry::Retry;
use crate::stack::{AsyncSteps, QueuedStep};
use crate::sync::ISync;
use crate::undo::{OfResult, UndoOf, UndoPolicy};

/// The step just added: it can get a name, an error handler and policies.
///
/// Policies are written behind the step in any order. They nest in a fixed order, the outermost
/// first:
///
/// | | |
/// |---|---|
/// | [`named`](Self::named) | in stacks, errors and traces |
/// | [`on_error`](Self::on_error) | sees what everything below it could not help |
/// | [`locked`](Self::locked) | the lock is held over all attempts |
/// | [`retry`](Self::retry) | steps added with `run` |
/// | [`limited`](Self::limited) | a place is held during one attempt |
/// | [`timeout`](Self::timeout) | limits one attempt; waits for lock and place do not count |
/// | [`shielded`](Self::shielded) | steps added with `run`: nothing outside cancels the body |
/// | the body | |
/// | [`undo`](Self::undo) | afterwards, in a flow of its own: it is part of no attempt |
///
/// To limit something as a whole, with all attempts and waits, put it into a step with a limit of
/// its own. `A` and `T` are what the step takes and returns, as far as the compiler knows it.
///
/// ```
/// use std::time::Duration;
/// use asyncsteps_core::{Flow, Retry, run_to_end, sync::Mutex};
///
/// let account = Mutex::default();
/// let mut flow = Flow::new();
/// flow.run(async |()| Ok(42))
///     .named("ask the bank")
///     .timeout(Duration::from_millis(300))
///     .retry(Retry::attempts(3))
///     .locked(&account);
/// assert_eq!(run_to_end::<i32>(flow).unwrap(), 42);
/// ```
pub struct Added<'a, A = Untyped, T = Untyped> {
    step: &'a mut QueuedStep,
    signature: PhantomData<fn(A) -> T>,
}

/// The arguments or the result of a step that only its body knows.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Untyped {}

impl<'a, A, T> Added<'a, A, T> {
    pub(crate) fn new(step: &'a mut QueuedStep) -> Self {
        Self { step, signature: PhantomData }
    }

    /// The same step without the types that it takes and returns, for functions that return the
    /// step they added.
    #[must_use]
    pub fn untyped(self) -> Added<'a> {
        Added::new(self.step)
    }

    /// Sets the error handler of the step: it recovers with `success` or by adding steps, replaces
    /// the error with `error`, or lets it pass by returning (FTN12 §1.2, §2.1).
    pub fn on_error<R, F>(&mut self, handler: F) -> &mut Self
    where
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, &Error) -> R + 'static,
    {
        let handler = move |asi: &mut AsyncSteps, error: &Error| handler(asi, error).into_result();
        self.step.set_handler(Box::new(handler));
        self
    }

    /// Runs the step while it holds `object` (FTN12 §1.11.3): all attempts of it, and its error
    /// handler, which also gets a rejection by the object.
    ///
    /// If the step fails or is cancelled, the lock is held until it and all that is inside are
    /// [undone](Self::undo): who gets the lock next never sees the half of it. If the step ends
    /// normally, the lock is free then. Several locks are taken in the order in which they are
    /// written.
    pub fn locked<O: ISync + Clone + 'static>(&mut self, object: &O) -> &mut Self {
        StepWithPolicies::policies_of(self.step).add_lock(object.clone());
        self
    }

    /// Runs the step while it holds a place in `limiter` (FTN12 §1.11.3): each attempt enters by
    /// itself, and holds no place during the pauses between attempts, nor while something is undone.
    ///
    /// For "at most ten at once" this is a mutex with a `max` of 10; a `Limiter` has a rate as well.
    /// Several limiters are entered in the order in which they are written.
    pub fn limited<O: ISync + Clone + 'static>(&mut self, limiter: &O) -> &mut Self {
        StepWithPolicies::policies_of(self.step).add_limiter(limiter.clone());
        self
    }

    /// Limits the time of the step, of each attempt if there are several. When the limit expires,
    /// everything inside is cancelled: cancel handlers run, futures are dropped, error handlers see
    /// nothing. Then `Timeout` is raised at the step itself (FTN12 §1.3).
    ///
    /// So nothing inside can outlast the limit, unlike one of
    /// [`set_timeout`](AsyncSteps::set_timeout). Any duration from zero up; a later call replaces an
    /// earlier one.
    pub fn timeout(&mut self, limit: Duration) -> &mut Self {
        StepWithPolicies::policies_of(self.step).one.timeout = Some(limit);
        self
    }

    /// Ends the flow when this time has passed: everything inside of the step is cancelled, and `Timeout` is raised at
    /// the step at once. Effects are undone behind it, under the locks of the steps inside: from then on the flow waits
    /// for no undo.
    ///
    /// It is for the outermost step of a flow whose caller is answered in time. Inside of a flow there is
    /// [`timeout`](Self::timeout), whose step fails when everything inside is undone (FTN12 §1.3).
    pub fn ends_flow_after(&mut self, limit: Duration) -> &mut Self {
        let one = &mut StepWithPolicies::policies_of(self.step).one;
        (one.timeout, one.ends_flow) = (Some(limit), true);
        self
    }

    /// Tries the step again when it fails, as `policy` says. When no attempt is left, the last error
    /// goes on, with the number of [attempts](Error::attempts).
    ///
    /// The arguments are cloned for each further attempt. [`AsyncSteps::attempt`] and
    /// [`RunContext`](crate::RunContext) report which attempt it is. A time limit that a step
    /// around this one has set is not tried again.
    ///
    /// An attempt that was cut may have had its effect, so a body that is tried again has to be
    /// harmless when it runs twice: by a key that the other side remembers, for example.
    pub fn retry(&mut self, policy: Retry) -> &mut Self
    where
        A: Replayable,
    {
        StepWithPolicies::policies_of(self.step).tries = Some(RetryPolicy::new::<A>(policy));
        self
    }

    /// Shields the body from what ends the step from outside: a cancel, the limit of a step around it,
    /// a branch that fails. It runs to its end as a flow of its own, and only its own
    /// [`timeout`](Self::timeout) cuts it: 30 s if it has none (FTN12 §1.3, §2.2.1 `newInstance`).
    ///
    /// The body stays a part of its flow's request: the request is in flight until the body has ended.
    /// The step that is ended around it ends at once, and the result of the body is lost. What the step
    /// and the steps around it hold ([`locked`](Self::locked), [`limited`](Self::limited), a section) is
    /// held until the body has ended; if the flow goes on, its next step begins behind that. An
    /// [`undo`](Self::undo) of the step begins when the body has ended, with its result. A body that
    /// failed by then is not undone, as for any other step.
    pub fn shielded(&mut self) -> &mut Self
    where
        T: Arguments,
    {
        StepWithPolicies::policies_of(self.step).one.is_shielded = true;
        self
    }

    /// Sets the compensation of the step, as in a saga: undoes it when something later fails, on
    /// every way out: an error that leaves a step around both, a time limit, a cancel, a flow that
    /// is dropped (FTN12 §1.2, §1.3).
    ///
    /// When the body succeeded, `undo` gets its result, which is cloned for that; when it was begun and
    /// cut, it gets [`Undo::Unknown`]. A body that fails by itself is taken at its word: it has done
    /// nothing, and is not undone. Its outcome is unknown if it says so ([`Error::outcome_unknown`]), if
    /// it panics, if [`retry`](Self::retry) would try it again after this error, and if one of several
    /// things of [`each`](AsyncSteps::each) or [`join`](AsyncSteps::join) fails after another one has
    /// begun, or all of several things of [`race`](AsyncSteps::race). If one of these wins, `undo` gets
    /// its result; the outcome of the others is unknown, so it has to undo these as well.
    ///
    /// The steps inside of a step that fails are undone after its cancel handlers and before its error
    /// handler: the newest first, and parallel branches in parallel. The steps inside of a step that
    /// ended normally belong to the step around it. So nothing is final before the flow ends, except
    /// by [`scope`](AsyncSteps::scope). Undos run as flows of their own, for which the failed step
    /// waits: if that step is ended meanwhile, they still run to their end. When a flow is cancelled
    /// or dropped, its host runs them.
    ///
    /// An undo has one attempt of 30 s; see [`undo_with`](Self::undo_with). When it fails, the host
    /// gets its error ([`take_unreported_errors`](crate::Execution::take_unreported_errors)) and the others go on. With
    /// [`retry`](Self::retry) there is one undo for all attempts: it is unknown if one was cut and
    /// none succeeded.
    ///
    /// ```
    /// use asyncsteps_core::tool::{AsyncTool, Manual};
    /// use asyncsteps_core::{Error, Flow, Time, Undo};
    ///
    /// let mut flow = Flow::new();
    /// flow.run(async |()| Ok("seat 7")).undo(async |seat| {
    ///     assert_eq!(seat, Undo::Done(&"seat 7")); // give it back
    ///     Ok(())
    /// });
    /// flow.run(async |_: &str| Err::<(), _>(Error::new("CardDeclined").into()));
    /// let tool = Manual::new(Time::ZERO);
    /// let error = tool.complete(flow.promise::<(), _>(&tool)).unwrap().unwrap_err();
    /// assert_eq!(error.code(), "CardDeclined");
    /// ```
    pub fn undo<F>(&mut self, undo: F) -> &mut Self
    where
        T: Replayable,
        F: AsyncFn(Undo<&T>) -> Result<(), StepError> + 'static,
    {
        self.undo_with(UndoPolicy::default(), undo)
    }

    /// [`undo`](Self::undo) with a policy: how long it may take, and whether it is tried again.
    pub fn undo_with<F>(&mut self, policy: UndoPolicy, undo: F) -> &mut Self
    where
        T: Replayable,
        F: AsyncFn(Undo<&T>) -> Result<(), StepError> + 'static,
    {
        let policies = StepWithPolicies::policies_of(self.step);
        policies.undo = Some(UndoOf::<_, (), T>::new(OfResult(undo), policy));
        policies.one.undoes = true;
        self
    }

    /// Makes the step remember its end in an earlier run of the flow, for hosts whose flows survive a
    /// crash; see [`ReplayHooks`].
    pub fn remembered(&mut self, memory: Rc<dyn ReplayHooks>) -> &mut Self {
        StepWithPolicies::policies_of(self.step).one.memory = Some(memory);
        self
    }

    /// The step returns what it takes, if it is [remembered](Self::remembered) and ended normally in an earlier run.
    pub fn passes_on(&mut self) -> &mut Self {
        StepWithPolicies::policies_of(self.step).one.passes = true;
        self
    }

    /// Names the step in stacks, errors and traces.
    pub fn named(&mut self, name: &'static str) -> &mut Self {
        self.step.set_name(name);
        self
    }

    /// Sets the place in the source that stacks, errors and traces show, for libraries that add steps
    /// for their users: by default it is where the step was added.
    pub fn located_at(&mut self, source: &'static Location<'static>) -> &mut Self {
        self.step.set_source(source);
        self
    }
}

impl<A, T> fmt::Debug for Added<'_, A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.step.location())
    }
}

/// The loop just added: it can get a label and a name.
pub struct AddedLoop<'a>(pub(super) &'a mut QueuedStep);

impl AddedLoop<'_> {
    /// Labels the loop for `break_loop` and `continue_loop` of inner loops (FTN12 §1.8).
    pub fn label(&mut self, label: impl Into<Cow<'static, str>>) -> &mut Self {
        self.0.set_label(label.into());
        self
    }

    /// Names the loop in stacks, errors and traces.
    pub fn named(&mut self, name: &'static str) -> &mut Self {
        self.0.set_name(name);
        self
    }

    /// Sets the place in the source, see [`Added::located_at`].
    pub fn located_at(&mut self, source: &'static Location<'static>) -> &mut Self {
        self.0.set_source(source);
        self
    }
}

impl fmt::Debug for AddedLoop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loop {}", self.0.location())
    }
}
