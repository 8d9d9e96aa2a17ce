//! A pause inside of an async body (FTN12 §1.13): a timer of the flow whose step polls it.
//!
//! While a step polls its future, the thread knows the time of the flow's turn and collects the alarms
//! that are set. The flow keeps them, and they count for its deadline: so a pause needs no clock and
//! no runtime, and works on every host.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::time::Time;

thread_local! {
    static POLLING: Cell<Polling> = const { Cell::new(Polling { now: Time::ZERO, depth: 0, left: 0 }) };
    /// What futures have left and their flow has not taken yet.
    static LEFT: RefCell<Vec<Left>> = const { RefCell::new(Vec::new()) };
}

/// The futures of flows that this thread polls.
#[derive(Clone, Copy)]
struct Polling {
    /// The time of the turn of the innermost one.
    now: Time,
    /// How many there are, one inside of the poll of the other.
    depth: u32,
    /// How many things the innermost one has left for its flow.
    left: u32,
}

/// A question to the `AsyncSteps` of the flow.
type Question = dyn FnOnce(&mut dyn Any);

/// What a future leaves for the flow whose step polls it.
pub(crate) enum Left {
    Alarm(Weak<SleepAlarm>),
    Question(Box<Question>),
}

/// When a sleep ends, and what to wake then.
pub(crate) struct SleepAlarm {
    at: Time,
    waker: RefCell<Waker>,
}

/// The alarms of a flow; those whose sleep was dropped count no more.
#[derive(Default)]
pub(crate) struct Alarms(Vec<Weak<SleepAlarm>>);

/// Waits for this long, in the body of a step: in [`run`](crate::AsyncSteps::run),
/// [`await_`](crate::AsyncSteps::await_) and the like.
///
/// It is a timer of the flow, so it works on every host, and in virtual time in a
/// [simulation](crate::sim). In a callback that is not async, use
/// [`asi.sleep`](crate::AsyncSteps::sleep).
///
/// ```
/// use std::time::Duration;
/// use asyncsteps_core::tool::{AsyncTool, Manual};
/// use asyncsteps_core::{Flow, Time};
///
/// let mut flow = Flow::new();
/// flow.run(async |()| {
///     asyncsteps_core::sleep(Duration::from_secs(3600)).await;
///     Ok("tea")
/// });
/// let tool = Manual::new(Time::ZERO);
/// let promise = flow.promise::<String, _>(&tool);
/// assert_eq!(tool.complete(promise).unwrap().unwrap(), "tea");
/// assert_eq!(tool.now().since_epoch(), Duration::from_secs(3600));
/// ```
///
/// # Panics
/// When it is first polled outside of a step of a flow, such as in a task that a step spawned.
///
/// # Cancel safety
/// Dropping the future disarms its timer.
pub fn sleep(pause: Duration) -> Sleep {
    Sleep { pause, alarm: None }
}

/// The time of the flow whose step polls the calling future (FTN12 §1.13), as
/// [`AsyncSteps::now`](crate::AsyncSteps::now) has it; `None` outside of steps that poll.
#[must_use]
pub fn turn_time() -> Option<Time> {
    let polling = POLLING.get();
    (polling.depth > 0).then_some(polling.now)
}

/// Leaves this for the flow whose step polls the calling future; says whether one does.
pub(crate) fn leave(left: Left) -> bool {
    let polling = POLLING.get();
    if polling.depth == 0 {
        return false;
    }
    LEFT.with_borrow_mut(|all| all.push(left));
    POLLING.set(Polling { left: polling.left + 1, ..polling });
    true
}

/// The future of [`sleep`].
#[must_use = "a future does nothing before it is polled"]
pub struct Sleep {
    pause: Duration,
    /// Set when it is first polled.
    alarm: Option<Rc<SleepAlarm>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polling = POLLING.get();
        assert!(polling.depth > 0, "`asyncsteps::sleep` is polled outside of a step of a flow");
        if let Some(alarm) = &self.alarm {
            if polling.now >= alarm.at {
                return Poll::Ready(());
            }
            alarm.waker.borrow_mut().clone_from(cx.waker());
            return Poll::Pending;
        }
        if self.pause.is_zero() {
            return Poll::Ready(());
        }
        let alarm =
            SleepAlarm { at: polling.now + self.pause, waker: RefCell::new(cx.waker().clone()) };
        let alarm = self.alarm.insert(Rc::new(alarm));
        leave(Left::Alarm(Rc::downgrade(alarm)));
        Poll::Pending
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("pause", &self.pause).finish_non_exhaustive()
    }
}

/// A poll of a future of a flow: as long as this lives, the thread knows the time of the flow's turn.
pub(crate) struct PollTurn {
    outer: Polling,
}

impl PollTurn {
    /// Begins a poll in a turn at `now`.
    #[inline]
    pub(crate) fn begin(now: Time) -> Self {
        let outer = POLLING.get();
        POLLING.set(Polling { now, depth: outer.depth + 1, left: 0 });
        Self { outer }
    }

    /// Ends the poll; returns what the future has left for the flow.
    #[inline]
    pub(crate) fn end(self) -> Option<Vec<Left>> {
        if POLLING.get().left == 0 { None } else { Some(Self::take_left()) }
    }

    #[cold]
    fn take_left() -> Vec<Left> {
        let polling = POLLING.get();
        POLLING.set(Polling { left: 0, ..polling });
        LEFT.with_borrow_mut(|all| all.split_off(all.len() - polling.left as usize))
    }
}

impl Drop for PollTurn {
    /// Something is left if the future panicked: it has ended, and so has that.
    #[inline]
    fn drop(&mut self) {
        if POLLING.get().left > 0 {
            drop(Self::take_left());
        }
        POLLING.set(self.outer);
    }
}

impl Alarms {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, alarm: Weak<SleepAlarm>) {
        if self.0.len() == self.0.capacity() {
            self.0.retain(|alarm| alarm.strong_count() > 0);
        }
        self.0.push(alarm);
    }

    /// When the first sleep ends.
    pub(crate) fn earliest(&self) -> Option<Time> {
        self.0.iter().filter_map(Weak::upgrade).map(|alarm| alarm.at).min()
    }

    /// Wakes the futures whose sleep has ended.
    pub(crate) fn wake(&mut self, now: Time) {
        self.0.retain(|alarm| {
            let Some(alarm) = alarm.upgrade() else { return false };
            if alarm.at <= now {
                alarm.waker.borrow().wake_by_ref();
            }
            alarm.at > now
        });
    }
}
