//! Waits for a change of what a flow or a node keeps, or the journal.

use std::future::pending;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::Time;
use tokio::sync::{Notify, watch};

/// Looks, and again after each change, until there is something.
pub(crate) async fn until<T>(changed: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        let changed = changed.notified();
        if let Some(found) = look() {
            return found;
        }
        changed.await;
    }
}

/// Completes at this time; never without one.
pub(crate) async fn end_at(end: Option<Time>) {
    match end {
        Some(end) => timer::sleep_until(end).await,
        None => pending().await,
    }
}

/// Completes when the journal may have something new, as [`changes`](asyncsteps_journal::Journal::changes) says or
/// because it was not looked at for so long, or when `other` does.
pub(crate) async fn next_change(
    changes: &mut watch::Receiver<u64>,
    other: impl Future<Output = ()>,
    look: Duration,
) {
    let poll = timer::sleep_until(clock::now() + look);
    tokio::pin!(poll);
    tokio::select! {
        biased;
        changed = changes.changed() => {
            if changed.is_err() {
                poll.as_mut().await;
            }
        }
        () = other => {}
        () = poll.as_mut() => {}
    }
}
