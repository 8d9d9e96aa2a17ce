//! Counting the requests that are not over, so that a shutdown can wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts requests in and out, over all arbiters.
#[derive(Debug, Default)]
pub(super) struct Drain {
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

/// A request that is counted in, until this is dropped.
///
/// Dropping it counts as cancelled; [`finish`](Self::finish) says that it ended by itself.
pub(super) struct Entered {
    drain: Arc<Drain>,
    finished: bool,
}

impl Drain {
    /// Counts a request in; `None` while closing.
    pub(super) fn admit(self: &Arc<Self>) -> Option<Entered> {
        // counted before `closing` is read, while `close` sets it before it reads the count: with
        // sequential consistency one of the two sees the other
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.is_closing() {
            self.count_out();
            return None;
        }
        Some(Entered { drain: Arc::clone(self), finished: false })
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Admits no more requests; says whether it was open.
    pub(super) fn close(&self) -> bool {
        let was_open = !self.closing.swap(true, Ordering::SeqCst);
        self.closes.notify_waiters();
        was_open
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Waits until no more requests are admitted.
    pub(super) async fn closing(&self) {
        let closes = self.closes.notified();
        if !self.is_closing() {
            closes.await;
        }
    }

    /// Waits until no request is left.
    pub(super) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.count() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Requests that ended by themselves and requests that were cancelled, since the closing began.
    pub(super) fn ended(&self) -> (usize, usize) {
        (self.finished.load(Ordering::SeqCst), self.cancelled.load(Ordering::SeqCst))
    }

    fn count_out(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_waiters();
        }
    }
}

impl Entered {
    /// The request ended by itself.
    pub(super) fn finish(&mut self) {
        self.finished = true;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let drain = &self.drain;
        if drain.is_closing() {
            let counter = if self.finished { &drain.finished } else { &drain.cancelled };
            counter.fetch_add(1, Ordering::SeqCst);
        }
        drain.count_out();
    }
}
