//! The arguments of closures that choose whether steps run, and for which items.

use std::time::SystemTime;

use asyncsteps_core::sim::Random;

use super::cx::Cx;
use super::service::Service;

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
    step: &'a dyn OfStep,
}

/// The facts of the step that chooses.
trait OfStep {
    fn now(&self) -> SystemTime;

    fn random(&self) -> Random;

    fn key(&self) -> &str;
}

impl<S: Service, P> OfStep for Cx<S, P> {
    fn now(&self) -> SystemTime {
        self.now()
    }

    fn random(&self) -> Random {
        self.random()
    }

    fn key(&self) -> &str {
        self.key()
    }
}

impl<'a, P> Given<'a, P> {
    pub(super) fn to<S: Service>(cx: &'a Cx<S, P>) -> Self {
        Self { params: &cx.params, step: cx }
    }

    /// The time of day, see [`Cx::now`].
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.step.now()
    }

    /// Random numbers of the step, see [`Cx::random`].
    #[must_use = "each call returns the same numbers again"]
    pub fn random(&self) -> Random {
        self.step.random()
    }

    /// The idempotency key of the step, see [`Cx::key`].
    #[must_use]
    pub fn key(&self) -> &str {
        self.step.key()
    }
}
