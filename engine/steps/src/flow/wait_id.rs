//! Waits by name: for hosts that complete a step by a message instead of by a [`Completion`].
//!
//! [`Completion`]: crate::Completion

use std::fmt;

use super::{Execution, FlowId};
use crate::args::SendArguments;
use crate::completion::{Mail, Stale, WaitKey};
use crate::error::Error;

/// Names one wait of one flow: a step that waits for a completion from outside (FTN12 §1.3).
///
/// It is given by [`Execution::waits`] and never used again after the wait is over. It completes
/// nothing by itself, and a step does not fail when its name is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitId {
    flow: FlowId,
    key: WaitKey,
}

/// What completes a wait that is known by name: the result of its step, or the error that it fails
/// with.
pub struct WaitResult(Mail);

impl WaitId {
    pub(super) fn new(flow: FlowId, key: WaitKey) -> Self {
        Self { flow, key }
    }

    /// The flow that waits.
    #[must_use]
    pub fn flow(self) -> FlowId {
        self.flow
    }
}

impl WaitResult {
    /// Completes the step with a result, as `success` inside of it would.
    #[must_use]
    pub fn success(result: impl SendArguments) -> Self {
        Self(Mail::Success(result.into_send_args()))
    }

    /// Fails the step, as `error` inside of it would.
    #[must_use]
    pub fn error(error: Error) -> Self {
        Self(Mail::Error(error))
    }
}

impl fmt::Debug for WaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Mail::Error(_) => "WaitResult::error",
            Mail::Success(_) | Mail::Abandoned | Mail::Poll => "WaitResult::success",
        })
    }
}

impl Execution {
    /// The number of the flow (FTN12 §1.11.4), given to it when it is first asked for.
    pub fn id(&mut self) -> FlowId {
        self.asi.flow_id()
    }

    /// Completes a wait by its name: the flow takes the result in its next turn, as that of a
    /// [`Completion`](crate::Completion).
    ///
    /// # Errors
    /// [`Stale`] if the wait is over, was completed before, or is one of another flow, or if the flow
    /// is being cancelled; then nothing happens.
    pub fn complete(&mut self, wait: WaitId, result: WaitResult) -> Result<(), Stale> {
        if self.asi.done || self.asi.id != Some(wait.flow) {
            return Err(Stale);
        }
        self.asi.inbox().post(wait.key, result.0)
    }
}
