//! Assigning limiters to clients while the executor runs (FTN6 §1.5).

use std::time::Duration;

use asyncsteps_futoin::net::Cidr;

use super::client_limits::ClientLimiters;
use super::dynamic_limits::AssignError;
use super::handle::Executor;

impl Executor {
    /// Assigns the limiter of this name to the clients in a range of addresses for `time`. Meanwhile it
    /// takes precedence over the ranges of the configuration, and the narrowest of several ranges
    /// applies; after `time` the configuration applies again. A second call for the same range replaces
    /// the first; a time of zero ends it.
    ///
    /// FTN6 §1.5 suggests it for a client whose first request succeeded, for 60 to 3,600 seconds:
    ///
    /// ```
    /// # use asyncsteps_core::{AsyncSteps, StepResult};
    /// # use asyncsteps_executor::RequestSteps;
    /// # use asyncsteps_executor::net::Cidr;
    /// use std::time::Duration;
    ///
    /// fn logged_in(asi: &mut AsyncSteps, (): ()) -> StepResult {
    ///     let request = asi.request()?;
    ///     if let Some(peer) = request.channel().peer() {
    ///         let client = Cidr::around(peer.ip(), 128);
    ///         request.executor().limit_addresses(client, "customer", Duration::from_secs(600))?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`AssignError`] if there is no such limiter, or too many are assigned.
    pub fn limit_addresses(
        &self,
        range: Cidr,
        limiter: &str,
        time: Duration,
    ) -> Result<(), AssignError> {
        let (limits, limiter) = self.limiter(limiter)?;
        limits.dynamic().to_range(range, limiter, time)
    }

    /// The same for a user, by the local id: with their next request, in place of the limiter that
    /// [`ClientLimits::users`](super::ClientLimits::users) assigns to all users, if any.
    ///
    /// # Errors
    /// [`AssignError`] if there is no such limiter, or too many are assigned.
    pub fn limit_user(&self, user: &str, limiter: &str, time: Duration) -> Result<(), AssignError> {
        let (limits, limiter) = self.limiter(limiter)?;
        limits.dynamic().to_user(user, limiter, time)
    }

    fn limiter(&self, name: &str) -> Result<(&ClientLimiters, usize), AssignError> {
        let limits = self.shared.config.client_limits.as_deref();
        limits
            .and_then(|limits| Some((limits, limits.named(name)?)))
            .ok_or_else(|| AssignError::NoSuchLimiter { name: name.to_owned() })
    }
}
