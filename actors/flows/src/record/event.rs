//! Recorded events of steps.

use std::borrow::Cow;
use std::time::Duration;

use asyncsteps_core::{Error, ErrorCode, StepLocation};

/// An event of a step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepEvent {
    /// When, since the recording began.
    pub at: Duration,
    /// The flow: 0 for the first one, further ones undo it.
    pub flow: u32,
    /// The parallel branch, 0 for the root.
    pub branch: u32,
    /// The branch whose step started this branch.
    pub parent: u32,
    /// How many steps of the same branch are around it.
    pub depth: u32,
    /// The current attempt of it, or of a step around it, from 1.
    pub attempt: u32,
    /// Name and source location of the step.
    pub location: StepLocation,
    /// The kind of event.
    pub kind: StepEventKind,
}

/// The kinds of events of a step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StepEventKind {
    /// It began.
    Began,
    /// It has ended.
    Ended(Ending),
}

/// How a step ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ending {
    /// It completed.
    Success,
    /// It failed with this error, and its error handler recovered.
    Recovered(FailedStep),
    /// It failed with this error.
    Error(FailedStep),
    /// The end of a loop or of its iteration left it.
    Left,
    /// It was cancelled.
    Cancelled,
}

/// The error of a failed step, without its cause, which may be large.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedStep {
    /// The code of the error.
    pub code: ErrorCode,
    /// The first 200 characters of its text for callers.
    pub info: Option<String>,
    /// The time limit that expired, if it was one.
    pub limit: Option<Duration>,
}

/// The longest text of an error that is kept, in characters.
const LONGEST_INFO: usize = 200;

/// The recorded events of a flow: its first and its last ones.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recorded {
    /// The events, the oldest first.
    pub events: Vec<StepEvent>,
    /// How many events there was no room for.
    pub lost: usize,
    /// The time from the beginning of the recording to when this was asked for.
    pub length: Duration,
}

impl From<&Error> for FailedStep {
    fn from(error: &Error) -> Self {
        let cut = |info: &str| info.chars().take(LONGEST_INFO).collect();
        let code = Cow::Owned(error.code().to_owned());
        Self { code, info: error.info().map(cut), limit: error.limit() }
    }
}
