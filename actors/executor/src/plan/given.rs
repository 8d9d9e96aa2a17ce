//! The arguments of closures that choose whether steps run, and for which items.

use std::time::SystemTime;

use asyncsteps_core::sim::Random;

use super::context::Context;
use super::random::seed;

/// The argument of a closure that chooses which steps a request needs: for [`when_some`](super::Steps::when_some), and
/// for the items of [`each`](super::Steps::each).
///
/// It does not have the service. So a choice depends on the parameters and on the value that the closure takes, and
/// a [durable](crate::recorder) request makes it again after a crash. A choice that needs the service takes the value
/// of a step that has asked it.
#[derive(derive_more::Debug)]
#[debug("Given {{ key: {:?}, .. }}", self.key())]
pub struct Given<'a, P> {
    /// The parameters, checked by the definition.
    pub params: &'a P,
    step: &'a Context,
}

impl<'a, P: 'static> Given<'a, P> {
    pub(super) fn to(step: &'a Context) -> Self {
        Self { params: step.params_ref(), step }
    }
}

impl<P> Given<'_, P> {
    /// The time of day, see [`Cx::now`](super::Cx::now).
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.step.now()
    }

    /// Random numbers of the step, see [`Cx::random`](super::Cx::random).
    #[must_use = "each call returns the same numbers again"]
    pub fn random(&self) -> Random {
        Random::new(seed(self.step.key()))
    }

    /// The idempotency key of the step, see [`Cx::key`](super::Cx::key).
    #[must_use]
    pub fn key(&self) -> &str {
        self.step.key()
    }
}
