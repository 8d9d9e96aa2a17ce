//! Completing a step by message, from any thread.

use actix::Addr;
use asyncsteps_core::{AsyncSteps, Error, SendArguments, WaitId, WaitResult};

use super::{Complete, CompleteError, FlowActor};

/// Completes one wait of a flow by message, from any thread.
///
/// Other than a [`Completion`](asyncsteps_core::Completion) it is no promise: the step goes on to wait
/// when this is dropped. It is for what looks at a flow from outside, such as an operator who
/// approves a payment: the [`Stack`](super::Stack) names the waits.
///
/// ```
/// use asyncsteps_core::Flow;
/// use asyncsteps_actors::flow::{Completer, Inspect, WaitSteps, start_flow};
///
/// # actix::System::new().block_on(async {
/// let mut flow = Flow::new();
/// flow.add(|asi, ()| asi.wait_for_message()).named("approval");
/// flow.add(|asi, by: String| asi.success(format!("approved by {by}")));
/// let handle = start_flow::<String>(flow);
///
/// let address = handle.address();
/// let stack = address.send(Inspect).await.unwrap();
/// let wait = stack.waits[0].id.unwrap();
/// Completer::new(address, wait).success("Ann".to_owned()).await.unwrap();
/// assert_eq!(handle.await.unwrap(), "approved by Ann");
/// # });
/// ```
#[derive(Clone, derive_more::Debug)]
pub struct Completer {
    #[debug(skip)]
    flow: Addr<FlowActor>,
    wait: WaitId,
}

impl Completer {
    /// A completer for a wait of the flow with this address.
    #[must_use]
    pub fn new(flow: Addr<FlowActor>, wait: WaitId) -> Self {
        Self { flow, wait }
    }

    /// The wait that it completes.
    #[must_use]
    pub fn wait(&self) -> WaitId {
        self.wait
    }

    /// Completes the step with a result, as `success` inside of it would.
    ///
    /// # Errors
    /// [`CompleteError`], and nothing happened; with [`CompleteError::Gone`] the flow is cancelled
    /// with its arbiter.
    ///
    /// # Cancel safety
    /// When the future is dropped the message may still arrive, or be dropped unread.
    pub async fn success(&self, result: impl SendArguments) -> Result<(), CompleteError> {
        self.send(WaitResult::success(result)).await
    }

    /// Fails the step, as `error` inside of it would.
    ///
    /// # Errors
    /// The errors of [`success`](Self::success).
    ///
    /// # Cancel safety
    /// As [`success`](Self::success).
    pub async fn fail(&self, error: Error) -> Result<(), CompleteError> {
        self.send(WaitResult::error(error)).await
    }

    async fn send(&self, result: WaitResult) -> Result<(), CompleteError> {
        let sent = self.flow.send(Complete { wait: self.wait, result }).await;
        sent.unwrap_or(Err(CompleteError::Gone))
    }
}

/// Methods by which the steps of a hosted flow can be completed by message.
pub trait WaitSteps {
    /// Makes the step wait until a [`Completer`], a time limit or a cancel ends it.
    ///
    /// The step keeps its own handle, so that it waits although nothing else has one.
    fn wait_for_message(&mut self);
}

impl WaitSteps for AsyncSteps {
    fn wait_for_message(&mut self) {
        let handle = self.wait_external();
        self.stack(handle);
    }
}
