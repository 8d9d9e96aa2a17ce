//! Business logic prepared once and instantiated per request (FTN12 §1.5).

use std::fmt;
use std::sync::Arc;

use crate::args::Arguments;
use crate::error::{Error, StepReturn};
use crate::location::StepLocation;
use crate::stack::{
    Activity, AsyncSteps, Branches, SharedBody, SharedSteps, TemplateRange, TemplateStep, Unstarted,
};
use crate::state::{State, TemplateState};
use crate::sync::{ISync, Section};

/// The steps and state variables that flows start with, shared by all of them (FTN12 §1.5).
///
/// A template is immutable, can be used from any thread and is cheap to clone. The time to make a
/// flow of it ([`flow`](Self::flow)) does not depend on the number of its steps.
///
/// ```
/// use asyncsteps::{Template, run_to_end};
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
        Self { steps: steps.steps.into_iter().map(Draft::finish).collect(), state }
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
#[derive(Default)]
pub struct TemplateSteps {
    steps: Vec<Draft>,
    state: TemplateState,
}

/// A step of a template that is being built.
enum Draft {
    /// It may still get a handler or a name.
    New(Box<TemplateStep>),
    /// It comes from another template.
    Shared(Arc<TemplateStep>),
}

impl Draft {
    fn finish(self) -> Arc<TemplateStep> {
        match self {
            Self::New(step) => Arc::from(step),
            Self::Shared(step) => step,
        }
    }
}

impl TemplateSteps {
    /// Adds a step (FTN12 §2.2.1 `add`).
    #[track_caller]
    pub fn add<A, R, F>(&mut self, body: F) -> TemplateAdded<'_>
    where
        A: Arguments,
        R: StepReturn,
        F: Fn(&mut AsyncSteps, A) -> R + Send + Sync + 'static,
    {
        let body = move |asi: &mut AsyncSteps, args| {
            let args = asi.typed(args)?;
            body(asi, args).into_result()
        };
        self.push(Box::new(body), StepLocation::here())
    }

    /// Adds a step whose sub-steps, the branches, run in parallel (FTN12 §2.2.1 `parallel`).
    #[track_caller]
    pub fn parallel(&mut self, define: impl FnOnce(&mut TemplateParallel)) -> TemplateAdded<'_> {
        let location = StepLocation::here();
        let mut branches = TemplateParallel(Self::default());
        define(&mut branches);
        let steps: SharedSteps = branches.0.steps.into_iter().map(Draft::finish).collect();
        let body = move |asi: &mut AsyncSteps, _| {
            let branches = Branches::new(Unstarted::Shared(TemplateRange::all(&steps)));
            asi.set_activity(Activity::Parallel(Box::new(branches)));
            Ok(())
        };
        self.push(Box::new(body), location)
    }

    /// Adds a step that is synchronised against `object` (FTN12 §2.2.1 `sync`).
    #[track_caller]
    pub fn sync<O, A, R, F>(&mut self, object: &O, body: F) -> TemplateAdded<'_>
    where
        O: ISync + Clone + Send + Sync + 'static,
        A: Arguments,
        R: StepReturn,
        F: Fn(&mut AsyncSteps, A) -> R + Send + Sync + 'static,
    {
        let object = object.clone();
        let body = Arc::new(body);
        let step = move |asi: &mut AsyncSteps, args| {
            let body = Arc::clone(&body);
            let section = Section::new(asi, args, move |asi, args| {
                let args = asi.typed(args)?;
                body(asi, args).into_result()
            });
            object.sync(asi, section)
        };
        let added = self.push(Box::new(step), StepLocation::here());
        added.0.is_sync = true;
        added
    }

    /// Adds a step with this result (FTN12 §1.12 `successStep`).
    #[track_caller]
    pub fn success_step<A: Arguments + Clone + Send + Sync>(
        &mut self,
        result: A,
    ) -> TemplateAdded<'_> {
        let body = move |asi: &mut AsyncSteps, _| asi.success(result.clone());
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

    fn push(&mut self, body: SharedBody, location: StepLocation) -> TemplateAdded<'_> {
        let step = TemplateStep { location, body, handler: None, is_sync: false };
        self.steps.push(Draft::New(Box::new(step)));
        match self.steps.last_mut() {
            Some(Draft::New(step)) => TemplateAdded(step),
            Some(Draft::Shared(_)) | None => unreachable!("a step was just added"),
        }
    }
}

impl fmt::Debug for TemplateSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TemplateSteps({})", self.steps.len())
    }
}

/// The branches of a parallel step of a template, each a step with its sub-steps (FTN12 §2.2.1
/// `parallel`); see [`Parallel`](crate::Parallel).
#[derive(Debug)]
pub struct TemplateParallel(TemplateSteps);

impl TemplateParallel {
    /// Adds a branch; it takes no arguments and its result is dropped (FTN12 §2.2.1 `parallel`).
    #[track_caller]
    pub fn add<R, F>(&mut self, body: F) -> TemplateAdded<'_>
    where
        R: StepReturn,
        F: Fn(&mut AsyncSteps, ()) -> R + Send + Sync + 'static,
    {
        self.0.add(body)
    }

    /// Adds a branch whose step has parallel branches itself (FTN12 §2.2.1 `parallel`).
    #[track_caller]
    pub fn parallel(&mut self, define: impl FnOnce(&mut Self)) -> TemplateAdded<'_> {
        self.0.parallel(define)
    }

    /// Adds a branch that is synchronised against `object`; the lock belongs to the branch, not to the
    /// flow (FTN12 §2.2.1 `sync`, §1.11.4).
    #[track_caller]
    pub fn sync<O, R, F>(&mut self, object: &O, body: F) -> TemplateAdded<'_>
    where
        O: ISync + Clone + Send + Sync + 'static,
        R: StepReturn,
        F: Fn(&mut AsyncSteps, ()) -> R + Send + Sync + 'static,
    {
        self.0.sync(object, move |asi, ()| {
            let end = body(asi, ()).into_result();
            asi.without_result(end)
        })
    }
}

/// The step just added to a template: it can get an error handler and a name (FTN12 §2.2.1).
pub struct TemplateAdded<'a>(&'a mut TemplateStep);

impl TemplateAdded<'_> {
    /// Sets the error handler of the step (FTN12 §1.2).
    pub fn on_error<R, F>(&mut self, handler: F) -> &mut Self
    where
        R: StepReturn,
        F: Fn(&mut AsyncSteps, &Error) -> R + Send + Sync + 'static,
    {
        self.0.handler = Some(Arc::new(move |asi, error| handler(asi, error).into_result()));
        self
    }

    /// Names the step in stacks, errors and traces.
    pub fn named(&mut self, name: &'static str) -> &mut Self {
        self.0.location = self.0.location.named(name);
        self
    }
}

impl fmt::Debug for TemplateAdded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.0.location)
    }
}

const _: () = {
    const fn any_thread<T: Send + Sync + 'static>() {}
    any_thread::<Template>();
};
