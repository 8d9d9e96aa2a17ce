//! Graceful close: stop accepting, finish, cancel the rest, say how many (FTN6 §2.2 `close`).

use std::sync::Arc;
use std::time::Duration;

use super::{CancelAll, Executor, ExecutorActor};

/// What [`Executor::close`] did with the requests that were in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Ended by themselves.
    pub finished: usize,
    /// Cancelled: at the deadline, by their own timeout, or by a client that went away.
    pub cancelled: usize,
}

impl Executor {
    /// Waits until the executor [closes](Self::close) (FTN6 §2.2, event `close`): for what must be
    /// told so, such as connections and other servers of the process. Ready at once if it does.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn closing(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        async move { shared.flights.closing().await }
    }

    /// Whether the executor takes no more requests.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.shared.flights.is_closing()
    }

    /// Refuses new requests with DefenseRejected, waits until those in flight are answered, at most
    /// `grace`, then cancels the rest: their cancel handlers run and they are answered with
    /// InternalError.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the executor closed for new requests.
    pub async fn close(&self, grace: Duration) -> Closed {
        let flights = &self.shared.flights;
        if flights.close()
            && let Some(hooks) = &self.shared.config.hooks
        {
            hooks.close();
        }
        if tokio::time::timeout(grace, flights.idle()).await.is_err() {
            flights.cancel();
            let actors: Vec<actix::Addr<ExecutorActor>> = self.shared.actors().clone();
            for actor in actors {
                // an actor whose arbiter ended has no flows
                let _ = actor.send(CancelAll).await;
            }
            // cancelling takes one turn of each arbiter; one that is stuck is not waited for
            let _ = tokio::time::timeout(CANCEL_GRACE, flights.idle()).await;
        }
        let ended = flights.ended();
        Closed { finished: ended.finished, cancelled: ended.cancelled }
    }
}

/// How long cancelled flows may take to end; they only run their cancel handlers.
const CANCEL_GRACE: Duration = Duration::from_secs(1);
