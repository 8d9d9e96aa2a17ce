//! The replay hooks of steps that the executor adds around sub-steps: they are inside of an attempt of a step, or of an
//! iteration of that.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::sync::deadlock;
use asyncsteps_core::replay::{Limit, LimitTurn, Replay, ReplayHooks, Then};
use asyncsteps_core::{Error, Time};
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

    fn time_left(&self, limit: Limit, of: Duration, now: Time, turn: LimitTurn<'_>) -> Duration {
        let waited = self.measured.waited(limit, self.flow.results.waited(now));
        match turn {
            LimitTurn::Begins => {
                self.has_limit.set(true);
                self.flow.left_of_limit(&self.path.branch(LIMIT), of, now)
            }
            LimitTurn::Passes(branches) if self.is_lifted(limit) => {
                deadlock::look_again(&branches());
                of
            }
            LimitTurn::Passes(_) => waited,
        }
    }

    fn is_lifted(&self, _: Limit) -> bool {
        let records = self.flow.replay.borrow();
        records.commits_within(&self.path) || records.has_ended(&self.path)
    }

    fn fails(&self, _: Option<u32>, error: &Error, then: Then) {
        if let Then::Retries(_) = then {
            return;
        }
        let limit = self.has_limit.get().then(|| self.path.branch(LIMIT));
        let itself = limit.as_ref().unwrap_or(&self.path);
        self.flow.unwinds(&self.step, &self.path, itself, error);
        self.flow.failed(itself);
    }
}
