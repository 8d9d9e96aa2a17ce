//! Counting flows or requests in flight, so that a shutdown can wait for them and report how they
//! ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts flows of an arbiter, or requests of an executor, in flight, and lets a shutdown wait
/// until none is left.
///
/// It is shared by all threads that let something in.
///
/// ```
/// use std::sync::Arc;
/// use asyncsteps_actors::drain::Drain;
///
/// # actix::System::new().block_on(async {
/// let drain = Arc::<Drain>::default();
/// let mut entered = drain.admit().expect("it is open");
/// assert!(drain.close() && drain.admit().is_none());
/// entered.finish();
/// drop(entered);
/// drain.idle().await;
/// assert_eq!((drain.ended().finished, drain.ended().cancelled), (1, 0));
/// # });
/// ```
#[derive(Debug, Default)]
pub struct Drain {
    count: AtomicUsize,
    closing: AtomicBool,
    /// Notified when the count becomes zero.
    idle: Notify,
    /// Notified when the closing begins; apart, because idle connections wait for nothing else.
    closes: Notify,
    /// Counted since the closing began.
    finished: AtomicUsize,
    cancelled: AtomicUsize,
}

/// How the flows or requests in flight at the beginning of a shutdown ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Ended by themselves.
    pub finished: usize,
    /// Cancelled: at the end of the grace, by a deadline of their own, or on request.
    pub cancelled: usize,
    /// Flows that a pool stopped before their effects were undone, or before a blocking step of
    /// theirs could be cancelled.
    pub not_undone: usize,
}

impl std::iter::Sum for Drained {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, ended| Self {
            finished: sum.finished + ended.finished,
            cancelled: sum.cancelled + ended.cancelled,
            not_undone: sum.not_undone + ended.not_undone,
        })
    }
}

/// Guard of one that is counted in, until this is dropped.
///
/// Dropping it counts as cancelled; [`finish`](Self::finish) says that it ended by itself.
#[derive(Debug)]
#[must_use = "dropping it counts it out"]
pub struct DrainGuard {
    drain: Arc<Drain>,
    /// Whether it ended by itself; None if it did not end.
    end: Option<bool>,
}

impl Drain {
    /// Counts one in until [`leave`](Self::leave), also while closing: for what those inside start.
    pub(crate) fn enter(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one out; `finished` if it ended by itself.
    pub(crate) fn leave(&self, finished: bool) {
        if self.is_closing() {
            let counter = if finished { &self.finished } else { &self.cancelled };
            counter.fetch_add(1, Ordering::SeqCst);
        }
        self.count_out();
    }

    /// Counts one in from outside; `None` while closing.
    #[must_use]
    pub fn admit(self: &Arc<Self>) -> Option<DrainGuard> {
        // counted before `closing` is read, while `close` sets it before it reads the count: with
        // sequential consistency one of the two sees the other
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.is_closing() {
            self.count_out();
            return None;
        }
        Some(DrainGuard { drain: Arc::clone(self), end: Some(false) })
    }

    /// Counts one in that one inside has started, also while closing.
    pub fn admit_inside(self: &Arc<Self>) -> DrainGuard {
        self.enter();
        DrainGuard { drain: Arc::clone(self), end: Some(false) }
    }

    /// How many are counted in.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Admits no more, and counts from now on how the others end; says whether it was open.
    pub fn close(&self) -> bool {
        let was_open = !self.closing.swap(true, Ordering::SeqCst);
        self.closes.notify_waiters();
        was_open
    }

    /// Whether it admits no more.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Waits until it admits no more; ready at once if it does not.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn closing(&self) {
        let closes = self.closes.notified();
        if !self.is_closing() {
            closes.await;
        }
    }

    /// Waits until none is counted in.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.count() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// How those ended that ended since the closing began.
    #[must_use]
    pub fn ended(&self) -> Drained {
        Drained {
            finished: self.finished.load(Ordering::SeqCst),
            cancelled: self.cancelled.load(Ordering::SeqCst),
            not_undone: 0,
        }
    }

    fn count_out(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_waiters();
        }
    }
}

impl DrainGuard {
    /// It ended by itself: dropping it counts as finished from now on.
    pub fn finish(&mut self) {
        self.end = Some(true);
    }

    /// It goes on elsewhere, or is counted in another way: dropping it counts it out, and neither as finished nor as
    /// cancelled.
    pub fn hand_over(&mut self) {
        self.end = None;
    }
}

impl Drop for DrainGuard {
    fn drop(&mut self) {
        match self.end {
            Some(finished) => self.drain.leave(finished),
            None => self.drain.count_out(),
        }
    }
}
