//! The room of a recording.

use asyncsteps_core::{Error, StepEnd, StepRef};
use tokio::time::Instant;

use super::event::{Ending, Recorded, StepEvent, StepEventKind};

/// Events from the beginning of a flow that are kept: a request of the usual size, whole.
const FIRST: usize = 32;

/// Events before now that are kept, beyond those: the last ones of a long flow.
const LAST: usize = 64;

/// An event as it is written, with as little work as possible.
#[derive(Debug)]
pub(super) struct WrittenEvent {
    pub(super) at: Instant,
    pub(super) flow: u32,
    pub(super) step: StepRef,
    pub(super) kind: WrittenKind,
}

/// The kind of an event; an error is shared with the flow until the recording is read.
#[derive(Debug)]
pub(super) enum WrittenKind {
    Began,
    Success,
    Recovered(Error),
    Error(Error),
    Left,
    Cancelled,
}

/// The first events and the last ones.
#[derive(Debug, Default)]
pub(super) struct Ring {
    first: Vec<WrittenEvent>,
    last: Vec<WrittenEvent>,
    /// The oldest event in `last`, once that is full.
    oldest: usize,
    lost: usize,
}

impl Ring {
    pub(super) fn new() -> Self {
        Self { first: Vec::with_capacity(FIRST), ..Self::default() }
    }

    /// Empties it; the room stays.
    pub(super) fn clear(&mut self) {
        self.first.clear();
        self.last.clear();
        (self.oldest, self.lost) = (0, 0);
    }

    #[inline]
    pub(super) fn write(&mut self, event: WrittenEvent) {
        if self.first.len() < FIRST {
            self.first.push(event);
        } else if self.last.len() < LAST {
            // most flows never need it
            self.last.reserve_exact(LAST - self.last.len());
            self.last.push(event);
        } else {
            self.last[self.oldest] = event;
            self.oldest = (self.oldest + 1) % LAST;
            self.lost += 1;
        }
    }

    /// The events of a recording that began then, until now.
    pub(super) fn recorded(&self, began: Instant, now: Instant) -> Recorded {
        let (newer, older) = self.last.split_at(self.oldest);
        let written = self.first.iter().chain(older).chain(newer);
        let events = written.map(|event| event.since(began)).collect();
        Recorded { events, lost: self.lost, length: now.saturating_duration_since(began) }
    }
}

impl WrittenEvent {
    fn since(&self, began: Instant) -> StepEvent {
        let StepRef { branch, parent, depth, attempt, location, .. } = self.step;
        let kind = match &self.kind {
            WrittenKind::Began => StepEventKind::Began,
            WrittenKind::Success => StepEventKind::Ended(Ending::Success),
            WrittenKind::Recovered(error) => StepEventKind::Ended(Ending::Recovered(error.into())),
            WrittenKind::Left => StepEventKind::Ended(Ending::Left),
            WrittenKind::Error(error) => StepEventKind::Ended(Ending::Error(error.into())),
            WrittenKind::Cancelled => StepEventKind::Ended(Ending::Cancelled),
        };
        let (at, flow) = (self.at.saturating_duration_since(began), self.flow);
        StepEvent { at, flow, branch, parent, depth, attempt, location, kind }
    }
}

impl From<StepEnd<'_>> for WrittenKind {
    fn from(end: StepEnd<'_>) -> Self {
        match end {
            StepEnd::Success => Self::Success,
            StepEnd::Recovered(error) => Self::Recovered(error.clone()),
            StepEnd::Error(error) => Self::Error(error.clone()),
            StepEnd::Left => Self::Left,
            StepEnd::Cancelled | _ => Self::Cancelled,
        }
    }
}
