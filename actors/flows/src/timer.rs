//! The timers of an arbiter: one queue, one task and one tokio timer for all of its flows.
//!
//! Most time limits never expire, so arming and disarming have to be cheap. A timer that is disarmed
//! stays in the queue as garbage, until its time comes or most of the queue is garbage, and the task
//! that sleeps until the earliest entry is only woken for an earlier one.
//!
//! The queue belongs to the thread, and its task to the event loop that first set a timer: a thread
//! has one event loop at a time.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::mem;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use asyncsteps_core::Time;
use slab::Slab;
use tokio::time::Sleep;

use crate::clock;

thread_local! {
    static QUEUE: RefCell<TimerQueue> = const { RefCell::new(TimerQueue::new()) };
}

/// Entries of garbage that are not worth cleaning: at 16 bytes each they take a kilobyte.
const MIN_GARBAGE: usize = 64;

/// Wakes a task of this arbiter at a point in time; dropping it disarms it.
///
/// A timer that was never set costs its own four bytes and nothing else.
#[derive(Debug, Default)]
pub struct Timer {
    id: Option<TimerId>,
    /// It stays with the queue of its thread.
    local: PhantomData<Rc<()>>,
}

/// The index of a timer in the table of timers, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TimerId(NonZeroU32);

impl TimerId {
    fn new(index: usize) -> Self {
        // four thousand million timers do not fit into memory
        Self(NonZeroU32::MIN.saturating_add(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl Timer {
    /// Wakes `waker` at `at` and forgets an earlier setting; `None` disarms.
    ///
    /// # Panics
    /// Outside of an actix arbiter and of a tokio `LocalSet`.
    pub fn set(&mut self, at: Option<Time>, waker: &Waker) {
        let Some(at) = at else { return self.disarm() };
        let (before, driver) = QUEUE.with_borrow_mut(|queue| {
            let id = *self.id.get_or_insert_with(|| queue.add());
            queue.arm(id, at, waker)
        });
        drop(before);
        match driver {
            Driver::InTime => {}
            Driver::Late(driver) => driver.wake(),
            Driver::Missing => drop(actix_rt::spawn(DriverTask::default())),
        }
    }

    fn disarm(&mut self) {
        if let Some(id) = self.id.take() {
            // when the thread ends there may be no queue any more
            let before = QUEUE.try_with(|queue| queue.borrow_mut().remove(id));
            drop(before);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// Waits until `at`, outside of flows.
///
/// # Panics
/// Outside of an actix arbiter and of a tokio `LocalSet`.
pub async fn sleep_until(at: Time) {
    let mut timer = Timer::default();
    poll_fn(|cx| {
        if clock::now() >= at {
            return Poll::Ready(());
        }
        timer.set(Some(at), cx.waker());
        Poll::Pending
    })
    .await;
}

/// The timers of a thread.
///
/// Its callers wake and drop wakers after they have released it, because a waker may set a timer.
struct TimerQueue {
    /// Timers that were armed, the earliest first.
    entries: BinaryHeap<Reverse<TimerEntry>>,
    timers: Slab<Armed>,
    /// How many timers are armed; other entries are garbage.
    armed: usize,
    /// Numbers the entries; an entry counts if its timer has its number.
    last: u32,
    /// Until when the driver sleeps, if there is one.
    until: Option<Time>,
    /// Wakes the driver.
    driver: Option<Waker>,
}

/// Of those for the same time, the one that was armed first comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TimerEntry {
    at: Time,
    number: u32,
    timer: TimerId,
}

struct Armed {
    at: Time,
    number: u32,
    /// None unless it is armed.
    waker: Option<Waker>,
}

/// The work for the driver after a timer was armed.
#[derive(Debug)]
enum Driver {
    InTime,
    Late(Waker),
    Missing,
}

impl TimerQueue {
    const fn new() -> Self {
        Self {
            entries: BinaryHeap::new(),
            timers: Slab::new(),
            armed: 0,
            last: 0,
            until: None,
            driver: None,
        }
    }

    fn add(&mut self) -> TimerId {
        TimerId::new(self.timers.insert(Armed { at: Time::ZERO, number: 0, waker: None }))
    }

    /// Returns the waker that was set before.
    fn arm(&mut self, id: TimerId, at: Time, waker: &Waker) -> (Option<Waker>, Driver) {
        let Some(timer) = self.timers.get_mut(id.index()) else { return (None, Driver::InTime) };
        if let Some(before) = &mut timer.waker {
            if timer.at == at && self.until.is_some() {
                let other = !before.will_wake(waker);
                return (other.then(|| mem::replace(before, waker.clone())), Driver::InTime);
            }
        } else {
            self.armed += 1;
        }
        self.last = self.last.wrapping_add(1);
        let before = timer.waker.replace(waker.clone());
        (timer.at, timer.number) = (at, self.last);
        self.entries.push(Reverse(TimerEntry { at, timer: id, number: self.last }));
        self.clean();
        let driver = match self.until {
            None => Driver::Missing,
            // a driver without a waker is about to look
            Some(until) if at < until => self.driver.take().map_or(Driver::InTime, Driver::Late),
            Some(_) => Driver::InTime,
        };
        self.until = Some(self.until.map_or(at, |until| until.min(at)));
        (before, driver)
    }

    /// Returns the waker that was set before.
    fn remove(&mut self, id: TimerId) -> Option<Waker> {
        let waker = self.timers.try_remove(id.index())?.waker?;
        self.armed -= 1;
        self.clean();
        Some(waker)
    }

    /// Keeps garbage below half of the queue, at a constant cost per disarmed timer.
    fn clean(&mut self) {
        if self.entries.len() > 2 * self.armed + MIN_GARBAGE {
            let timers = &self.timers;
            self.entries.retain(|Reverse(entry)| counts(timers, *entry));
            self.entries.shrink_to(4 * (self.armed + MIN_GARBAGE));
        }
    }

    /// Takes the wakers of the timers that expired; the driver sleeps until the earliest of the
    /// others, or ends if there is none.
    fn expire(&mut self, now: Time, driver: &Waker) -> (Vec<Waker>, Option<Time>) {
        let mut expired = Vec::new();
        self.until = None;
        while let Some(Reverse(entry)) = self.entries.peek().copied() {
            if counts(&self.timers, entry) {
                if entry.at > now {
                    self.until = Some(entry.at);
                    break;
                }
                self.armed -= 1;
                let timer = self.timers.get_mut(entry.timer.index());
                expired.extend(timer.and_then(|timer| timer.waker.take()));
            }
            self.entries.pop();
        }
        self.driver = self.until.map(|_| driver.clone());
        (expired, self.until)
    }
}

fn counts(timers: &Slab<Armed>, entry: TimerEntry) -> bool {
    let timer = timers.get(entry.timer.index());
    timer.is_some_and(|timer| timer.waker.is_some() && timer.number == entry.number)
}

/// The task that wakes the timers that expire. It ends when none is armed.
#[derive(Default)]
struct DriverTask(Option<Pin<Box<Sleep>>>);

impl Future for DriverTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = clock::now();
            let (expired, next) = QUEUE.with_borrow_mut(|queue| queue.expire(now, cx.waker()));
            expired.into_iter().for_each(Waker::wake);
            let Some(next) = next else { return Poll::Ready(()) };
            let next = clock::instant(next);
            let sleep = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next)));
            if sleep.deadline() != next {
                sleep.as_mut().reset(next);
            }
            ready!(sleep.as_mut().poll(cx));
        }
    }
}

