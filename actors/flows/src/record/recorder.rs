//! Records the steps of one flow.

use asyncsteps_core::{Error, Observer, StepEnd, StepRef};
use tokio::time::Instant;

use super::recording::Recording;
use super::ring::{WrittenEvent, WrittenKind};
use crate::{clock, stuck};

/// The observer of a flow that is recorded.
pub(super) struct RecordingObserver {
    recording: Recording,
    flow: u32,
    /// The moment of the last event; that of the first one is another.
    moment: u32,
    /// When that was.
    at: Instant,
}

impl RecordingObserver {
    /// Another flow is recorded here.
    pub(super) fn new(recording: &Recording) -> Self {
        let (recording, flow, at) = (recording.clone(), recording.add_flow(), recording.began());
        Self { recording, flow, moment: 0, at }
    }

    /// To read the clock costs as much as the rest, so it is only read when time can have passed.
    #[inline]
    fn write(&mut self, step: StepRef, kind: WrittenKind) {
        if step.moment != self.moment {
            (self.moment, self.at) = (step.moment, clock::read());
        }
        self.recording.write(WrittenEvent { at: self.at, flow: self.flow, step, kind });
    }
}

impl Observer for RecordingObserver {
    fn begin(&mut self, step: StepRef) {
        stuck::at(step.location);
        self.write(step, WrittenKind::Began);
    }

    fn resume(&mut self, step: StepRef) {
        stuck::at(step.location);
    }

    fn enter(&mut self, _: StepRef) {}

    fn leave(&mut self, _: StepRef) {}

    fn end(&mut self, step: StepRef, end: StepEnd<'_>) {
        self.write(step, end.into());
    }

    fn cancel_failed(&mut self, _: StepRef, _: &Error) {}

    fn watches_callbacks(&self) -> bool {
        false
    }
}
