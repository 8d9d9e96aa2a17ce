//! The recorded part of a step that is a body.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::replay::{Limit, Replay, ReplayHooks};
use asyncsteps_core::{Arguments, Error, Identity, Time};

use super::context::Context;
use super::recorded::RecordedStep;

/// The recorded part of a step that is a body, in front of its host.
pub(super) struct OfBody<T> {
    pub(super) cx: Context,
    pub(super) step: Rc<RecordedStep>,
    /// The result that it returns instead of the recorded one.
    pub(super) passes: Cell<Option<T>>,
}

impl<T: 'static> ReplayHooks for OfBody<T> {
    fn recall(&self) -> Replay {
        let replay = self.step.memory.recall();
        let Replay::Done(done) = replay else { return replay };
        let value = self
            .passes
            .take()
            .map(Ok)
            .unwrap_or_else(|| <(T,)>::from_args(done).map(|(value,)| value));
        match value {
            Ok(value) => Replay::Done((self.cx.clone(), value).into_args()),
            Err(_) => unreachable!("the step reads a result of its own type"),
        }
    }

    fn attempts(&self) -> Option<(u32, Time)> {
        self.step.memory.attempts()
    }

    fn time_left(&self, limit: Limit, of: Duration, now: Time) -> Duration {
        self.step.memory.time_left(limit, of, now)
    }

    fn left_at_limit(&self, limit: Limit, of: Duration, now: Time) -> Duration {
        self.step.memory.left_at_limit(limit, of, now)
    }

    fn is_lifted(&self, limit: Limit) -> bool {
        self.step.memory.is_lifted(limit)
    }

    fn limit_lifted(&self, branches: &[(Identity, bool)]) {
        self.step.memory.limit_lifted(branches);
    }

    fn retries(&self, attempt: u32, error: &Error, next: Time) {
        self.step.memory.retries(attempt, error, next);
    }

    fn fails(&self, attempt: Option<u32>, error: &Error, undoes: bool) {
        self.step.memory.fails(attempt, error, undoes);
    }
}