impl Drop for DriverTask {
    /// Also when the arbiter ends: timers of the next one on this thread need a new driver.
    fn drop(&mut self) {
        let driver = QUEUE.try_with(|queue| {
            let mut queue = queue.borrow_mut();
            queue.until = None;
            if queue.timers.is_empty() {
                queue.timers.shrink_to_fit();
            }
            queue.driver.take()
        });
        drop(driver);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn at(ms: u64) -> Time {
        Time::from_epoch(Duration::from_millis(ms))
    }

    /// Expires due timers; returns how many that were and when the next one is due.
    fn expire(queue: &mut TimerQueue, ms: u64) -> (usize, Option<Time>) {
        let (expired, next) = queue.expire(at(ms), Waker::noop());
        (expired.len(), next)
    }

    #[test]
    fn of_a_timer_only_the_latest_setting_counts() {
        let mut queue = TimerQueue::new();
        let (one, two) = (queue.add(), queue.add());
        for (id, ms) in [(one, 10), (two, 20), (one, 30), (two, 5), (two, 5)] {
            queue.arm(id, at(ms), Waker::noop());
        }
        assert_eq!(expire(&mut queue, 4), (0, Some(at(5))));
        assert_eq!(expire(&mut queue, 20), (1, Some(at(30))));
        queue.arm(two, at(20), Waker::noop());
        assert!(queue.remove(one).is_some());
        assert_eq!(expire(&mut queue, 30), (1, None));
        assert!(queue.remove(two).is_none() && queue.timers.is_empty());
        assert_eq!((queue.entries.len(), queue.armed), (0, 0));
    }

    #[test]
    fn the_driver_is_told_of_an_earlier_timer_and_of_no_later_one() {
        let mut queue = TimerQueue::new();
        let id = queue.add();
        assert!(matches!(queue.arm(id, at(10), Waker::noop()).1, Driver::Missing));
        assert!(matches!(queue.arm(id, at(5), Waker::noop()).1, Driver::InTime), "it is coming");
        assert_eq!(expire(&mut queue, 0), (0, Some(at(5))));
        assert!(matches!(queue.arm(id, at(7), Waker::noop()).1, Driver::InTime));
        assert!(matches!(queue.arm(id, at(3), Waker::noop()).1, Driver::Late(_)));
        assert!(matches!(queue.arm(id, at(2), Waker::noop()).1, Driver::InTime), "it was told");
    }

    #[test]
    fn garbage_stays_below_half_of_the_queue() {
        let mut queue = TimerQueue::new();
        let kept: Vec<TimerId> = (0..100).map(|_| queue.add()).collect();
        for (ms, id) in (1_000_000..).zip(&kept) {
            queue.arm(*id, at(ms), Waker::noop());
        }
        for ms in 0..10_000 {
            let id = queue.add();
            // also many times for the same moment
            queue.arm(id, at(ms / 100), Waker::noop());
            queue.remove(id);
            queue.arm(kept[0], at(1_000_000 + ms), Waker::noop());
            assert!(queue.entries.len() <= 2 * 101 + MIN_GARBAGE + 1, "{}", queue.entries.len());
        }
        assert_eq!(queue.timers.len(), 100);
    }

    #[actix::test]
    async fn timers_expire_in_virtual_time_and_a_new_driver_follows_an_ended_one() {
        tokio::time::pause();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut timers = [Timer::default(), Timer::default(), Timer::default()];
        for round in 1..=2 {
            for (timer, ms) in timers.iter_mut().zip([30, 10, 20]) {
                timer.set(Some(clock::now() + Duration::from_millis(ms)), &waker);
            }
            timers[2].set(None, &waker);
            tokio::time::sleep(Duration::from_millis(5)).await;
            for expected in [0, 1, 1, 2] {
                assert_eq!(count.0.load(Ordering::Relaxed), 2 * (round - 1) + expected);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert!(QUEUE.with_borrow(|queue| queue.until.is_none()), "the driver ended");
        }
    }

    #[test]
    fn the_end_of_an_arbiter_is_the_end_of_its_driver_only() {
        let mut timer = Timer::default();
        let later = || clock::now() + Duration::from_secs(3600);
        for _ in 0..2 {
            actix_rt::System::new().block_on(async {
                timer.set(Some(later()), Waker::noop());
                tokio::task::yield_now().await;
                assert!(QUEUE.with_borrow(|queue| queue.driver.is_some()));
            });
            assert!(QUEUE.with_borrow(|queue| queue.until.is_none() && queue.armed == 1));
        }
    }
}
