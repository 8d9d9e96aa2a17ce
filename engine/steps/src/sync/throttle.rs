//! The accounting of `Throttle` (FTN12 §1.11.2, §2.4): how many entered, who waits, and until when.

use std::time::Duration;

use super::line::Line;
use super::mutex::{Lock, Ticket};
use super::zero;
use crate::time::Time;

/// Limits of a throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many entries there may be in one period, at least 1.
    pub max: u32,
    /// The length of a period, more than zero.
    pub period: Duration,
    /// How many may wait; `None` = no limit, 0 = nobody waits.
    pub max_queue: Option<u32>,
}

impl Default for Options {
    /// One entry per second, no limit on the queue (FTN12 §2.4).
    fn default() -> Self {
        Self { max: 1, period: Duration::from_secs(1), max_queue: None }
    }
}

/// A throttle without a clock and without a way to tell the waiting ones: `W` is whatever tells
/// them.
///
/// Periods are fixed windows: the first entry after an idle time opens one, and while somebody
/// waits the next one follows at its end. The order is first come, first served; nobody overtakes
/// the queue. Every entry counts, also a further one by the same owner.
///
/// Whoever carries it calls [`admit`](Self::admit) until it gives nobody, at the
/// [`deadline`](Self::deadline) and before [`enter`](Self::enter) or [`lock`](Self::lock).
#[derive(Debug)]
pub struct Queue<W> {
    options: Options,
    /// When the current window ends; `None` while idle.
    end: Option<Time>,
    /// How many entered in the current window.
    entered: u32,
    waiting: Line<W>,
}

