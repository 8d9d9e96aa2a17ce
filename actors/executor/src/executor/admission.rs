//! The resources that a request holds while it is carried out, and waiting for them.

use std::sync::atomic::{AtomicBool, Ordering};

use asyncsteps_actors::budget::{PendingPermit, Permit};
use asyncsteps_actors::drain::DrainGuard;
use asyncsteps_actors::timer;
use asyncsteps_core::Time;
use tokio::sync::Notify;

use super::client_limits::ClientPermit;
use super::refused::Refused;

/// The resources that a request holds until it has ended; dropping them lets the next one in.
pub(super) struct Admission {
    /// Counts it in, for the shutdown.
    pub(super) entered: DrainGuard,
    /// Its share of the budget.
    pub(super) _permit: Permit,
    /// Its share of the limits of its client.
    pub(super) _client: ClientPermit,
}

/// The end of the grace of a shutdown: requests that still wait to be admitted are refused.
#[derive(Debug, Default)]
pub(super) struct GraceEnd {
    reached: AtomicBool,
    notify: Notify,
}

impl GraceEnd {
    /// The grace period has ended.
    pub(super) fn reach(&self) {
        self.reached.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    pub(super) fn is_reached(&self) -> bool {
        self.reached.load(Ordering::SeqCst)
    }

    async fn reached(&self) {
        let notified = self.notify.notified();
        if !self.is_reached() {
            notified.await;
        }
    }
}

/// Waits for a permit, no longer than the request has time and no longer than a shutdown lets it.
pub(super) async fn permit(
    pending: PendingPermit,
    deadline: Time,
    grace_end: &GraceEnd,
) -> Result<Permit, Refused> {
    match pending.decided() {
        Ok(decided) => decided.map_err(Refused::over_budget),
        // in a box, because most requests need no queue and no room for it in their future
        Err(pending) => Box::pin(queued(pending, deadline, grace_end)).await,
    }
}

/// The same for a permit that there is a queue for.
pub(super) async fn queued(
    pending: PendingPermit,
    deadline: Time,
    grace_end: &GraceEnd,
) -> Result<Permit, Refused> {
    tokio::select! {
        biased;
        () = timer::sleep_until(deadline) => {
            Err(Refused::too_late())
        }
        permit = pending => permit.map_err(Refused::over_budget),
        () = grace_end.reached() => Err(Refused::closing()),
    }
}
