//! Waits by name: for hosts that complete a step by a message instead of a
//! [`Completion`](crate::Completion).

use std::fmt;

use super::identity::FlowId;
use crate::args::SendArguments;
use crate::error::Error;
use crate::inbox::{WaitKey, WaitMessage};

/// Names one wait of one flow: a step that waits for a completion from outside (FTN12 §1.3).
///
/// [`Execution::waits`](super::Execution::waits) returns it, and no later wait has the same name.
/// It completes nothing by itself, and dropping it does not fail the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitId {
    flow: FlowId,
    pub(crate) key: WaitKey,
}

/// The message that completes a wait of this kind (FTN12 §1.3): the result of the step, or its
/// error.
pub struct WaitResult(pub(crate) WaitMessage);

impl WaitId {
    pub(crate) fn new(flow: FlowId, key: WaitKey) -> Self {
        Self { flow, key }
    }

    /// The flow that waits.
    #[must_use]
    pub fn flow(self) -> FlowId {
        self.flow
    }
}

impl WaitResult {
    /// Completes the step with a result, as `success` inside of it would (FTN12 §2.2.1).
    #[must_use]
    pub fn success(result: impl SendArguments) -> Self {
        Self(WaitMessage::Success(result.into_send_args()))
    }

    /// Fails the step, as `error` inside of it would (FTN12 §2.2.1).
    #[must_use]
    pub fn error(error: Error) -> Self {
        Self(WaitMessage::Error(error))
    }
}

impl fmt::Debug for WaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            WaitMessage::Error(_) => "WaitResult::error",
            WaitMessage::Success(_)
            | WaitMessage::Abandoned
            | WaitMessage::Interrupt(_)
            | WaitMessage::Poll => "WaitResult::success",
        })
    }
}
