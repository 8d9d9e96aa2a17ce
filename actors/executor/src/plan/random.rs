//! Random numbers for the bodies of a plan.

use asyncsteps_core::sim::Random;

use super::cx::Cx;
use crate::service::{Service, seed};

impl<S: Service, P> Cx<S, P> {
    /// Random numbers that belong to the [key](Self::key): all attempts of the step get the same ones, also
    /// after a crash, and other steps, items and requests get others. Not for secrets.
    ///
    /// Each call returns the same numbers again, so one keeps what it returns:
    ///
    /// ```
    /// # use asyncsteps_executor::Service;
    /// # use asyncsteps_executor::plan::{Returns, Steps};
    /// # struct Shop;
    /// # impl Service for Shop { type Errors = (); }
    /// # impl Shop { fn greet(&self, _: &str) {} }
    /// fn greet(steps: &Steps<Shop, ()>) -> Returns<()> {
    ///     steps
    ///         .run("greet", async |cx, ()| {
    ///             let mut random = cx.random();
    ///             cx.greet(random.pick(&["hello", "good day"]).unwrap_or(&"hi"));
    ///             Ok(())
    ///         })
    ///         .returns()
    /// }
    /// ```
    #[must_use = "each call returns the same numbers again"]
    pub fn random(&self) -> Random {
        Random::new(seed(self.key()))
    }
}
