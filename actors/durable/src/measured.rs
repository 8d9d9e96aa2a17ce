//! Time limits and waits: their ends are recorded when they begin, and limits leave out the time in which results
//! waited for storage.

use std::cell::Cell;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::Time;
use asyncsteps_core::replay::Limit;
use asyncsteps_executor::recorder::WaitEnd;
use asyncsteps_journal::record::Timer;
use asyncsteps_journal::{Event, Path};

use crate::flow::{DurableFlow, LOOK};

/// The times by which the time limits of a step are measured.
#[derive(Default)]
pub(crate) struct Measured {
    /// When what its body depends on was stored, so that it began.
    body_began: Cell<Option<Time>>,
    /// How long results had waited for storage when the limit of an attempt was looked at last.
    attempt: Cell<Duration>,
    /// The same for the limit of all attempts together.
    overall: Cell<Duration>,
}

impl Measured {
    /// How long results have waited for storage since this limit was looked at last, if they have waited
    /// `so_far` in all.
    pub(crate) fn waited(&self, limit: Limit, so_far: Duration) -> Duration {
        let seen = match limit {
            Limit::Attempt(_) => &self.attempt,
            Limit::Overall => &self.overall,
        };
        so_far.saturating_sub(seen.replace(so_far))
    }

    /// The body waits until the records that it depends on are stored.
    pub(crate) fn body_waits(&self) {
        self.body_began.set(None);
    }

    /// The body begins, and the time of its attempt. Results have waited `so_far` in all.
    pub(crate) fn body_begins(&self, now: Time, so_far: Duration) {
        self.body_began.set(Some(now));
        self.attempt.set(so_far);
    }

    /// When the body began, unless it waits.
    pub(crate) fn body_began(&self) -> Option<Time> {
        self.body_began.get()
    }
}

/// Distinguishes the record of a limit from the record of a wait, in place of an attempt.
pub(crate) const LIMIT: u32 = 1;

impl DurableFlow {
    /// The time that is left of a wait at this path: its end is recorded when it begins.
    pub(crate) fn left_of_wait(&self, path: &Path, end: WaitEnd) -> Duration {
        let at = match end {
            WaitEnd::After(within) => return self.left_at(path, within, 0),
            WaitEnd::At(at) => at.into(),
        };
        self.clock().left(&self.timer_at(path, || Timer { at, attempt: 0, ends: None }))
    }

    /// The timer that is recorded at this path, or else this one from now on.
    pub(crate) fn timer_at(&self, path: &Path, new: impl FnOnce() -> Timer) -> Timer {
        let recorded = self.replay.borrow().at(path).and_then(|at| at.timer);
        recorded.unwrap_or_else(|| {
            let timer = new();
            self.record(path, [Event::Timer(timer)]);
            timer
        })
    }

    /// Completes when a wait at this path ends, which is at `until` unless the clock is set.
    pub(crate) async fn wait_ends(&self, path: &Path, end: WaitEnd, mut until: Time) {
        loop {
            let WaitEnd::At(_) = end else { return timer::sleep_until(until).await };
            // the clock may be set meanwhile
            timer::sleep_until(until.min(clock::now() + LOOK)).await;
            let left = self.left_of_wait(path, end);
            if left.is_zero() {
                return;
            }
            until = clock::now() + left;
        }
    }

    fn left_at(&self, path: &Path, within: Duration, attempt: u32) -> Duration {
        let recorded = self.replay.borrow().at(path).and_then(|at| at.timer);
        if let Some(timer) = recorded {
            return self.clock().left(&timer).min(within);
        }
        self.record(path, [Event::Timer(self.clock().timer(within, attempt))]);
        within
    }

    /// The time that is left at `now` of a time limit that is recorded at this path.
    pub(crate) fn left_of_limit(&self, path: &Path, of: Duration, now: Time) -> Duration {
        let began = clock::now().saturating_since(now);
        self.left_at(path, of.saturating_sub(began), LIMIT) + began
    }
}
