//! The time of an arbiter: tokio's clock, so that a paused runtime has virtual time.
//!
//! No other file of these crates reads a clock.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use asyncsteps_core::Time;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

thread_local! {
    /// The epoch of this arbiter; flows do not leave it, so neither do their times.
    static EPOCH: Cell<Option<Instant>> = const { Cell::new(None) };

    /// The time of day that a simulation has set on this thread, and when.
    static SIMULATED: Cell<Option<(Instant, SystemTime)>> = const { Cell::new(None) };
}

/// The epoch of this arbiter: its first look at the clock.
fn epoch(now: Instant) -> Instant {
    EPOCH.get().unwrap_or_else(|| {
        EPOCH.set(Some(now));
        now
    })
}

/// The current time of this arbiter.
#[must_use]
pub fn now() -> Time {
    let now = Instant::now();
    Time::from_epoch(now.saturating_duration_since(epoch(now)))
}

/// The clock of this arbiter as it is: cheaper than [`now`], for times that are only compared with others
/// of this kind.
#[inline]
pub(crate) fn read() -> Instant {
    Instant::now()
}

/// A time of this arbiter for tokio's timers; later times than thirty years from now become thirty
/// years from now.
#[must_use]
pub fn instant(at: Time) -> Instant {
    let epoch = epoch(Instant::now());
    epoch.checked_add(at.since_epoch()).unwrap_or_else(|| epoch + FAR_FUTURE)
}

/// Converts `at`, taken on any thread, to the time of this arbiter.
#[must_use]
pub fn time(at: Instant) -> Time {
    let epoch = epoch(Instant::now());
    Time::from_epoch(at.saturating_duration_since(epoch))
}

/// The time of day of the machine, unless a simulation [has set it](simulate_wall).
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this file reads the clocks")]
pub fn wall() -> SystemTime {
    match SIMULATED.get() {
        Some((at, time)) => time + at.elapsed(),
        None => SystemTime::now(),
    }
}

/// The time since an epoch of the machine, by a clock that cannot be set: for leases that others count as well. It goes
/// on while the machine sleeps, where the system has such a clock. In a simulation it is the clock of the arbiter.
#[must_use]
pub fn boottime() -> Duration {
    match SIMULATED.get() {
        Some(_) => now().since_epoch(),
        None => clock_gettime(BOOTTIME).try_into().unwrap_or_default(),
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOTTIME: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOTTIME: ClockId = ClockId::Monotonic;

/// Whether the time of this thread is virtual, because its runtime is paused or simulated: no other thread has the same.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this file reads the clocks")]
pub fn is_virtual() -> bool {
    let (ours, machine) = (Instant::now(), std::time::Instant::now());
    while machine.elapsed().is_zero() {
        std::hint::spin_loop();
    }
    SIMULATED.get().is_some() || ours.elapsed().is_zero()
}

/// Sets the time of day of this thread, which goes on by tokio's clock: for a simulation of several machines.
pub fn simulate_wall(time: SystemTime) {
    SIMULATED.set(Some((Instant::now(), time)));
}

/// Thirty years: as good as never, and still a time that every platform can represent.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 86_400);

/// A clock that several arbiters share: its times mean the same on all of them.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that begins now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The clock of this arbiter, for other threads.
    #[cfg(feature = "ffi")]
    #[must_use]
    pub fn of_arbiter() -> Self {
        Self(epoch(Instant::now()))
    }

    /// Converts a time of this arbiter, such as the time of a flow's turn, without reading the
    /// clock again.
    #[must_use]
    pub fn at(self, time: Time) -> Time {
        match EPOCH.get() {
            Some(epoch) if epoch >= self.0 => time + (epoch - self.0),
            Some(epoch) => Time::from_epoch(time.saturating_since(Time::ZERO + (self.0 - epoch))),
            None => self.now(),
        }
    }

    /// The time since the clock began, as the time of flows.
    #[must_use]
    pub fn now(self) -> Time {
        Time::from_epoch(self.elapsed())
    }

    /// The time since the clock began, as a duration.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Instant::now().saturating_duration_since(self.0)
    }
}
