//! The clock of leases: it goes on while the machine sleeps, and is not set by anyone.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_BOOTTIME`; elsewhere the monotonic clock, which on some systems stops in a suspend.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The time since an epoch of this machine.
pub(crate) fn now() -> Duration {
    clock_gettime(CLOCK).try_into().unwrap_or_default()
}
