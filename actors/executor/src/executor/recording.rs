//! What the steps of a request do, recorded.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::record::{Recorded, Recording};

use crate::observe::{Recorder, RequestRecord};

/// The recording of a request. The flows that undo it share this; what is kept is kept when the last
/// of them is over.
#[derive(Debug)]
pub(super) struct RequestRecording {
    pub(super) number: u64,
    pub(super) steps: Recording,
    recorder: Arc<Recorder>,
    /// The request, once it is over and is to be kept.
    over: RefCell<Option<RequestRecord>>,
}

impl RequestRecording {
    /// Begins to record a request.
    pub(super) fn start(recorder: &Arc<Recorder>) -> Rc<Self> {
        Rc::new(Self {
            number: recorder.number(),
            steps: Recording::start(),
            recorder: Arc::clone(recorder),
            over: RefCell::new(None),
        })
    }

    /// The request is over after this time: `record` gives what is kept of it, if it is kept.
    pub(super) fn over(
        &self,
        total: Duration,
        is_error: bool,
        record: impl FnOnce(u64, Recorded) -> RequestRecord,
    ) {
        if self.recorder.wants(self.number, total, is_error) {
            self.over.replace(Some(record(self.number, self.steps.recorded())));
        }
    }
}

impl Drop for RequestRecording {
    fn drop(&mut self) {
        if let Some(record) = self.over.take() {
            // with what was undone since
            self.recorder.keep(RequestRecord { steps: self.steps.recorded(), ..record });
        }
    }
}
