//! The results of closures that define steps inside of others.

use super::service::Service;
use super::step::{EndsAs, Returns, Step};

/// Steps inside of others, which take `I`: a step, with those before it, or what [`Step::returns`] returns.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no step",
    label = "a step is missing here",
    note = "steps inside of others are `steps.run(\"name\", async |cx, ()| ..)` and what follows it, or what \
            `.returns()` returns"
)]
pub trait IntoReturns<S: Service, P, I> {
    /// The result of the last step.
    type Result: 'static;

    /// Their form in a plan.
    #[doc(hidden)]
    fn into_returns(self) -> Returns<Self::Result>;
}

impl<S, P, I, A, T, E> IntoReturns<S, P, I> for Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    T: 'static,
    E: EndsAs<T>,
{
    type Result = E::Result;

    fn into_returns(self) -> Returns<E::Result> {
        self.returns()
    }
}

impl<S: Service, P, I, T: 'static> IntoReturns<S, P, I> for Returns<T> {
    type Result = T;

    fn into_returns(self) -> Self {
        self
    }
}
