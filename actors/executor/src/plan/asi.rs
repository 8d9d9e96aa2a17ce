//! Steps as FTN12 has them, among steps with types.

use std::sync::Arc;

use asyncsteps_core::{Arguments, AsyncSteps, StepResult};

use super::context::Context;
use super::cx::Cx;
use super::form::Form;
use super::service::Service;
use super::step::{Chain, Step};
use super::steps::Steps;

impl<S: Service, P: 'static, I: 'static> Steps<S, P, I> {
    /// A step whose sub-steps are added by a callback of FTN12 (§1.1) when a request comes to it: for steps in
    /// other languages (§2.7), for templates, and for what no other form can say. The last of them returns `T`,
    /// which is checked then. A plan cannot show them, and a [durable](crate::recorder) function cannot have them.
    ///
    /// ```
    /// use asyncsteps_core::Template;
    /// use asyncsteps_executor::{Returns, Steps};
    ///
    /// fn answer(steps: &Steps<(), ()>) -> Returns<i32> {
    ///     let double = Template::build(|asi| {
    ///         asi.add(|asi, n: i32| asi.success(2 * n));
    ///     });
    ///     steps
    ///         .asi::<i32>("double", move |asi, _, ()| {
    ///             asi.copy_with(&double, 21);
    ///             Ok(())
    ///         })
    ///         .returns()
    /// }
    /// ```
    #[track_caller]
    pub fn asi<T: Arguments>(
        &self,
        name: &'static str,
        body: impl Fn(&mut AsyncSteps, &Cx<S, P>, I) -> StepResult + Send + Sync + 'static,
    ) -> Step<S, P, I, I, T> {
        asi_steps(Chain::new(), name, body)
    }
}

impl<S, P, I, A, T, E> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    T: 'static,
{
    /// [`asi`](Steps::asi) for a callback that takes the result of the step before.
    #[track_caller]
    pub fn then_asi<U: Arguments>(
        self,
        name: &'static str,
        body: impl Fn(&mut AsyncSteps, &Cx<S, P>, T) -> StepResult + Send + Sync + 'static,
    ) -> Step<S, P, I, T, U, E> {
        asi_steps(self.into_chain(), name, body)
    }
}

#[track_caller]
fn asi_steps<S, P, I, A, T, E>(
    chain: Chain,
    name: &'static str,
    body: impl Fn(&mut AsyncSteps, &Cx<S, P>, A) -> StepResult + Send + Sync + 'static,
) -> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: Arguments,
{
    let body = Arc::new(body);
    chain.substeps(name, Form::Asi, None, move |asi, cx: Context, input, _| {
        let (body, of_body) = (Arc::clone(&body), Cx::of(cx));
        // the loops around are those of the plan
        asi.hide_loops();
        asi.add_inner(move |asi, ()| body(asi, &of_body, input));
        asi.add_inner(move |asi, result: T| asi.success((result,)));
        Ok(())
    })
}
