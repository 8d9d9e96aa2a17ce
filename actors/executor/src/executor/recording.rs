//! What the steps of a request do, recorded.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::record::{Recorded, Recording};

use crate::observe::{Recorder, RequestRecord};

/// The recording of a request, which the flows that undo it share. Cloning shares.
#[derive(Clone, Debug)]
pub(super) struct RequestRecording {
    pub(super) number: u64,
    pub(super) steps: Recording,
}

impl RequestRecording {
    /// Begins to record a request.
    pub(super) fn start(recorder: &Arc<Recorder>) -> Self {
        Self { number: recorder.number(), steps: Recording::start() }
    }

    /// The request is over after this time: `record` gives what is kept of it, if it is kept. Its steps
    /// are added when it is undone as well.
    pub(super) fn over(
        &self,
        recorder: &Arc<Recorder>,
        total: Duration,
        is_error: bool,
        record: impl FnOnce(u64, Recorded) -> RequestRecord,
    ) {
        if recorder.wants(self.number, total, is_error) {
            let record = record(self.number, self.steps.recorded());
            let recorder = Arc::clone(recorder);
            self.steps.when_over(move |steps| recorder.keep(RequestRecord { steps, ..record }));
        }
    }
}
