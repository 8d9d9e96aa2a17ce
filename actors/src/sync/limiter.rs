//! Limits on how many are inside at once and on how many enter per period (FTN12 §1.11.7, §2.5).

use std::sync::Arc;

use actix::ArbiterHandle;
use asyncsteps::sync::limiter::Options;
use asyncsteps::sync::{ISync, Section};
use asyncsteps::{AsyncSteps, StepResult};

use super::{Mutex, Throttle};

/// A limiter for flows on all arbiters: a [`Mutex`] around a [`Throttle`], which is waited for
/// inside of the mutex. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Limiter {
    mutex: Mutex,
    throttle: Throttle,
}

impl Limiter {
    /// Starts the actors of a limiter on this arbiter.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    #[must_use]
    pub fn start(options: Options) -> Self {
        let mutex = Mutex::start(options.mutex());
        Self { mutex, throttle: Throttle::start(options.throttle()) }
    }

    /// Starts the actors of a limiter on another arbiter.
    #[must_use]
    pub fn start_on(arbiter: &ArbiterHandle, options: Options) -> Self {
        let mutex = Mutex::start_on(arbiter, options.mutex());
        Self { mutex, throttle: Throttle::start_on(arbiter, options.throttle()) }
    }

    /// The limiter of a key, such as a client: each key has limits of its own.
    #[must_use]
    pub fn key(&self, key: impl Into<Arc<str>>) -> Self {
        let key = key.into();
        Self { mutex: self.mutex.key(Arc::clone(&key)), throttle: self.throttle.key(key) }
    }
}

impl ISync for Limiter {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let throttle = self.throttle.clone();
        let inner = section.within(asi, move |asi, section| throttle.sync(asi, section));
        self.mutex.sync(asi, inner)
    }
}
