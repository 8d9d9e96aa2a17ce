//! Calls with policies: the way from steps to a fabric.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::random;
use asyncsteps_core::Error;
use asyncsteps_executor::{Invocation, Invoker, Invoking};
use futures_util::future::{Either, select};
use tokio::time::Instant;

use crate::call::{Call, Response};
use crate::call_error::{CallError, Outcome};
use crate::fabric::Fabric;
use crate::placement::Placement;
use crate::policy::CallPolicy;

/// Calls functions over a fabric, each by its [`CallPolicy`]. An executor takes it as its
/// [invoker](asyncsteps_executor::Builder::invoker), and steps call as usual.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use asyncsteps_executor::Executor;
/// use asyncsteps_fabric::{CallPolicy, Client, LocalFabric};
///
/// let reading = CallPolicy::new().idempotent().attempts(3).attempt_timeout(Duration::from_millis(300));
/// let bank = Client::new(Arc::new(LocalFabric::new())).policy("demo.bank:1.0:balance", reading);
/// let shop = Executor::builder().invoker(bank).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, derive_more::Debug)]
#[must_use = "an executor calls with it"]
pub struct Client {
    #[debug(skip)]
    fabric: Arc<dyn Fabric>,
    others: CallPolicy,
    policies: Arc<HashMap<Box<str>, CallPolicy>>,
    placements: Arc<HashMap<Box<str>, Placement>>,
}

impl Client {
    /// Calls over a fabric, by the policy that [`CallPolicy::new`] describes.
    pub fn new(fabric: Arc<dyn Fabric>) -> Self {
        Self {
            fabric,
            others: CallPolicy::new(),
            policies: Arc::default(),
            placements: Arc::default(),
        }
    }

    /// Sets the policy of a function, `iface:version:function`, for calls of exactly this version; a
    /// later one replaces it.
    pub fn policy(mut self, function: &str, policy: CallPolicy) -> Self {
        Arc::make_mut(&mut self.policies).insert(function.into(), policy);
        self
    }

    /// Sets the policy of all other functions.
    pub fn others(self, others: CallPolicy) -> Self {
        Self { others, ..self }
    }

    /// Says where the calls of a function go, `iface:version:function`, of exactly this version; to any node
    /// unless set. A call of [one node](Call::on_node) goes there all the same.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use asyncsteps_fabric::{Client, LocalFabric, Placement};
    /// let client = Client::new(Arc::new(LocalFabric::new()))
    ///     .placement("demo.shop:1.0:stock", Placement::sticky("sku"));
    /// ```
    pub fn placement(mut self, function: &str, placement: Placement) -> Self {
        Arc::make_mut(&mut self.placements).insert(function.into(), placement);
        self
    }

    /// The fabric.
    #[must_use]
    pub fn fabric(&self) -> &Arc<dyn Fabric> {
        &self.fabric
    }

    /// Calls a function, by its policy.
    ///
    /// # Errors
    /// The error of the last attempt, see [`Fabric::call`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call, as [`Fabric::call`] says.
    pub async fn call(&self, call: Call) -> Result<Response, CallError> {
        let policy = self.policies.get(call.function().as_str()).unwrap_or(&self.others);
        let ends = call.time_limit.and_then(|limit| Instant::now().checked_add(limit));
        let attempts = CallAttempts { fabric: &*self.fabric, policy: *policy, ends };
        let placement = self.placements.get(call.function().as_str());
        // in a box: it moves through many futures
        let call = Box::new(call);
        match placement {
            Some(placement) if call.node.is_none() => attempts.make_placed(call, placement).await,
            _ => attempts.make(call).await,
        }
    }
}

/// The attempts at one call.
#[derive(Clone, Copy)]
struct CallAttempts<'a> {
    fabric: &'a dyn Fabric,
    policy: CallPolicy,
    /// When the time of the call ends, which all attempts share.
    ends: Option<Instant>,
}

