//! An alarm of a connection.

use std::task::Context;

use asyncsteps_core::Time;

/// An alarm that wakes a task at a time that is often set anew, and rarely comes.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    timer: asyncsteps_actors::timer::Timer,
    at: Option<Time>,
}

impl Alarm {
    /// Wakes the task at `due` at the latest; perhaps also before.
    pub(super) fn set(&mut self, due: Time, now: Time, cx: &Context<'_>) {
        if self.at.is_none_or(|at| at <= now || at > due) {
            self.timer.set(Some(due), cx.waker());
            self.at = Some(due);
        }
    }
}
