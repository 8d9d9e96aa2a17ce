//! What is recorded of steps.

use std::time::Duration;

use asyncsteps::{Error, StepEnd, StepLocation, StepRef};

/// What happened to a step.
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
    /// Which attempt of it, or of a step around it, is under way, from 1.
    pub attempt: u32,
    /// Name and source location of the step.
    pub location: StepLocation,
    /// What happened.
    pub kind: StepEventKind,
}

/// What happened to a step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StepEventKind {
    /// It began.
    Began,
    /// It is over.
    Ended(Ending),
}

/// How a step ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ending {
    /// It completed, or its error handler recovered.
    Success,
    /// It failed with this error.
    Error(Error),
    /// It was cancelled, or a loop was left.
    Cancelled,
}

/// What was recorded of a flow: its first events and its last ones.
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

impl StepEvent {
    pub(super) fn new(at: Duration, flow: u32, step: StepRef, kind: StepEventKind) -> Self {
        let StepRef { branch, parent, depth, attempt, location, .. } = step;
        Self { at, flow, branch, parent, depth, attempt, location, kind }
    }
}

impl Ending {
    pub(super) fn of(end: StepEnd<'_>) -> Self {
        match end {
            StepEnd::Success => Self::Success,
            StepEnd::Error(error) => Self::Error(error.clone()),
            StepEnd::Cancelled | _ => Self::Cancelled,
        }
    }
}
