//! Locks and limiters of steps.

use asyncsteps_core::sync::{AnySync, StepLock};
use asyncsteps_core::{Added, Error};

use super::context::Context;
use super::cx::Cx;
use super::service::Service;
use super::taken::{Taken, take};

/// A lock or limiter of a step, as a request has it.
pub(super) enum LockOf<A> {
    /// Whatever the step takes.
    Cx(LockOfCx),
    Input(LockOfInput<A>),
}

pub(super) type LockOfCx = Box<dyn Fn(&Context) -> Option<AnySync> + Send + Sync>;

type LockOfInput<A> = Box<dyn Fn(&Context, &A) -> Option<AnySync> + Send + Sync>;

impl<A> LockOf<A> {
    /// The lock of a request in which the step takes this input.
    pub(super) fn of(&self, cx: &Context, input: &A) -> Option<AnySync> {
        match self {
            Self::Cx(lock) => lock(cx),
            Self::Input(lock) => lock(cx, input),
        }
    }

    /// The lock of a request in which the step took this input.
    pub(super) fn of_taken(
        &self,
        cx: &Context,
        taken: Option<&Taken>,
    ) -> Result<Option<AnySync>, Error>
    where
        A: 'static,
    {
        Ok(match self {
            Self::Cx(lock) => lock(cx),
            Self::Input(lock) => lock(cx, &take::<A>(taken)?),
        })
    }
}

/// The locks and limiters of a step of a request.
#[derive(Default)]
pub(super) struct Held {
    pub(super) locks: Vec<AnySync>,
    pub(super) limiters: Vec<AnySync>,
}

impl Held {
    /// The host of the request is notified of them.
    pub(super) fn noted(self, cx: &Context) -> Self {
        if let Some(host) = cx.host().filter(|_| !self.is_empty()) {
            host.request.locks();
        }
        self
    }

    /// The step holds them.
    pub(super) fn say<A, K>(&self, added: &mut Added<'_, A, K>) {
        for lock in &self.locks {
            added.locked(lock);
        }
        for limiter in &self.limiters {
            added.limited(limiter);
        }
    }

    fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.limiters.is_empty()
    }
}

/// A lock or limiter that a request returns for its step.
pub(super) fn lock_of_cx<S: Service, P: 'static, L: StepLock>(
    lock: impl Fn(&Cx<S, P>) -> L + Send + Sync + 'static,
) -> LockOfCx {
    Box::new(move |cx| lock(&Cx::of(cx.clone())).into_sync())
}

/// The same for what the step takes.
pub(super) fn lock_of_input<S: Service, P: 'static, A, L: StepLock>(
    lock: impl Fn(&Cx<S, P>, &A) -> L + Send + Sync + 'static,
) -> LockOf<A> {
    LockOf::Input(Box::new(move |cx, input| lock(&Cx::of(cx.clone()), input).into_sync()))
}
