//! How long is left: the only place that compares recorded times with the time.
//!
//! While a node has a flow, its waits go by the clock of the process, which never jumps. The records are for the next
//! run: lengths of time by [`Reading::passed`], which no jump of a clock moves, and times of day by [`Reading::now`].
//! Both are the journal's, so nodes on several machines agree whatever their own clocks say.

use std::time::Duration;

use asyncsteps_actors::clock::{self, Clock};
use asyncsteps_journal::record::Timer;
use asyncsteps_journal::{Reading, Timestamp};
use parking_lot::Mutex;

/// The time of day by the clock of this process.
pub(crate) fn wall() -> Timestamp {
    clock::wall().into()
}

/// The clock of the journal, as a node read it last.
#[derive(Debug)]
pub(crate) struct JournalClock(Mutex<(Clock, Reading)>);

impl JournalClock {
    /// A clock that was asked for its time when `asked` began.
    pub(crate) fn new(asked: Clock, reading: Reading) -> Self {
        Self(Mutex::new((asked, reading)))
    }

    /// It was read again.
    pub(crate) fn read(&self, asked: Clock, reading: Reading) {
        *self.0.lock() = (asked, reading);
    }

    fn on(&self, of: impl Fn(Reading) -> Timestamp) -> Timestamp {
        let (asked, reading) = *self.0.lock();
        of(reading).after(asked.elapsed())
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Timestamp {
        self.on(|reading| reading.now)
    }

    /// The record of a wait that takes so long from now on, before this attempt.
    pub(crate) fn timer(&self, within: Duration, attempt: u32) -> Timer {
        let ends = self.on(|reading| reading.passed).after(within);
        Timer { at: self.now().after(within), attempt, ends: Some(ends) }
    }

    /// The record of the time of day.
    pub(crate) fn time_of_day(&self) -> Timer {
        Timer { at: self.now(), attempt: 0, ends: None }
    }

    /// What is left of a recorded wait.
    pub(crate) fn left(&self, timer: &Timer) -> Duration {
        match timer.ends {
            Some(ends) => between(self.on(|reading| reading.passed), ends),
            None => self.until(timer.at),
        }
    }

    /// How long it is until a time of day, if the clock does not jump.
    pub(crate) fn until(&self, at: Timestamp) -> Duration {
        between(self.now(), at)
    }
}

fn between(now: Timestamp, end: Timestamp) -> Duration {
    Duration::from_millis(end.as_millis().saturating_sub(now.as_millis()))
}
