//! The throttle (FTN12 §1.11.2, §2.4): entries per period, shared by all arbiters.
//!
//! A key exists while there is a handle to it or its period is open: so any number of keys over time
//! takes no memory.

mod actor;
mod entering;
mod schedule;
mod state;

use std::sync::Arc;

use actix::{Actor, Addr, Arbiter, ArbiterHandle};
pub use asyncsteps_core::sync::throttle::Options;
use asyncsteps_core::sync::{ISync, Section};
use asyncsteps_core::{AsyncSteps, Error, StepResult};

use super::{KeyOwners, KeyReport, Load, LockReport};

use entering::QueueEntry;
use state::{Pace, ThrottleFamily, ThrottleKeyState};

pub use entering::Entering;
pub use state::ThrottleActor;

/// A throttle for flows on all arbiters, and for other code. Cheap to clone.
///
/// Use it with `asi.sync(&throttle, ...)`. It takes up to `max` entries per period, first come, first
/// served. On arbiters its actor ends the periods: when that is gone with its arbiter, every entry fails
/// with `InternalError`.
///
/// | to | directly, from any thread | by message |
/// |---|---|---|
/// | enter in a flow | `asi.sync(&throttle, ...)` | |
/// | enter elsewhere | [`enter`](Self::enter), [`try_enter`](Self::try_enter) | [`Enter`](super::Enter) |
/// | see | [`load`](Self::load), [`key_report`](Self::key_report), [`owners`](Self::owners), [`inspect`](Self::inspect) | [`Inspect`](super::Inspect) |
///
/// ```
/// # use asyncsteps_core::Flow;
/// # use asyncsteps_actors::{flow::start_flow, sync::Throttle};
/// # actix::System::new().block_on(async {
/// let mails = Throttle::start(Default::default());
/// let mut flow = Flow::new();
/// flow.sync(&mails.key("ann"), |asi, ()| asi.success("the first one in this second"));
/// assert!(start_flow::<String>(flow).await.is_ok());
/// # });
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Throttle {{ key: {:?}, queued: {:?} }}",
    self.0.key, self.0.entries.lock().queue.queued()
)]
pub struct Throttle(Arc<ThrottleKeyState>);

impl Throttle {
    /// A throttle without a name. Its actor starts on the arbiter where it is first used.
    ///
    /// On other event loops it has no actor: the flows that wait end the periods, in the time of
    /// their host. So it works in a [`Sim`](asyncsteps_core::sim::Sim) and on a
    /// [`Manual`](asyncsteps_core::tool::Manual) loop too; all its flows are on one of them then.
    ///
    /// # Panics
    /// If `max` is 0 or `period` is zero, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn new(options: Options) -> Self {
        Self::named("", options)
    }

    /// The same with a name, for reports and logs.
    ///
    /// # Panics
    /// If `max` is 0 or `period` is zero, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn named(name: &'static str, options: Options) -> Self {
        Self(ThrottleFamily::start(name, options))
    }

    /// Starts a throttle with its actor on this arbiter.
    ///
    /// # Panics
    /// Outside of an actix arbiter; there, use [`start_on`](Self::start_on). If `max` is 0 or
    /// `period` is zero, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn start(options: Options) -> Self {
        let here = Arbiter::try_current();
        assert!(here.is_some(), "a throttle starts on an actix arbiter; elsewhere use `start_on`");
        Self::with("", options, Actor::start)
    }

    /// Starts a throttle with its actor on another arbiter.
    ///
    /// # Panics
    /// If `max` is 0 or `period` is zero, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn start_on(arbiter: &ArbiterHandle, options: Options) -> Self {
        Self::named_on("", arbiter, options)
    }

    /// The same with a name, for reports and logs.
    #[track_caller]
    pub(super) fn named_on(name: &'static str, arbiter: &ArbiterHandle, options: Options) -> Self {
        Self::with(name, options, |actor| ThrottleActor::start_in_arbiter(arbiter, |_| actor))
    }

    #[track_caller]
    fn with(
        name: &'static str,
        options: Options,
        start: impl FnOnce(ThrottleActor) -> Addr<ThrottleActor>,
    ) -> Self {
        let throttle = Self::named(name, options);
        throttle.0.family.actor(start);
        throttle
    }

    /// The throttle of a key: each key has periods of its own, under the same limits. The empty
    /// key is the throttle that was made first.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        Self(ThrottleFamily::key(&self.0.family, key.as_ref()))
    }

    /// Enters outside of flows, by the same queue; ready when the entry is counted.
    ///
    /// # Errors
    /// `DefenseRejected` if the queue is full, `InternalError` if the actor is gone, or there is none and
    /// no step polls the future.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub fn enter(&self) -> Entering {
        Entering::new(&self.0)
    }

    /// Enters if that needs no waiting; says whether it did.
    ///
    /// # Errors
    /// `InternalError` if the actor is gone, or there is none and no flow whose time counts.
    pub fn try_enter(&self) -> Result<bool, Error> {
        self.0.enter(self.0.family.time()?)
    }

    /// The address of the actor of this throttle and all of its keys, for code that sends messages. It
    /// does not keep the throttle alive: without a handle to it [`Enter`](super::Enter) fails with
    /// `InternalError`.
    ///
    /// # Panics
    /// Outside of an actix arbiter, if the throttle was not used on one before.
    #[must_use]
    pub fn address(&self) -> Addr<ThrottleActor> {
        self.0.family.actor(Actor::start).clone()
    }

    /// How many keys have entries in the current period, and how many wait, over all keys.
    #[must_use]
    pub fn load(&self) -> Load {
        self.inspect().load()
    }

    /// How busy this key is, apart from the others of its object; for metrics.
    #[must_use]
    pub fn key_report(&self) -> KeyReport {
        self.0.report()
    }

    /// Who waits for this key, at most `most` of them; for consoles.
    #[must_use]
    pub fn owners(&self, most: usize) -> KeyOwners {
        self.0.owners(most)
    }

    /// The keys that have entries in the current period.
    #[must_use]
    pub fn inspect(&self) -> LockReport {
        self.0.family.report()
    }
}

impl ISync for Throttle {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let pace = self.0.family.time_of(asi);
        if self.0.enter(pace)? {
            return section.enter(asi);
        }
        let queued = asi.stack(QueueEntry::new(&self.0));
        let name = self.0.family.wait_name();
        match pace {
            Pace::Actor(_) => {
                asi.add_inner(move |asi, ()| entering::wait(asi, queued)).named(name);
            }
            Pace::Waiters(_) => {
                asi.make_loop(move |asi| entering::look(asi, queued)).named(name);
            }
        }
        section.add(asi);
        Ok(())
    }
}
