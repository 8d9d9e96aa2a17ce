//! Business logic prepared once and instantiated per request (FTN12 §1.5).

mod added;
mod draft;
mod loops;
mod parallel;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::args::{Args, Arguments};
use crate::error::{Error, StepError, StepResult, StepReturn};
use crate::interface::{AsyncBody, Plain, RunContext, WithContext, start_shared};
use crate::location::StepLocation;
use crate::stack::{
    Activity, AsyncSteps, ParallelBranches, SharedBody, SharedSteps, TemplateRange, Unstarted,
    Waking,
};
use crate::state::{State, TemplateState};
use crate::sync::{Section, SharedSectionBody, SharedSync};

pub use added::{TemplateAdded, TemplateLoop};
use draft::{Draft, NewStep};
pub use parallel::TemplateParallel;

/// The steps and state variables that flows start with, shared by all of them (FTN12 §1.5).
///
/// A template is immutable, can be used from any thread and is cheap to clone. The time to make a
/// flow of it ([`flow`](Self::flow)) does not depend on the number of its steps.
///
/// ```
/// use asyncsteps_core::{Template, run_to_end};
///
/// let double = Template::build(|asi| {
///     asi.add(|asi, ()| asi.success(21u32));
///     asi.add(|asi, n: u32| asi.success(n * 2));
/// });
/// assert_eq!(run_to_end::<u32>(double.flow()).unwrap(), 42);
/// assert_eq!(run_to_end::<u32>(double.flow()).unwrap(), 42);
/// ```
#[derive(Clone)]
pub struct Template {
    pub(crate) steps: SharedSteps,
    pub(crate) state: Option<Arc<TemplateState>>,
}

impl Template {
    /// Builds a template: `define` adds steps as a step body would.
    #[must_use]
    pub fn build(define: impl FnOnce(&mut TemplateSteps)) -> Self {
        let mut steps = TemplateSteps::default();
        define(&mut steps);
        let state = (!steps.state.is_empty()).then(|| Arc::new(steps.state));
        let steps = steps.steps.into_iter().map(Draft::finish).collect();
        Self { steps: Arc::new(steps), state }
    }

    pub(crate) fn copy_state(&self, state: &mut State) {
        if let Some(model) = &self.state {
            state.copy_missing(model);
        }
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.steps.iter().map(|step| step.location)).finish()
    }
}

/// The steps of a template while it is being built: the common API of FTN12 §2.2.1 for steps that
/// flows and threads share.
///
/// It has the methods of [`AsyncSteps`] that add a step. Their closures are called for many flows,
/// so they are `Fn`, and data that one flow changes belongs into its state or [`AsyncSteps::stack`].
/// Methods that use a value once are left out: [`await_`](AsyncSteps::await_) takes a future, for
/// which [`run`](Self::run) makes one for each flow, and [`append`](AsyncSteps::append) takes a
/// flow, instead of which [`copy_from`](Self::copy_from) takes a template. The calls that end a step
/// or make it wait belong into bodies.
#[derive(Default)]
pub struct TemplateSteps {
    steps: Vec<Draft>,
    state: TemplateState,
}

