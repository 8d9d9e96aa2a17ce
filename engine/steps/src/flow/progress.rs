//! The progress that a host learns from a run of a flow (FTN12 §2.2.3, §2.6).

use crate::args::{Args, ArgsMismatch, Arguments};
use crate::error::{Error, codes};

/// How many steps a flow runs in one turn before it yields to others on its event loop
/// (FTN12 §2.6).
///
/// A turn of a hundred short steps takes a few microseconds: long enough that yielding costs
/// little, short enough that ten thousand busy flows all get a turn within a tenth of a second.
pub const BURST: u32 = 100;

/// Where a run left the flow (FTN12 §2.6).
#[expect(clippy::exhaustive_enums, reason = "a host must handle every kind of progress")]
#[derive(Debug)]
pub enum Progress {
    /// The flow has ended; running it again is a bug of the host and returns `Cancelled`.
    Done(Outcome),
    /// The flow waits: run it when the waker is woken or the deadline is reached.
    Waiting,
    /// The turn has ended and there is more to do: let others run, then run it again.
    Ready,
}

/// How a flow ended (FTN12 §2.2.3).
#[expect(clippy::exhaustive_enums, reason = "FTN12 knows no other end")]
#[derive(Debug)]
pub enum Outcome {
    /// The last step completed with this result.
    Success(Args),
    /// No handler recovered from this error.
    Error(Error),
    /// The flow was cancelled from outside.
    Cancelled,
}

impl Outcome {
    /// The typed result of a flow that succeeded.
    ///
    /// # Errors
    /// The error that ended the flow; `InternalError` if it was cancelled or its result has
    /// another type.
    pub fn into_result<A: Arguments>(self) -> Result<A, Error> {
        match self {
            Self::Success(args) => args.into_typed().map_err(|mismatch: ArgsMismatch| {
                let info = format!("the result of the flow has another type: {mismatch}");
                Error::with_info(codes::INTERNAL_ERROR, info)
            }),
            Self::Error(error) => Err(error),
            Self::Cancelled => Err(Error::with_info(codes::INTERNAL_ERROR, "cancelled")),
        }
    }
}
