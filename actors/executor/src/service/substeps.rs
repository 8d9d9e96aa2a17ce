//! Steps with sub-steps that know their types.

use std::marker::PhantomData;
use std::rc::Rc;

use asyncsteps_core::{Arguments, AsyncSteps, Flow, StepResult};

use super::context::{Cx, Service};
use super::key::Undoes;
use super::step::{Kind, Nested, Returns, Step};
use super::steps::Steps;
use crate::recorder::{Form, StepRecorder};

impl<S: Service, P: 'static> Steps<S, P> {
    /// Adds a step with sub-steps, which `body` defines when the step starts, at each attempt: to
    /// branch, or to say something about several steps together. It gives what the last of them
    /// gives.
    ///
    /// ```
    /// # use asyncsteps_executor::{Returns, Service, Steps};
    /// # struct Payments;
    /// # impl Service for Payments { type Errors = (); }
    /// # struct Charge { amount: i32 }
    /// fn charge(asi: &mut Steps<Payments, Charge>) -> Returns<String> {
    ///     asi.run("rate", async |cx, ()| Ok(cx.params.amount / 100))
    ///         .then_substeps("pay", |asi, euros| match euros {
    ///             0 => asi.run("gift", async |_, ()| Ok("nothing to pay".to_owned())).into(),
    ///             _ => asi.run("card", async move |_, ()| Ok(format!("{euros} EUR"))).into(),
    ///         })
    ///         .into()
    /// }
    /// ```
    #[track_caller]
    pub fn substeps<A, T, F>(&mut self, name: &'static str, body: F) -> Step<'_, S, P, A, T, Nested>
    where
        A: Arguments,
        T: 'static,
        F: Fn(&mut Self, A) -> Returns<T> + 'static,
    {
        Step::nest(&mut self.flow, &self.cx, name, body)
    }

    /// [`substeps`](Self::substeps) whose normal end is final: what was done inside is not undone any
    /// more when a later step fails, see [`AsyncSteps::scope`].
    #[track_caller]
    pub fn scope<A, T, F>(&mut self, name: &'static str, body: F) -> Step<'_, S, P, A, T, Nested>
    where
        A: Arguments,
        T: 'static,
        F: Fn(&mut Self, A) -> Returns<T> + 'static,
    {
        self.substeps(name, move |steps: &mut Self, args| {
            steps.is_final = true;
            steps.cx.set_final();
            body(steps, args)
        })
    }
}

impl<'a, S, P, A, T, K> Step<'a, S, P, A, T, K>
where
    S: Service,
    P: 'static,
    A: Arguments,
    T: 'static,
    K: Kind<T>,
{
    /// Adds a step with sub-steps that takes the result of this one. Otherwise as
    /// [`substeps`](Steps::substeps).
    #[track_caller]
    pub fn then_substeps<U, F>(self, name: &'static str, body: F) -> Step<'a, S, P, (T,), U, Nested>
    where
        U: 'static,
        F: Fn(&mut Steps<S, P>, T) -> Returns<U> + 'static,
    {
        let Self { flow, cx, .. } = self;
        Step::nest(flow, cx, name, move |asi, (value,)| body(asi, value))
    }
}

impl<'a, S, P, A, T> Step<'a, S, P, A, T, Nested>
where
    S: Service,
    P: 'static,
    A: Arguments,
    T: 'static,
{
    /// Adds a step to `flow` whose sub-steps `body` defines, at each attempt.
    #[track_caller]
    pub(super) fn nest<F>(flow: &'a mut Flow, cx: &'a Cx<S, P>, name: &'static str, body: F) -> Self
    where
        F: Fn(&mut Steps<S, P>, A) -> Returns<T> + 'static,
    {
        let of_step = cx.of_new_step(name, Form::Nested);
        let (of_body, undoes) = (of_step.clone(), Undoes::default());
        Self::with_substeps(flow, cx, of_step, move |asi, args, memory| {
            let mut steps = Steps::new(of_body.of_substeps(asi.attempt(), &undoes, None, memory));
            let Returns { .. } = body(&mut steps, args);
            steps.finish(asi)
        })
    }
}

impl<'a, S, P, A, T, K> Step<'a, S, P, A, T, K>
where
    S: Service,
    P: 'static,
    A: Arguments,
    T: 'static,
{
    /// Adds a step to `flow` whose sub-steps `body` adds, the last of which gives `(T,)`.
    #[track_caller]
    pub(super) fn with_substeps<F>(
        flow: &'a mut Flow,
        cx: &'a Cx<S, P>,
        of_step: Cx<S, P>,
        body: F,
    ) -> Self
    where
        F: Fn(&mut AsyncSteps, A, Option<Rc<dyn StepRecorder>>) -> StepResult + 'static,
    {
        let remembered = of_step.remember::<T>();
        let memory = remembered.as_ref().map(|step| Rc::clone(&step.memory));
        let of_body = memory.clone();
        let mut added =
            flow.substeps(move |asi: &mut AsyncSteps, args| body(asi, args, of_body.clone()));
        added.named(of_step.step_name());
        if let Some(memory) = memory {
            added.remembered(memory);
        }
        Self { flow, cx, of_step, remembered, types: PhantomData }
    }
}
