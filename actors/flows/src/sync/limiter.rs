//! Limits on how many are inside at once and on how many enter per period (FTN12 §1.11.7, §2.5).

use std::sync::Arc;

use actix::ArbiterHandle;
use asyncsteps::sync::limiter::Options;
use asyncsteps::sync::{ISync, Section};
use asyncsteps::{AsyncSteps, Error, StepResult};

use super::{Load, LockGuard, Mutex, Throttle};

/// A limiter for flows on all arbiters, and for other code: a [`Mutex`] around a [`Throttle`], which
/// is waited for inside of the mutex. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Limiter(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    mutex: Mutex,
    throttle: Throttle,
}

impl Limiter {
    /// Starts a limiter with the actor of its throttle on this arbiter.
    ///
    /// The defaults of FTN12 §2.5 let one owner in per second, and refuse all others: set `rate` and
    /// the queues as well as `concurrent`.
    ///
    /// # Panics
    /// Outside of an actix arbiter; there, use [`start_on`](Self::start_on). If a limit is 0 that
    /// must not be, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn start(options: Options) -> Self {
        Self::of("", options, Throttle::start(options.throttle()))
    }

    /// Starts a limiter with the actor of its throttle on another arbiter.
    ///
    /// # Panics
    /// If a limit is 0 that must not be, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn start_on(arbiter: &ArbiterHandle, options: Options) -> Self {
        Self::of("", options, Throttle::start_on(arbiter, options.throttle()))
    }

    #[track_caller]
    pub(super) fn of(name: &'static str, options: Options, throttle: Throttle) -> Self {
        Self(Arc::new(Parts { mutex: Mutex::named(name, options.mutex()), throttle }))
    }

    /// The limiter of a key, such as a client: each key has limits of its own.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        let key = key.as_ref();
        let Parts { mutex, throttle } = &*self.0;
        Self(Arc::new(Parts { mutex: mutex.key(key), throttle: throttle.key(key) }))
    }

    /// Enters outside of flows; who has the guard counts as inside.
    ///
    /// # Errors
    /// `DefenseRejected` if a queue is full, `InternalError` if the actor is gone.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the places in the queues; an entry that was counted stays
    /// counted.
    pub async fn lock(&self) -> Result<LockGuard, Error> {
        let guard = self.0.mutex.lock().await?;
        self.0.throttle.enter().await?;
        Ok(guard)
    }

    /// How many owners are inside or wait for the next period, and how many wait for either, over
    /// all keys.
    #[must_use]
    pub fn load(&self) -> Load {
        let (mutex, throttle) = (self.0.mutex.load(), self.0.throttle.load());
        Load {
            keys: mutex.keys.max(throttle.keys),
            holders: mutex.holders,
            queued: mutex.queued + throttle.queued,
        }
    }
}

impl ISync for Limiter {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        if self.0.mutex.enter(asi) {
            return self.0.throttle.sync(asi, section);
        }
        let throttle = self.0.throttle.clone();
        section.within(asi, move |asi, section| throttle.sync(asi, section)).add(asi);
        Ok(())
    }
}
