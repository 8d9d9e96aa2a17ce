//! Graceful close: stop accepting, finish, cancel the rest, say how many (FTN6 §2.2 `close`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{CancelAll, Executor, ExecutorHandle};

/// What [`ExecutorHandle::close`] did with the requests that were in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Ended by themselves.
    pub finished: usize,
    /// Cancelled: at the deadline, by their own timeout, or by a client that went away.
    pub cancelled: usize,
}

impl ExecutorHandle {
    /// Refuses new requests with DefenseRejected, waits until those in flight are answered, at most
    /// `grace`, then cancels the rest: their cancel handlers run and they are answered with
    /// InternalError.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the executor closed for new requests.
    pub async fn close(&self, grace: Duration) -> Closed {
        let shared = &self.shared;
        shared.closing.store(true, Ordering::SeqCst);
        if tokio::time::timeout(grace, self.idle()).await.is_err() {
            let actors: Vec<actix::Addr<Executor>> = shared.actors().clone();
            for actor in actors {
                // an actor whose arbiter ended has no flows
                let _ = actor.send(CancelAll).await;
            }
            // cancelling takes one turn of each arbiter; one that is stuck is not waited for
            let _ = tokio::time::timeout(CANCEL_GRACE, self.idle()).await;
        }
        Closed {
            finished: shared.finished.load(Ordering::Acquire),
            cancelled: shared.cancelled.load(Ordering::Acquire),
        }
    }

    /// Waits until no request is in flight.
    async fn idle(&self) {
        loop {
            let idle = self.shared.idle.notified();
            if self.in_flight() == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// How long cancelled flows may take to end; they only run their cancel handlers.
const CANCEL_GRACE: Duration = Duration::from_secs(1);
