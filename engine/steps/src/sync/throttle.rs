//! The accounting of `Throttle` (FTN12 §1.11.2, §2.4): how many entered, who waits, and until when.

use std::time::Duration;

use super::mutex::{LockOutcome, Ticket};
use super::wait_queue::WaitQueue;
use super::zero::{self, ZeroLimit};
use crate::time::Time;

/// Limits of a throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many entries there may be in one period, at least 1.
    pub max: u32,
    /// The length of a period, more than zero.
    pub period: Duration,
    /// How many owners may wait; `None` = no limit, 0 = no queue.
    pub max_queue: Option<u32>,
}

impl Default for Options {
    /// One entry per second, no limit on the queue (FTN12 §2.4).
    fn default() -> Self {
        Self { max: 1, period: Duration::from_secs(1), max_queue: None }
    }
}

impl Options {
    /// Checks limits that come from outside, such as a configuration (FTN12 §2.4).
    ///
    /// # Errors
    /// [`ZeroLimit`] if `max` is 0 or `period` is zero.
    pub fn check(&self) -> Result<(), ZeroLimit> {
        if self.max == 0 {
            return Err(ZeroLimit::of("`max` of a throttle"));
        }
        if self.period == Duration::ZERO {
            return Err(ZeroLimit::of("`period` of a throttle"));
        }
        Ok(())
    }
}