impl TemplateSteps {
    /// Adds a step (FTN12 §2.2.1 `add`).
    #[track_caller]
    pub fn add<A, R, F>(&mut self, body: F) -> TemplateAdded<'_, A>
    where
        A: Arguments,
        R: StepReturn,
        F: Fn(&mut AsyncSteps, A) -> R + Send + Sync + 'static,
    {
        let body = move |asi: &mut AsyncSteps, args, _: Waking<'_>| {
            let args = asi.typed(args)?;
            body(asi, args).into_result()
        };
        self.push(Box::new(body), StepLocation::here())
    }

    /// Adds a step that decides its work when it starts: `body` ends with
    /// [`become_run`](AsyncSteps::become_run) or [`become_substeps`](AsyncSteps::become_substeps). For
    /// libraries that write steps for their users.
    #[track_caller]
    pub fn defer<A, F>(&mut self, body: F) -> TemplateAdded<'_, A>
    where
        A: Arguments,
        F: Fn(&mut AsyncSteps, A) -> StepResult + Send + Sync + 'static,
    {
        let body = move |asi: &mut AsyncSteps, args, _: Waking<'_>| {
            let args = asi.typed(args)?;
            body(asi, args)
        };
        self.push_step(Box::new(body), StepLocation::here()).is_planned = true;
        self.last_added()
    }

    /// Adds a step that is an async closure, see [`AsyncSteps::run`]. The closure is shared by all
    /// flows; captured values can be borrowed in the future.
    ///
    /// ```
    /// use asyncsteps_core::{Template, run_to_end};
    ///
    /// let greeting = String::from("Hello");
    /// let greet = Template::build(|asi| {
    ///     asi.run(async move |name: String| Ok(format!("{greeting}, {name}!")));
    /// });
    /// let mut flow = greet.flow();
    /// flow.pass("Ada");
    /// assert_eq!(run_to_end::<String>(flow).unwrap(), "Hello, Ada!");
    /// ```
    #[track_caller]
    pub fn run<A, T, F>(&mut self, body: F) -> TemplateAdded<'_, A, T>
    where
        A: Arguments,
        T: Arguments,
        F: AsyncFn(A) -> Result<T, StepError> + Send + Sync + 'static,
    {
        self.push_async(Plain(body), StepLocation::here())
    }

    /// [`run`](Self::run) with a body that also takes the [`RunContext`]: which attempt it is.
    #[track_caller]
    pub fn run_with<A, T, F>(&mut self, body: F) -> TemplateAdded<'_, A, T>
    where
        A: Arguments,
        T: Arguments,
        F: AsyncFn(RunContext, A) -> Result<T, StepError> + Send + Sync + 'static,
    {
        self.push_async(WithContext(body), StepLocation::here())
    }

    /// [`run`](Self::run) for a body that sees the flow when it makes its future, which returns the values of a `T`. For
    /// libraries that write steps for their users.
    #[track_caller]
    pub fn run_made<A, T, F, Fut>(&mut self, make: F) -> TemplateAdded<'_, A, T>
    where
        A: Arguments,
        F: Fn(&mut AsyncSteps, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Args, Error>> + 'static,
    {
        let body = move |asi: &mut AsyncSteps, args, waker: Waking<'_>| {
            let args = asi.typed(args)?;
            let made = make(asi, args);
            asi.poll_new(made, waker)
        };
        self.push(Box::new(body), StepLocation::here())
    }

    /// Adds a step whose sub-steps, the branches, run in parallel (FTN12 §2.2.1 `parallel`).
    #[track_caller]
    pub fn parallel(&mut self, define: impl FnOnce(&mut TemplateParallel)) -> TemplateAdded<'_> {
        let location = StepLocation::here();
        let steps = TemplateParallel::define(define);
        let body = move |asi: &mut AsyncSteps, _, _: Waking<'_>| {
            let branches = ParallelBranches::new(Unstarted::Shared(TemplateRange::all(&steps)));
            asi.start_activity(Activity::Parallel(Box::new(branches)));
            Ok(())
        };
        self.push(Box::new(body), location)
    }

    /// Adds a step that is synchronised against `object` (FTN12 §2.2.1 `sync`).
    #[track_caller]
    pub fn sync<O, A, R, F>(&mut self, object: &O, body: F) -> TemplateAdded<'_, A>
    where
        O: SharedSync,
        A: Arguments,
        R: StepReturn,
        F: Fn(&mut AsyncSteps, A) -> R + Send + Sync + 'static,
    {
        let object = object.clone();
        let body: Arc<SharedSectionBody> = Arc::new(move |asi: &mut AsyncSteps, args| {
            let args = asi.typed(args)?;
            body(asi, args).into_result()
        });
        let step = move |asi: &mut AsyncSteps, args, _: Waking<'_>| {
            let section = Section::shared(asi, args, &body);
            object.sync(asi, section)
        };
        self.push_step(Box::new(step), StepLocation::here()).is_sync = true;
        self.last_added()
    }

    /// Adds a step with this result (FTN12 §1.12 `successStep`).
    #[track_caller]
    pub fn success_step<A: Arguments + Clone + Send + Sync>(
        &mut self,
        result: A,
    ) -> TemplateAdded<'_> {
        let body = move |asi: &mut AsyncSteps, _, _: Waking<'_>| asi.success(result.clone());
        self.push(Box::new(body), StepLocation::here())
    }

    /// Adds a step whose normal end is final, see [`AsyncSteps::scope`].
    #[track_caller]
    pub fn scope<A, R, F>(&mut self, body: F) -> TemplateAdded<'_, A>
    where
        A: Arguments,
        R: StepReturn,
        F: Fn(&mut AsyncSteps, A) -> R + Send + Sync + 'static,
    {
        let body = move |asi: &mut AsyncSteps, args, _: Waking<'_>| {
            asi.begin_scope();
            let args = asi.typed(args)?;
            body(asi, args).into_result()
        };
        self.push(Box::new(body), StepLocation::here())
    }

    /// Adds a step that fails with this error, see [`AsyncSteps::error_step`].
    #[track_caller]
    pub fn error_step(&mut self, error: Error) -> TemplateAdded<'_> {
        let body = move |_: &mut AsyncSteps, _, _: Waking<'_>| Err(StepError::error(error.clone()));
        self.push(Box::new(body), StepLocation::here())
    }

    /// Adds a step that completes without a result after `pause`, see [`AsyncSteps::sleep`].
    #[track_caller]
    pub fn sleep(&mut self, pause: Duration) -> TemplateAdded<'_> {
        let body = move |asi: &mut AsyncSteps, _, _: Waking<'_>| {
            asi.wait_until(asi.now() + pause);
            Ok(())
        };
        self.push(Box::new(body), StepLocation::here())
    }

    /// Appends the steps of another template and the state variables that are not set here
    /// (FTN12 §2.2.1 `copyFrom`).
    pub fn copy_from(&mut self, model: &Template) {
        self.steps.extend(model.steps.iter().map(|step| Draft::Shared(Arc::clone(step))));
        if let Some(state) = &model.state {
            self.state.copy_missing(state);
        }
    }

    /// The state variables that every flow of the template starts with.
    pub fn state(&mut self) -> &mut TemplateState {
        &mut self.state
    }

    fn push<A, T>(&mut self, body: SharedBody, location: StepLocation) -> TemplateAdded<'_, A, T> {
        self.push_step(body, location);
        self.last_added()
    }

    fn push_async<A, T>(
        &mut self,
        body: impl AsyncBody<A, T> + Send + Sync + 'static,
        location: StepLocation,
    ) -> TemplateAdded<'_, A, T>
    where
        A: Arguments,
        T: Arguments,
    {
        let body = Arc::new(body);
        self.push(Box::new(move |asi, args, waker| start_shared(&body, asi, args, waker)), location)
    }

    fn push_step(&mut self, body: SharedBody, location: StepLocation) -> &mut NewStep {
        self.steps.push(Draft::New(Box::new(NewStep::new(location, body))));
        match self.steps.last_mut() {
            Some(Draft::New(step)) => step,
            Some(Draft::Shared(_)) | None => unreachable!("a step was just added"),
        }
    }

    fn last_added<A, T>(&mut self) -> TemplateAdded<'_, A, T> {
        match self.steps.last_mut() {
            Some(Draft::New(step)) => TemplateAdded::new(step),
            Some(Draft::Shared(_)) | None => unreachable!("a step was just added"),
        }
    }
}

impl fmt::Debug for TemplateSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TemplateSteps({})", self.steps.len())
    }
}

const _: () = {
    const fn any_thread<T: Send + Sync + 'static>() {}
    any_thread::<Template>();
};