impl CallAttempts<'_> {
    async fn make(self, call: Box<Call>) -> Result<Response, CallError> {
        let call = self.keyed(call);
        let mut before = None;
        for _ in 1..self.policy.attempts {
            match self.attempt(call.clone()).await {
                Err(error) if self.may_repeat(&error) => {
                    tracing::debug!(f = call.function().as_str(), %error, "a call is tried again");
                    before = Some(error.after(before));
                }
                result => return result.map_err(|error| error.after(before)),
            }
        }
        self.attempt(call).await.map_err(|error| error.after(before))
    }

    /// The same for a call that has its place. If that is one of its key, and the node is gone, the rest of
    /// the attempts go to any node.
    async fn make_placed(
        self,
        mut call: Box<Call>,
        placement: &Placement,
    ) -> Result<Response, CallError> {
        let Some(node) = placement.node(&call, || self.fabric.live_nodes()) else {
            return self.make(call).await;
        };
        let is_bound = matches!(placement, Placement::Node(_)) || self.policy.attempts < 2;
        call.node = Some(node);
        if is_bound {
            return self.make(call).await;
        }
        // a call that this node carries out itself was carried out: another attempt needs no copy
        // of it
        let mut call = match self.policy.is_idempotent {
            true => self.keyed(call),
            false => match self.fabric.call_here(self.limited(call)) {
                Ok(called) => return called.await,
                Err(call) => call,
            },
        };
        match self.attempt(call.clone()).await {
            Err(error) if self.may_repeat(&error) => {
                let attempts = self.policy.attempts - 1;
                let others = Self { policy: self.policy.attempts(attempts), ..self };
                call.node = None;
                others.make(call).await.map_err(|last| last.after(Some(error)))
            }
            result => result,
        }
    }

    /// One attempt, and another one in parallel if the first takes long.
    async fn attempt(self, call: Box<Call>) -> Result<Response, CallError> {
        let Some(pause) = self.policy.hedge_after else { return self.once(call).await };
        let first = Box::pin(self.once(call.clone()));
        let first = match select(first, Box::pin(tokio::time::sleep(pause))).await {
            Either::Left((result, _)) => return result,
            Either::Right(((), first)) => first,
        };
        // an attempt that fails does not end the other one
        match select(first, Box::pin(self.once(call))).await {
            Either::Left((Ok(response), _)) | Either::Right((Ok(response), _)) => Ok(response),
            Either::Left((Err(error), other)) | Either::Right((Err(error), other)) => {
                other.await.map_err(|last| last.after(Some(error)))
            }
        }
    }

    async fn once(self, call: Box<Call>) -> Result<Response, CallError> {
        self.fabric.call(self.limited(call)).await
    }

    /// The same call with the time limit of an attempt.
    fn limited(self, mut call: Box<Call>) -> Call {
        call.time_limit =
            [self.time_left(), self.policy.attempt_timeout].into_iter().flatten().min();
        *call
    }

    fn time_left(self) -> Option<Duration> {
        self.ends.map(|ends| ends.saturating_duration_since(Instant::now()))
    }

    fn may_repeat(self, error: &CallError) -> bool {
        let is_late = self.time_left().is_some_and(|left| left.is_zero());
        !is_late && self.is_repeatable(error)
    }

    fn is_repeatable(self, error: &CallError) -> bool {
        match error.outcome() {
            // a call that could not be made at all is not made better by another attempt
            Outcome::NotCarriedOut => error.code() == asyncsteps_core::codes::CONNECT_ERROR,
            Outcome::Unknown => self.policy.is_idempotent,
            Outcome::Answered => false,
        }
    }

    /// The same call with a key that all attempts have, if there may be several that are carried out.
    fn keyed(self, mut call: Box<Call>) -> Box<Call> {
        if call.key.is_none() && self.policy.is_idempotent {
            call.key = Some(random::id().into());
        }
        call
    }
}

impl Invoker for Client {
    fn invoke(&self, call: Invocation) -> Invoking {
        let this = self.clone();
        let function = call.function.clone();
        Box::pin(async move {
            let called = this.call(call.into()).await;
            called
                .map(|response| response.result)
                .map_err(|error| -> Error { error.into_flow_error(function) })
        })
    }
}