/// A throttle that reads no clock and wakes no owner by itself (FTN12 §1.11.2): `W` is a waiter, the
/// handle by which its carrier wakes an owner.
///
/// Periods are fixed windows: the first entry after an idle time opens one, and while the queue is
/// not empty the next window follows at its end. The order is first come, first served; no owner
/// overtakes the queue. Every entry counts, also a further one by the same owner.
///
/// The carrier calls [`admit`](Self::admit) until it returns `None`, at the
/// [`deadline`](Self::deadline) and before [`enter`](Self::enter) or [`lock`](Self::lock).
#[derive(Debug)]
pub struct Queue<W> {
    options: Options,
    /// When the current window ends; `None` while idle.
    end: Option<Time>,
    /// How many entered in the current window.
    entered: u32,
    queue: WaitQueue<W>,
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
        Self { options, end: None, entered: 0, queue: WaitQueue::new(options.max_queue) }
    }

    /// Enters if that takes no waiting; says whether it did.
    pub fn enter(&mut self, now: Time) -> bool {
        self.turn_window(now);
        let free = self.is_free();
        if free {
            self.count(now);
        }
        free
    }

    /// Enters if that is no more than one entry in the current window: it has not ended, there is
    /// room, and the queue is empty.
    pub fn enter_window(&mut self, now: Time) -> bool {
        let free = self.end.is_some_and(|end| now < end) && self.is_free();
        if free {
            self.count(now);
        }
        free
    }

    /// Enters or waits; `waiter` is called only for an owner that has to wait.
    pub fn lock(&mut self, now: Time, waiter: impl FnOnce() -> W) -> LockOutcome {
        if self.enter(now) {
            return LockOutcome::Entered;
        }
        self.queue.push(waiter).map_or(LockOutcome::Rejected, LockOutcome::Queued)
    }

    /// Takes the first waiter out of the queue if it may enter now: its entry is counted.
    #[must_use = "the owner has to be woken"]
    pub fn admit(&mut self, now: Time) -> Option<W> {
        self.turn_window(now);
        if !self.has_room() {
            return None;
        }
        let next = self.queue.pop()?;
        self.count(now);
        Some(next)
    }

    /// Leaves the queue; `false` if the ticket is not in the queue any more.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        self.take(ticket).is_some()
    }

    /// Takes the waiter with this ticket out of the queue; `None` if it is not in the queue any
    /// more.
    pub fn take(&mut self, ticket: Ticket) -> Option<W> {
        self.queue.remove(ticket)
    }

    /// Takes the first waiter out of the queue without an entry, when the carrier ends the throttle.
    pub fn dismiss(&mut self) -> Option<W> {
        self.queue.pop()
    }

    /// When the first waiter may enter; `None` if the queue is empty.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.window_end().filter(|_| !self.queue.is_empty())
    }

    /// When the current window ends; `None` if the throttle was idle at the last call.
    #[must_use]
    pub fn window_end(&self) -> Option<Time> {
        self.end
    }

    /// The first waiter.
    #[must_use]
    pub fn first(&self) -> Option<(Ticket, &W)> {
        self.queue.first()
    }

    /// The waiter with this ticket; `None` if it is not in the queue any more.
    pub fn waiter_mut(&mut self, ticket: Ticket) -> Option<&mut W> {
        self.queue.get_mut(ticket)
    }

    /// The owners that wait, the first one first.
    pub fn waiting(&self) -> impl Iterator<Item = &W> {
        self.queue.iter()
    }

    /// The entries in the current window, as of the last call.
    #[must_use]
    pub fn entered(&self) -> u32 {
        self.entered
    }

    /// How many owners wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether an owner that comes now enters: with a queue, a free entry is for the first waiter.
    fn is_free(&self) -> bool {
        self.has_room() && self.queue.is_empty()
    }

    fn has_room(&self) -> bool {
        self.entered < self.options.max
    }

    fn count(&mut self, now: Time) {
        self.end.get_or_insert_with(|| now + self.options.period);
        self.entered += 1;
    }

    /// Ends a window that has expired: the current window follows if the queue is not empty.
    fn turn_window(&mut self, now: Time) {
        let Some(end) = self.end else { return };
        if now < end {
            return;
        }
        self.entered = 0;
        self.end = (!self.queue.is_empty()).then(|| {
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
        assert_eq!(throttle.deadline(), None, "the queue is empty");
        for name in ['a', 'b', 'c'] {
            assert!(matches!(throttle.lock(at(10), || name), LockOutcome::Queued(_)));
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
    fn an_entry_into_the_window_opens_none_and_overtakes_nobody() {
        let mut throttle = throttle(2, None);
        assert!(!throttle.enter_window(at(0)), "there is none");
        assert!(throttle.enter(at(0)));
        assert!(!throttle.enter_window(at(100)), "it is over");
        assert!(throttle.enter_window(at(99)));
        assert!(!throttle.enter_window(at(99)), "it is full");
        for name in ['a', 'b'] {
            assert!(matches!(throttle.lock(at(99), || name), LockOutcome::Queued(_)));
        }
        assert_eq!(throttle.admit(at(100)), Some('a'));
        assert!(!throttle.enter_window(at(100)), "the free entry is for the first waiter");
        assert_eq!((throttle.admit(at(100)), throttle.entered()), (Some('b'), 2));
    }

    #[test]
    fn no_owner_overtakes_the_queue() {
        let mut throttle = throttle(1, None);
        assert!(throttle.enter(at(0)));
        assert!(matches!(throttle.lock(at(0), || 'a'), LockOutcome::Queued(_)));
        assert!(matches!(throttle.lock(at(100), || 'b'), LockOutcome::Queued(_)));
        assert_eq!(admitted(&mut throttle, 100), "a");
        assert_eq!(admitted(&mut throttle, 520), "b", "however late");
        assert!(!throttle.enter(at(599)), "the window of 500");
        assert!(throttle.enter(at(600)));
    }

    #[test]
    fn a_full_queue_rejects_until_a_waiter_leaves() {
        let mut throttle = throttle(1, Some(1));
        assert!(throttle.enter(at(0)));
        let LockOutcome::Queued(ticket) = throttle.lock(at(0), || 'a') else {
            unreachable!("it waits")
        };
        assert_eq!(throttle.lock(at(0), || 'b'), LockOutcome::Rejected);
        assert!(throttle.withdraw(ticket));
        assert!(!throttle.withdraw(ticket));
        assert_eq!(throttle.deadline(), None, "no timer is kept for an empty queue");
        assert!(matches!(throttle.lock(at(0), || 'b'), LockOutcome::Queued(_)));
        assert_eq!(throttle.first().map(|(_, name)| *name), Some('b'));
    }
}
