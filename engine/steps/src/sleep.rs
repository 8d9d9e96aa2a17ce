//! A pause inside of an async body (FTN12 §1.13): a timer of the flow whose step polls it.
//!
//! While a step polls its future, the thread knows the time of the flow's turn and collects the alarms
//! that are set. The flow keeps them, and they count for its deadline: so a pause needs no clock and
//! no runtime, and works on every host.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::time::Time;

thread_local! {
    static TURN: Cell<Option<Turn>> = const { Cell::new(None) };
    /// The alarms that were set and not taken by their flow yet.
    static SET: RefCell<Vec<Weak<Alarm>>> = const { RefCell::new(Vec::new()) };
}

/// The turn of a flow that polls a future on this thread.
#[derive(Clone, Copy)]
struct Turn {
    now: Time,
    /// How many alarms the future has set.
    set: usize,
}

/// When a sleep is over, and what to wake then.
struct Alarm {
    at: Time,
    waker: RefCell<Waker>,
}

/// The alarms of a flow; those whose sleep was dropped count no more.
#[derive(Default)]
pub(crate) struct Alarms(Vec<Weak<Alarm>>);

/// Waits for this long, in the body of a step: in [`run`](crate::AsyncSteps::run),
/// [`await_`](crate::AsyncSteps::await_) and the like.
///
/// It is a timer of the flow, so it works on every host, and in virtual time in a
/// [simulation](crate::sim). In a callback that is not async, use
/// [`asi.sleep`](crate::AsyncSteps::sleep).
///
/// ```
/// use std::time::Duration;
/// use asyncsteps::tool::{AsyncTool, Manual};
/// use asyncsteps::{Flow, Time};
///
/// let mut flow = Flow::new();
/// flow.run(async |()| {
///     asyncsteps::sleep(Duration::from_secs(3600)).await;
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
    TURN.get().map(|turn| turn.now)
}

/// The future of [`sleep`].
#[must_use = "a future does nothing before it is polled"]
pub struct Sleep {
    pause: Duration,
    /// Set when it is first polled.
    alarm: Option<Rc<Alarm>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(turn) = TURN.get() else {
            panic!("`asyncsteps::sleep` is polled outside of a step of a flow")
        };
        if let Some(alarm) = &self.alarm {
            if turn.now >= alarm.at {
                return Poll::Ready(());
            }
            alarm.waker.borrow_mut().clone_from(cx.waker());
            return Poll::Pending;
        }
        if self.pause.is_zero() {
            return Poll::Ready(());
        }
        let alarm = Alarm { at: turn.now + self.pause, waker: RefCell::new(cx.waker().clone()) };
        let alarm = self.alarm.insert(Rc::new(alarm));
        SET.with_borrow_mut(|set| set.push(Rc::downgrade(alarm)));
        TURN.set(Some(Turn { set: turn.set + 1, ..turn }));
        Poll::Pending
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("pause", &self.pause).finish_non_exhaustive()
    }
}

/// Polls a future of a flow in its turn at `now`; gives the alarms that it set. `poll` does not panic.
#[inline]
pub(crate) fn in_turn<R>(now: Time, poll: impl FnOnce() -> R) -> (R, Option<Alarms>) {
    let outer = TURN.replace(Some(Turn { now, set: 0 }));
    let result = poll();
    let set = TURN.replace(outer).map_or(0, |turn| turn.set);
    (result, if set == 0 { None } else { Some(Alarms::take(set)) })
}

impl Alarms {
    /// Takes the alarms that were set last.
    #[cold]
    fn take(count: usize) -> Self {
        Self(SET.with_borrow_mut(|set| set.split_off(set.len() - count)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.0.retain(|alarm| alarm.strong_count() > 0);
        self.0.extend(more.0);
    }

    /// When the first sleep is over.
    pub(crate) fn earliest(&self) -> Option<Time> {
        self.0.iter().filter_map(Weak::upgrade).map(|alarm| alarm.at).min()
    }

    /// Wakes the futures whose sleep is over.
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
