//! Waking an event loop.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

/// Wakes the code that drives a loop.
pub(crate) type Call = Arc<dyn Fn() + Send + Sync>;

/// Wakes a loop that waits.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
    /// Wakes the code that drives the loop.
    wake: Mutex<Option<Call>>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *lock(&self.rung) = true;
        self.changed.notify_one();
        let wake = lock(&self.wake).clone();
        if let Some(wake) = wake {
            wake();
        }
    }

    /// Sets the function that wakes the code that drives the loop.
    pub(crate) fn set_wake(&self, wake: Option<Call>) {
        *lock(&self.wake) = wake;
    }

    /// Waits until it was rung since the last wait, or `limit` has passed.
    pub(crate) fn wait(&self, limit: Option<Duration>) {
        let mut rung = lock(&self.rung);
        while !*rung {
            let Some(limit) = limit else {
                rung = self.changed.wait(rung).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let waited = self.changed.wait_timeout(rung, limit);
            rung = waited.unwrap_or_else(PoisonError::into_inner).0;
            break;
        }
        *rung = false;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
