//! Serving, until it ends.

use std::time::Duration;

use asyncsteps_actors::drain::Drained;
use futures_util::future::BoxFuture;

/// How long cancelled calls may take to end: they run their cancel handlers.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// How long calls may take that came to a node before it failed to serve: longer than callers wait.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// An executor serves as long as this is there.
///
/// Dropping it ends that at once: the calls in flight are cancelled. [`drain`](Self::drain) lets them
/// finish.
#[derive(derive_more::Debug)]
#[debug("ServeGuard")]
#[must_use = "dropping it ends the serving"]
pub struct ServeGuard(Box<dyn Serving>);

/// The end of serving, by a driver; dropping it ends serving at once.
pub trait Serving: Send {
    /// See [`ServeGuard::drain`].
    fn drain(self: Box<Self>, grace: Duration) -> BoxFuture<'static, Drained>;
}

impl ServeGuard {
    /// A guard; for drivers.
    pub fn new(serving: impl Serving + 'static) -> Self {
        Self(Box::new(serving))
    }

    /// Takes no more calls, waits at most `grace` for the calls in flight, and cancels the rest. Every call that was
    /// taken is answered. Returns how the calls in flight ended. A rolling restart loses nothing: calls go to other
    /// nodes, then the [executor is closed](asyncsteps_executor::Executor::close).
    ///
    /// # Cancel safety
    /// Dropping the future cancels the calls in flight.
    pub async fn drain(self, grace: Duration) -> Drained {
        self.0.drain(grace).await
    }

    /// Ends serving that has failed to begin. Calls that have come already are carried out: an answer that says that they
    /// were cancelled would look like one of the function.
    pub(crate) fn give_up(self) {
        tokio::spawn(self.drain(GIVEN_UP));
    }
}
