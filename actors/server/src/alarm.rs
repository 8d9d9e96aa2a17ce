//! An alarm of a connection.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

/// An alarm that wakes a task at a time that is often set anew, and rarely comes. Without a time it takes no memory of
/// its own.
#[derive(Debug, Default)]
pub(super) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Wakes the task at `due` at the latest; perhaps also before. It is always the same task.
    pub(super) fn set(&mut self, due: Instant, now: Instant, cx: &mut Context<'_>) {
        let is_set = |sleep: &Pin<Box<Sleep>>| sleep.deadline() > now && sleep.deadline() <= due;
        if !self.0.as_ref().is_some_and(is_set) {
            self.wake_at(due, cx);
        }
    }

    /// Wakes this task at `due`, and no task that was set before.
    pub(super) fn wake_at(&mut self, due: Instant, cx: &mut Context<'_>) {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if sleep.deadline() != due {
            sleep.as_mut().reset(due);
        }
        // it would not be set at the end of a long turn
        if Pin::new(&mut unconstrained(sleep.as_mut())).poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

/// A time so much later; thirty years later if that is later than a clock can say.
pub(super) fn later(at: Instant, time: Duration) -> Instant {
    at.checked_add(time).unwrap_or_else(|| at + Duration::from_secs(30 * 365 * 86_400))
}
