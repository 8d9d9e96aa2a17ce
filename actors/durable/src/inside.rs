//! What steps that the executor adds inside of an attempt of a step are told: those around the steps of the application.

use std::rc::Rc;
use std::time::Duration;

use asyncsteps::memory::{Limit, Memory, Recall};
use asyncsteps::{Completion, Error, Time};
use asyncsteps_journal::Path;

use crate::flow::Flow;

/// Steps of the executor inside of an attempt of a step.
pub(crate) struct Inside {
    pub(crate) flow: Rc<Flow>,
    pub(crate) path: Path,
}

impl Memory for Inside {
    fn recall(&self) -> Recall {
        Recall::Nothing
    }

    fn attempts(&self) -> Option<(u32, Time)> {
        None
    }

    fn time_left(&self, _: Limit, of: Duration, _: Time) -> Duration {
        of
    }

    fn left_at_limit(&self, _: Limit, of: Duration, _: Time) -> Duration {
        if self.flow.records.borrow().commits_within(&self.path) {
            return of;
        }
        self.flow.hold_limit(&self.path, of)
    }

    fn is_held(&self, _: Option<u32>) -> bool {
        self.flow.is_held(&self.path)
    }

    fn hold(&self, _: Option<u32>, error: &Error, held: Completion) {
        self.flow.hold_error(&self.path, error, held);
    }

    fn retries(&self, _: u32, _: &Error, _: Time) {}

    fn fails(&self, _: Option<u32>, error: &Error, _: bool) {
        self.flow.let_go(&self.path);
        self.flow.unwinds(&self.path, error);
    }
}
