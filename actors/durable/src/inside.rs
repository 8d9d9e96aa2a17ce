//! The replay hooks of steps that the executor adds around sub-steps: they are inside of an attempt of a step, or of an
//! iteration of that.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::sync::deadlock;
use asyncsteps_core::replay::{Limit, Replay, ReplayHooks};
use asyncsteps_core::{Error, Identity, Time};
use asyncsteps_executor::plan::StepView;
use asyncsteps_journal::Path;

use crate::flow::DurableFlow;
use crate::measured::Measured;

/// The branch of an attempt or an iteration at which the limit is recorded that its sub-steps as a whole have. Other
/// branches of a step are numbers, or named in this crate.
pub(crate) const LIMIT: &str = "this";

/// Steps of the executor around sub-steps.
pub(crate) struct InsideSteps {
    flow: Rc<DurableFlow>,
    step: StepView,
    /// The attempt or the iteration.
    path: Path,
    measured: Measured,
    has_limit: Cell<bool>,
}

impl InsideSteps {
    pub(crate) fn new(flow: Rc<DurableFlow>, step: StepView, path: Path) -> Self {
        Self { flow, step, path, measured: Measured::default(), has_limit: Cell::new(false) }
    }
}

impl ReplayHooks for InsideSteps {
    fn recall(&self) -> Replay {
        Replay::Nothing
    }

    fn attempts(&self) -> Option<(u32, Time)> {
        None
    }

    fn time_left(&self, limit: Limit, of: Duration, now: Time) -> Duration {
        self.has_limit.set(true);
        self.measured.waited(limit, self.flow.results.waited(now));
        self.flow.left_of_limit(&self.path.branch(LIMIT), of, now)
    }

    fn left_at_limit(&self, limit: Limit, of: Duration, now: Time) -> Duration {
        let waited = self.measured.waited(limit, self.flow.results.waited(now));
        if self.is_lifted(limit) { of } else { waited }
    }

    fn is_lifted(&self, _: Limit) -> bool {
        let records = self.flow.replay.borrow();
        records.commits_within(&self.path) || records.has_ended(&self.path)
    }

    fn limit_lifted(&self, branches: &[(Identity, bool)]) {
        deadlock::look_again(branches);
    }

    fn retries(&self, _: u32, _: &Error, _: Time) {}

    fn fails(&self, _: Option<u32>, error: &Error, _: bool) {
        let limit = self.has_limit.get().then(|| self.path.branch(LIMIT));
        let itself = limit.as_ref().unwrap_or(&self.path);
        self.flow.unwinds(&self.step, &self.path, itself, error);
        self.flow.failed(itself);
    }
}
