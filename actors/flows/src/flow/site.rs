//! How many flows an arbiter has: what its host places and ends flows by.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

thread_local! {
    static HERE: OnceCell<Here> = const { OnceCell::new() };
}

/// The flows of one arbiter, as its host sees them from other threads.
#[derive(Debug, Default)]
pub(crate) struct Site {
    /// Flows that wait here, and those that were submitted and are not over.
    load: AtomicUsize,
    closing: AtomicBool,
    /// The arbiter is gone.
    gone: AtomicBool,
    /// Told when the load has become zero.
    idle: Notify,
    /// Counted since the closing began.
    finished: AtomicUsize,
    cancelled: AtomicUsize,
}

/// Lives as long as the thread of the arbiter.
struct Here(Arc<Site>);

impl Drop for Here {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::SeqCst);
    }
}

/// A flow that was submitted, until it ends.
#[derive(Debug)]
pub(crate) struct Submission(Option<Arc<Site>>);

impl Site {
    /// Makes this the site of the current thread; the first one stays.
    pub(crate) fn settle(self: Arc<Self>) {
        HERE.with(|here| {
            here.get_or_init(|| Here(self));
        });
    }

    /// Flows that live here or are on their way; `None` if the arbiter is gone.
    pub(crate) fn load(&self) -> Option<usize> {
        (!self.gone.load(Ordering::SeqCst)).then(|| self.load.load(Ordering::SeqCst))
    }

    /// Counts a flow in that is to begin here, unless the host is closing.
    pub(crate) fn submit(self: &Arc<Self>) -> Option<Submission> {
        // counted before `closing` is read, while `close` sets it before it reads the count: with
        // sequential consistency one of the two sees the other
        self.load.fetch_add(1, Ordering::SeqCst);
        let submission = Submission(Some(Arc::clone(self)));
        if self.closing.load(Ordering::SeqCst) {
            submission.leave(None);
            return None;
        }
        Some(submission)
    }

    /// Takes no more submissions, and counts how flows end from now on.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Waits until no flow is left.
    pub(crate) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.load.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Flows that ended by themselves and flows that were cancelled, since the closing began.
    pub(crate) fn ended(&self) -> (usize, usize) {
        (self.finished.load(Ordering::SeqCst), self.cancelled.load(Ordering::SeqCst))
    }

    /// One flow less; `finished` tells whether it ended by itself, if that counts.
    fn leave(&self, finished: Option<bool>) {
        if self.closing.load(Ordering::SeqCst)
            && let Some(finished) = finished
        {
            let counter = if finished { &self.finished } else { &self.cancelled };
            counter.fetch_add(1, Ordering::SeqCst);
        }
        if self.load.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_waiters();
        }
    }
}

impl Submission {
    /// The flow ended, by itself or not.
    pub(crate) fn end(self, finished: bool) {
        self.leave(Some(finished));
    }

    fn leave(mut self, finished: Option<bool>) {
        if let Some(site) = self.0.take() {
            site.leave(finished);
        }
    }
}

impl Drop for Submission {
    /// The flow never began.
    fn drop(&mut self) {
        if let Some(site) = self.0.take() {
            site.leave(Some(false));
        }
    }
}

/// A flow became a task on this arbiter.
pub(super) fn entered() {
    HERE.with(|here| {
        if let Some(Here(site)) = here.get() {
            site.load.fetch_add(1, Ordering::SeqCst);
        }
    });
}

/// The task of a flow ended; `finished` if the flow ended by itself.
pub(super) fn left(finished: bool) {
    // when the thread ends there may be no site any more
    let _ = HERE.try_with(|here| {
        if let Some(Here(site)) = here.get() {
            site.leave(Some(finished));
        }
    });
}
