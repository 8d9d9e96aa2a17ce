//! What the steps of a request do, recorded.

use std::sync::Arc;

use asyncsteps_actors::record::Recording;

use crate::observe::Recorder;

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
}
