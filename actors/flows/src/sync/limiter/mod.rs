//! Limits on how many are inside at once and on how many enter per period (FTN12 §1.11.7, §2.5).

mod actor;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use actix::{Addr, ArbiterHandle};
pub use asyncsteps_core::sync::limiter::Options;
use asyncsteps_core::sync::{ISync, Section};
use asyncsteps_core::{AsyncSteps, Error, StepResult};

use super::on_demand::OnDemand;
use super::{
    KeyOwners, KeyReport, Limits, Load, LockGuard, LockReport, LockTicket, Mutex, Throttle,
    UnlockError,
};

/// A limiter for flows on all arbiters, and for other code: a [`Mutex`] around a [`Throttle`], which
/// is waited for inside of the mutex. Cheap to clone.
///
/// | to | directly, from any thread | by message |
/// |---|---|---|
/// | enter in a flow | `asi.sync(&limiter, ...)` | |
/// | enter elsewhere | [`lock`](Self::lock) | [`Lock`](super::Lock) |
/// | leave | drop the guard or the ticket, [`unlock`](Self::unlock) | [`Unlock`](super::Unlock) |
/// | see | [`load`](Self::load), [`key_report`](Self::key_report), [`owners`](Self::owners), [`inspect`](Self::inspect) | [`Inspect`](super::Inspect) |
#[derive(Clone, derive_more::Debug)]
#[debug("Limiter {{ mutex: {:?}, throttle: {:?} }}", self.0.mutex, self.0.throttle)]
pub struct Limiter(Arc<LimiterParts>);

struct LimiterParts {
    options: Options,
    mutex: Mutex,
    throttle: Throttle,
    /// The same for all keys.
    actor: Arc<OnDemand<LimiterActor>>,
}

/// The actor of a [`Limiter`]: it takes [`Lock`](super::Lock), [`Unlock`](super::Unlock) and
/// [`Inspect`](super::Inspect). It has no state of its own: it calls the accounting that all handles share.
///
/// Its address is [`Limiter::address`].
#[derive(Debug)]
pub struct LimiterActor(Limiter);

impl Limiter {
    /// A limiter without a name. The actor of its throttle starts on the arbiter where it is first
    /// used; on other event loops, as in a simulation, it has none, see [`Throttle::new`].
    ///
    /// The defaults of FTN12 §2.5 let one owner in per second, and refuse all others: set `rate` and
    /// the queues as well as `concurrent`.
    ///
    /// # Panics
    /// If a limit is 0 that must not be, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn new(options: Options) -> Self {
        Self::named("", options)
    }

    /// The same with a name, for reports and logs.
    ///
    /// # Panics
    /// If a limit is 0 that must not be, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn named(name: &'static str, options: Options) -> Self {
        Self::of(name, options, Throttle::named(name, options.throttle()))
    }

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
        let mutex = Mutex::named(name, options.mutex());
        Self(Arc::new(LimiterParts { options, mutex, throttle, actor: Arc::default() }))
    }

    /// The limiter of a key, such as a client: each key has limits of its own.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        let key = key.as_ref();
        let LimiterParts { options, mutex, throttle, actor } = &*self.0;
        let (mutex, throttle) = (mutex.key(key), throttle.key(key));
        Self(Arc::new(LimiterParts {
            options: *options,
            mutex,
            throttle,
            actor: Arc::clone(actor),
        }))
    }

    /// Enters outside of flows; the holder of the guard is inside.
    ///
    /// # Errors
    /// `DefenseRejected` if a queue is full, `InternalError` if the actor is gone.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queues; an entry that was counted stays counted.
    pub async fn lock(&self) -> Result<LockGuard, Error> {
        let guard = self.0.mutex.lock().await?;
        self.0.throttle.enter().await?;
        Ok(guard)
    }

    /// Leaves by the ticket of a guard, as [`Unlock`](super::Unlock) does.
    ///
    /// # Errors
    /// [`UnlockError`] if the ticket belongs to another object, or was used before.
    pub fn unlock(&self, ticket: &LockTicket) -> Result<(), UnlockError> {
        self.0.mutex.unlock(ticket)
    }

    /// The address of the actor of this limiter and all of its keys, for code that sends messages.
    ///
    /// The actor is started on the current arbiter when this is first called, and runs until the
    /// last address is dropped. Locks that it granted do not depend on it.
    ///
    /// # Panics
    /// Outside of an actix arbiter, if the actor has to be started.
    #[must_use]
    pub fn address(&self) -> Addr<LimiterActor> {
        self.0.actor.address(|| LimiterActor(self.key("")))
    }

    /// How many are inside or wait for the next period, and how many wait for either, over all keys.
    #[must_use]
    pub fn load(&self) -> Load {
        self.inspect().load()
    }

    /// How busy this key is, apart from the others of its object; for metrics.
    #[must_use]
    pub fn key_report(&self) -> KeyReport {
        let (mutex, throttle) = (self.0.mutex.key_report(), self.0.throttle.key_report());
        KeyReport { queued: mutex.queued + throttle.queued, entered: throttle.entered, ..mutex }
    }

    /// Who is inside of this key or waits for its next period, and who waits for either, at most `most`
    /// of each; for consoles.
    #[must_use]
    pub fn owners(&self, most: usize) -> KeyOwners {
        let (mutex, throttle) = (self.0.mutex.owners(most), self.0.throttle.owners(most));
        let waiting = throttle.waiting.into_iter().chain(mutex.waiting).take(most);
        KeyOwners { inside: mutex.inside, waiting: waiting.collect() }
    }

    /// The keys that are held or waited for, or that have entries in the current period.
    #[must_use]
    pub fn inspect(&self) -> LockReport {
        let LimiterParts { options, mutex, throttle, .. } = &*self.0;
        let (mutex, throttle) = (mutex.inspect(), throttle.inspect());
        let mut keys: HashMap<Arc<str>, KeyReport> =
            mutex.keys.into_iter().map(|key| (Arc::clone(&key.key), key)).collect();
        for throttled in throttle.keys {
            match keys.entry(Arc::clone(&throttled.key)) {
                Entry::Occupied(key) => {
                    let key = key.into_mut();
                    key.queued += throttled.queued;
                    key.entered = throttled.entered;
                }
                Entry::Vacant(free) => drop(free.insert(throttled)),
            }
        }
        LockReport {
            name: mutex.name,
            limits: Some(Limits::Limiter(*options)),
            keys: keys.into_values().collect(),
            waits: mutex.waits.and(&throttle.waits),
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
