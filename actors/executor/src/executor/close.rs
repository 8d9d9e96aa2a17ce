//! Graceful close: stop accepting, finish, cancel the rest, count both (FTN6 §2.2 `close`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::handle::Executor;

/// How the requests in flight ended when an executor was [closed](Executor::close).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Ended by themselves.
    pub finished: usize,
    /// Cancelled: at the end of the grace, by their own timeout, or by a client that went away.
    pub cancelled: usize,
    /// Requests that had not ended when the time for undos had: their effects may not be undone, and
    /// the log says where they were. Flows that requests launched are among them.
    pub not_undone: usize,
}

/// How long cancelled flows may take to end: they run their cancel handlers and undos.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

impl Executor {
    /// Waits until the executor [closes](Self::close) (FTN6 §2.2, event `close`): for connections and
    /// other servers of the process, which have to end then too. Ready at once if it does.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn closing(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        async move { shared.drain.closing().await }
    }

    /// Announces that the executor is about to [close](Self::close): from now on it is not
    /// [ready](Self::readiness), for the reason [`Closing`](crate::health::NotReady::Closing), and still
    /// takes requests. A balancer that asks for the readiness has time to send them elsewhere before
    /// they would be refused.
    pub fn announce_close(&self) {
        self.shared.is_close_announced.store(true, Ordering::Relaxed);
    }

    /// Whether the executor closes, or [will](Self::announce_close).
    #[must_use]
    pub fn is_close_announced(&self) -> bool {
        self.shared.is_close_announced.load(Ordering::Relaxed) || self.is_closing()
    }

    /// Whether the executor takes no more requests.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.shared.drain.is_closing()
    }

    /// Refuses new requests with DefenseRejected, waits at most `grace` until the requests in
    /// flight have ended, then cancels the rest: their cancel handlers run, and their callers get
    /// InternalError. Each request that is cancelled is logged with the stack of its flow.
    ///
    /// A request has ended when what it has done is undone, if that is necessary. Nothing cancels
    /// an undo but the end of its arbiter; after the grace this waits one second for the undos of
    /// cancelled requests. Undos that take longer are reported as
    /// [`not_undone`](Closed::not_undone).
    ///
    /// # Cancel safety
    /// Dropping the future leaves the executor closed for new requests.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn close(&self, grace: Duration) -> Closed {
        let drain = &self.shared.drain;
        if drain.close()
            && let Some(hooks) = &self.shared.config.hooks
        {
            hooks.close();
        }
        if tokio::time::timeout(grace, drain.idle()).await.is_err() {
            self.shared.grace_end.reach();
            for request in self.in_flight().await {
                tracing::warn!(
                    f = request.function.as_str(),
                    user = request.user.as_deref(),
                    age = ?request.age,
                    state = ?request.state,
                    stack = request.stack.one_line(),
                    "request cancelled at the end of the grace",
                );
            }
            self.cancel_requests().await;
            // an arbiter that is stuck is not waited for
            let _ = tokio::time::timeout(CANCEL_GRACE, drain.idle()).await;
        }
        self.closed()
    }

    /// How requests have ended since the executor began to close; requests that have not ended
    /// count as not undone.
    #[must_use]
    pub fn closed(&self) -> Closed {
        let drain = &self.shared.drain;
        let ended = drain.ended();
        let (finished, cancelled) = (ended.finished, ended.cancelled);
        Closed { finished, cancelled, not_undone: drain.count() }
    }
}
