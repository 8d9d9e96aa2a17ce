//! Waiting for the end of a flow on another thread (FTN12 §2.2.3 `cancel`).

use std::thread::{self, ThreadId};

use parking_lot::{Condvar, Mutex};

/// The end of one execution of a root, which happens once.
#[derive(Default)]
pub(crate) struct RootEnd {
    is_over: Mutex<bool>,
    changed: Condvar,
}

/// Pairs of a thread and the thread that it waits for. A thread waits for one at a time.
static WAITS: Mutex<Vec<(ThreadId, ThreadId)>> = Mutex::new(Vec::new());

/// The wait of the current thread for another one.
struct ThreadWait;

impl ThreadWait {
    /// `None` if the other thread waits for this one, directly or through others: both would wait for
    /// ever.
    fn begin(on: ThreadId) -> Option<Self> {
        let (mut waits, this) = (WAITS.lock(), thread::current().id());
        let mut next = Some(on);
        while let Some(at) = next {
            if at == this {
                return None;
            }
            next = waits.iter().find(|(waiting, _)| *waiting == at).map(|(_, on)| *on);
        }
        waits.push((this, on));
        Some(Self)
    }
}

impl Drop for ThreadWait {
    fn drop(&mut self) {
        let this = thread::current().id();
        WAITS.lock().retain(|(waiting, _)| *waiting != this);
    }
}

impl RootEnd {
    /// Wakes the threads that wait.
    pub(crate) fn signal(&self) {
        *self.is_over.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until the thread `on` has ended the execution. Returns at once if that is this thread or
    /// one that waits for it.
    pub(crate) fn wait(&self, on: ThreadId) {
        let Some(_waits) = ThreadWait::begin(on) else { return };
        let mut is_over = self.is_over.lock();
        while !*is_over {
            self.changed.wait(&mut is_over);
        }
    }
}
