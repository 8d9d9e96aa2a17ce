//! What the steps of a request do, recorded.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::clock;
use asyncsteps_actors::record::Recording;
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::message::Rid;
use tracing::Span;

use super::outcome::RequestOutcome;
use super::over::Times;
use super::reply_to::ReplyTo;
use crate::observe::{Recorder, RequestRecord};
use crate::security::User;

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

    /// The request is over; its span gets the line of its steps if it is kept.
    pub(super) fn over(
        &self,
        reply_to: &ReplyTo,
        called: &FunctionName,
        times: Times,
        outcome: RequestOutcome<'_>,
        span: &Span,
    ) {
        let total = times.total();
        if !self.recorder.wants(self.number, total, outcome != RequestOutcome::Success) {
            return;
        }
        let steps = self.steps.recorded();
        span.record("steps", tracing::field::display(&steps));
        self.over.replace(Some(RequestRecord {
            number: self.number,
            function: called.clone(),
            rid: reply_to.rid.as_ref().map(Rid::to_string),
            trace: reply_to.trace,
            user: reply_to.caller.user().map(User::local_id).map(str::to_owned),
            arrived: clock::wall() - total,
            queued: times.queued.so_far(),
            total,
            outcome: outcome.as_str().to_owned(),
            steps,
        }));
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
