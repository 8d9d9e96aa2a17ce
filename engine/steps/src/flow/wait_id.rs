//! Waits by name: for hosts that complete a step by a message instead of by a [`Completion`].
//!
//! [`Completion`]: crate::Completion

use std::fmt;

use super::identity::FlowId;
use crate::args::SendArguments;
use crate::error::Error;
use crate::inbox::{Message, WaitKey};

/// Names one wait of one flow: a step that waits for a completion from outside (FTN12 §1.3).
///
/// It is given by [`Execution::waits`](super::Execution::waits) and never used again after the wait is over. It completes
/// nothing by itself, and a step does not fail when its name is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitId {
    flow: FlowId,
    pub(crate) key: WaitKey,
}

/// What completes a wait that is known by name (FTN12 §1.3): the result of its step, or the error
/// that it fails with.
pub struct WaitResult(pub(crate) Message);

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
        Self(Message::Success(result.into_send_args()))
    }

    /// Fails the step, as `error` inside of it would (FTN12 §2.2.1).
    #[must_use]
    pub fn error(error: Error) -> Self {
        Self(Message::Error(error))
    }
}

impl fmt::Debug for WaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Message::Error(_) => "WaitResult::error",
            Message::Success(_) | Message::Abandoned | Message::Poll => "WaitResult::success",
        })
    }
}