impl<W> Queue<W> {
    /// An idle throttle.
    ///
    /// # Panics
    /// If `max` is 0 or `period` is zero, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn new(options: Options) -> Self {
        zero::refuse(options.check());
        Self { options, end: None, entered: 0, waiting: Line::new(options.max_queue) }
    }

    /// Enters if that needs no waiting; says whether it did.
    pub fn enter(&mut self, now: Time) -> bool {
        self.turn_window(now);
        // a free entry with a queue is promised to the first of the queue
        let free = self.has_room() && self.waiting.is_empty();
        if free {
            self.count(now);
        }
        free
    }

    /// Asks to enter; `tell` is made only for one that has to wait.
    pub fn lock(&mut self, now: Time, tell: impl FnOnce() -> W) -> Lock {
        if self.enter(now) {
            return Lock::Entered;
        }
        self.waiting.join(tell).map_or(Lock::Rejected, Lock::Queued)
    }

    /// Gives the next one whose turn has come: its entry is counted from now on.
    #[must_use = "whose turn has come has to be told"]
    pub fn admit(&mut self, now: Time) -> Option<W> {
        self.turn_window(now);
        if !self.has_room() {
            return None;
        }
        let next = self.waiting.next()?;
        self.count(now);
        Some(next)
    }

    /// Gives up a place in the queue; `false` if the ticket is not in the queue any more.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        self.take(ticket).is_some()
    }

    /// Takes what tells the one with this ticket out of the queue, which gives up its place; `None`
    /// if it is not in the queue any more.
    pub fn take(&mut self, ticket: Ticket) -> Option<W> {
        self.waiting.withdraw(ticket)
    }

    /// Takes the first one out of the queue without an entry: whoever carries the throttle gives it
    /// up.
    pub fn dismiss(&mut self) -> Option<W> {
        self.waiting.next()
    }

    /// When the turn of the first in the queue comes; `None` if nobody waits.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.window_end().filter(|_| !self.waiting.is_empty())
    }

    /// When the current window ends; `None` while idle, as far as the last call knows.
    #[must_use]
    pub fn window_end(&self) -> Option<Time> {
        self.end
    }

    /// The first in the queue.
    #[must_use]
    pub fn first(&self) -> Option<(Ticket, &W)> {
        self.waiting.first()
    }

    /// What tells the one with this ticket; `None` if it is not in the queue any more.
    pub fn tell_mut(&mut self, ticket: Ticket) -> Option<&mut W> {
        self.waiting.get_mut(ticket)
    }

    /// How many wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.waiting.len()
    }

    fn has_room(&self) -> bool {
        self.entered < self.options.max
    }

    fn count(&mut self, now: Time) {
        self.end.get_or_insert_with(|| now + self.options.period);
        self.entered += 1;
    }

    /// Leaves a window that is over: for the current one while somebody waits, else for none.
    fn turn_window(&mut self, now: Time) {
        let Some(end) = self.end else { return };
        if now < end {
            return;
        }
        self.entered = 0;
        self.end = (!self.waiting.is_empty()).then(|| {
            let late = now.saturating_since(end).as_nanos() / self.options.period.as_nanos();
            let periods = u32::try_from(late).unwrap_or(u32::MAX).saturating_add(1);
            end + self.options.period.saturating_mul(periods)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_epoch(Duration::from_millis(ms))
    }

    fn throttle(max: u32, max_queue: Option<u32>) -> Queue<char> {
        Queue::new(Options { max, period: Duration::from_millis(100), max_queue })
    }

    fn admitted(throttle: &mut Queue<char>, now: u64) -> String {
        std::iter::from_fn(|| throttle.admit(at(now))).collect()
    }

    #[test]
    fn a_window_takes_max_entries_and_the_first_one_opens_it() {
        let mut throttle = throttle(2, Some(0));
        assert_eq!([30, 80, 129].map(|now| throttle.enter(at(now))), [true, true, false]);
        assert!(throttle.enter(at(150)), "idle since 130");
        assert_eq!([229, 249, 250].map(|now| throttle.enter(at(now))), [true, false, true]);
    }

    #[test]
    fn the_queue_is_admitted_at_the_end_of_each_window_in_its_order() {
        let mut throttle = throttle(2, None);
        assert_eq!(throttle.deadline(), None);
        assert!(throttle.enter(at(0)) && throttle.enter(at(0)));
        assert_eq!(throttle.deadline(), None, "nobody waits");
        for name in ['a', 'b', 'c'] {
            assert!(matches!(throttle.lock(at(10), || name), Lock::Queued(_)));
        }
        assert_eq!(throttle.deadline(), Some(at(100)));
        assert_eq!(admitted(&mut throttle, 99), "");
        assert_eq!(admitted(&mut throttle, 112), "ab");
        assert_eq!(throttle.deadline(), Some(at(200)), "lateness does not add up");
        assert_eq!(admitted(&mut throttle, 200), "c");
        assert_eq!((throttle.deadline(), throttle.queued()), (None, 0));
        assert!(throttle.enter(at(201)));
        assert!(!throttle.enter(at(202)));
    }

    #[test]
    fn nobody_overtakes_the_queue() {
        let mut throttle = throttle(1, None);
        assert!(throttle.enter(at(0)));
        assert!(matches!(throttle.lock(at(0), || 'a'), Lock::Queued(_)));
        assert!(matches!(throttle.lock(at(100), || 'b'), Lock::Queued(_)));
        assert_eq!(admitted(&mut throttle, 100), "a");
        assert_eq!(admitted(&mut throttle, 520), "b", "however late");
        assert!(!throttle.enter(at(599)), "the window of 500");
        assert!(throttle.enter(at(600)));
    }

    #[test]
    fn a_full_queue_rejects_and_a_withdrawn_place_is_free_again() {
        let mut throttle = throttle(1, Some(1));
        assert!(throttle.enter(at(0)));
        let Lock::Queued(ticket) = throttle.lock(at(0), || 'a') else { unreachable!("it waits") };
        assert_eq!(throttle.lock(at(0), || 'b'), Lock::Rejected);
        assert!(throttle.withdraw(ticket));
        assert!(!throttle.withdraw(ticket));
        assert_eq!(throttle.deadline(), None, "no timer is kept while nobody waits");
        assert!(matches!(throttle.lock(at(0), || 'b'), Lock::Queued(_)));
        assert_eq!(throttle.first().map(|(_, name)| *name), Some('b'));
    }
}
