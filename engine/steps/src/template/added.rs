//! The step just added to a template, and its options (FTN12 §2.2.1).

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::draft::NewStep;
use crate::args::Arguments;
use crate::error::{Error, StepError, StepReturn};
use crate::interface::Untyped;
use crate::location::StepLocation;
use crate::outcome::Undo;
use crate::plan::{Chosen, Replayable, RetryPolicy, SharedPolicies};
use crate::retry::Retry;
use crate::stack::AsyncSteps;
use crate::sync::{ISync, SharedSync};
use crate::undo::{OfInput, OfResult, UndoOf, UndoPolicy};

/// The step just added to a template: it can get a name, an error handler and policies
/// (FTN12 §2.2.1).
///
/// The options are the same as for [`Added`](crate::Added), nest in the same order, and are shared
/// by all flows of the template.
pub struct TemplateAdded<'a, A = Untyped, T = Untyped> {
    step: &'a mut NewStep,
    signature: PhantomData<fn(A) -> T>,
}

impl<'a, A, T> TemplateAdded<'a, A, T> {
    pub(super) fn new(step: &'a mut NewStep) -> Self {
        Self { step, signature: PhantomData }
    }

    /// The same step without the types that it takes and returns, for functions that return the
    /// step they added.
    #[must_use]
    pub fn untyped(self) -> TemplateAdded<'a> {
        TemplateAdded::new(self.step)
    }

    /// Sets the error handler of the step (FTN12 §1.2).
    pub fn on_error<R, F>(&mut self, handler: F) -> &mut Self
    where
        R: StepReturn,
        F: Fn(&mut AsyncSteps, &Error) -> R + Send + Sync + 'static,
    {
        self.step.handler = Some(Arc::new(move |asi, error| handler(asi, error).into_result()));
        self
    }

    /// Names the step in stacks, errors and traces.
    pub fn named(&mut self, name: &'static str) -> &mut Self {
        self.step.location = self.step.location.named(name);
        self
    }

    /// Sets the place in the source that stacks, errors and traces show, for libraries that add steps
    /// for their users: by default it is where the step was added.
    pub fn located_at(&mut self, source: &'static Location<'static>) -> &mut Self {
        self.step.location = StepLocation::new(source, self.step.location.name());
        self
    }

    /// Runs the step while it holds `object`, see [`Added::locked`](crate::Added::locked)
    /// (FTN12 §1.11.3).
    pub fn locked<O>(&mut self, object: &O) -> &mut Self
    where
        O: SharedSync,
    {
        self.policies().add_lock(object.clone());
        self
    }

    /// [`locked`](Self::locked) with an object that a closure chooses when the step starts, from what the step
    /// takes and from the flow; with `None` the step holds no lock (FTN12 §1.11.3).
    ///
    /// ```
    /// use asyncsteps_core::{Template, run_to_end, sync::Mutex};
    ///
    /// let template = Template::build(|asi| {
    ///     asi.add(|asi, seats: u32| asi.success(seats))
    ///         .locked_by(|asi, seats| asi.extension::<Mutex>().filter(|_| *seats > 0).cloned());
    /// });
    /// let mut flow = template.flow();
    /// flow.extend(Mutex::default());
    /// flow.pass(2u32);
    /// assert_eq!(run_to_end::<u32>(flow).unwrap(), 2);
    /// ```
    pub fn locked_by<O, F>(&mut self, choose: F) -> &mut Self
    where
        A: Arguments,
        O: ISync + 'static,
        F: Fn(&mut AsyncSteps, &A) -> Option<O> + Send + Sync + 'static,
    {
        self.policies().add_lock(Chosen::new(choose));
        self
    }

    /// Runs the step while it holds a place in `limiter`, see
    /// [`Added::limited`](crate::Added::limited) (FTN12 §1.11.3).
    pub fn limited<O>(&mut self, limiter: &O) -> &mut Self
    where
        O: SharedSync,
    {
        self.policies().add_limiter(limiter.clone());
        self
    }

    /// [`limited`](Self::limited) with a limiter that a closure chooses when an attempt of the step starts, see
    /// [`locked_by`](Self::locked_by) (FTN12 §1.11.3).
    pub fn limited_by<O, F>(&mut self, choose: F) -> &mut Self
    where
        A: Arguments,
        O: ISync + 'static,
        F: Fn(&mut AsyncSteps, &A) -> Option<O> + Send + Sync + 'static,
    {
        self.policies().add_limiter(Chosen::new(choose));
        self
    }

    /// Limits the time of the step, see [`Added::timeout`](crate::Added::timeout) (FTN12 §1.3).
    pub fn timeout(&mut self, limit: Duration) -> &mut Self {
        self.policies().timeout = Some(limit);
        self
    }

    /// Tries the step again when it fails, see [`Added::retry`](crate::Added::retry).
    pub fn retry(&mut self, policy: Retry) -> &mut Self
    where
        A: Replayable,
    {
        self.policies().tries = Some(RetryPolicy::new::<A>(policy));
        self
    }

    /// Shields the body from what ends the step from outside, see
    /// [`Added::shielded`](crate::Added::shielded) (FTN12 §1.3).
    pub fn shielded(&mut self) -> &mut Self
    where
        T: Arguments,
    {
        self.policies().is_shielded = true;
        self
    }

    /// Undoes the step when something later fails, see [`Added::undo`](crate::Added::undo)
    /// (FTN12 §1.2, §1.3).
    pub fn undo<F>(&mut self, undo: F) -> &mut Self
    where
        T: Replayable,
        F: AsyncFn(Undo<&T>) -> Result<(), StepError> + Send + Sync + 'static,
    {
        self.undo_with(UndoPolicy::default(), undo)
    }

    /// [`undo`](Self::undo) with a policy: how long it may take, and whether it is tried again.
    pub fn undo_with<F>(&mut self, policy: UndoPolicy, undo: F) -> &mut Self
    where
        T: Replayable,
        F: AsyncFn(Undo<&T>) -> Result<(), StepError> + Send + Sync + 'static,
    {
        self.policies().undo = Some(UndoOf::<_, (), T>::new(OfResult(undo), policy));
        self
    }

    /// [`undo_with`](Self::undo_with) whose closure also gets what `keep` returned of what the step takes, when the
    /// step started (FTN12 §1.2, §1.3).
    ///
    /// ```
    /// use asyncsteps_core::{Template, TemplateSteps, Undo, UndoPolicy};
    ///
    /// fn reserve(asi: &mut TemplateSteps) {
    ///     asi.run(async |seat: u32| Ok(format!("seat {seat}"))).undo_keeping(
    ///         UndoPolicy::default(),
    ///         |_, seat| *seat,
    ///         async |seat, outcome: Undo<&String>| Ok(println!("free {seat}, was {outcome:?}")),
    ///     );
    /// }
    /// # Template::build(reserve);
    /// ```
    pub fn undo_keeping<K, F>(
        &mut self,
        policy: UndoPolicy,
        keep: impl Fn(&AsyncSteps, &A) -> K + Send + Sync + 'static,
        undo: F,
    ) -> &mut Self
    where
        A: Arguments,
        K: Arguments,
        T: Replayable,
        F: AsyncFn(&K, Undo<&T>) -> Result<(), StepError> + Send + Sync + 'static,
    {
        self.policies().undo = Some(UndoOf::<_, K, T>::new(OfInput::new(keep, undo), policy));
        self
    }

    fn policies(&mut self) -> &mut SharedPolicies {
        self.step.policies.get_or_insert_default()
    }
}

impl<A, T> fmt::Debug for TemplateAdded<'_, A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.step.location)
    }
}

/// The label of a loop of a template, set after the loop was added.
pub(super) type Label = Arc<OnceLock<Cow<'static, str>>>;

/// The loop just added to a template: it can get a label and a name (FTN12 §2.2.4).
pub struct TemplateLoop<'a> {
    pub(super) step: &'a mut NewStep,
    pub(super) label: Label,
}

impl TemplateLoop<'_> {
    /// Labels the loop for `break_loop` and `continue_loop` of inner loops (FTN12 §1.8). The first
    /// label counts.
    pub fn label(&mut self, label: impl Into<Cow<'static, str>>) -> &mut Self {
        self.label.get_or_init(|| label.into());
        self
    }

    /// Names the loop in stacks, errors and traces.
    pub fn named(&mut self, name: &'static str) -> &mut Self {
        self.step.location = self.step.location.named(name);
        self
    }
}

impl fmt::Debug for TemplateLoop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loop {}", self.step.location)
    }
}
