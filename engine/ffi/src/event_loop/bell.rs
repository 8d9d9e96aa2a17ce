//! Waking an event loop.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

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
        *self.rung.lock() = true;
        self.changed.notify_one();
        let wake = self.wake.lock().clone();
        if let Some(wake) = wake {
            wake();
        }
    }

    /// Sets the function that wakes the code that drives the loop.
    pub(crate) fn set_wake(&self, wake: Option<Call>) {
        *self.wake.lock() = wake;
    }

    /// Waits until it was rung since the last wait, or `limit` has passed.
    pub(crate) fn wait(&self, limit: Option<Duration>) {
        let mut rung = self.rung.lock();
        while !*rung {
            let Some(limit) = limit else {
                self.changed.wait(&mut rung);
                continue;
            };
            self.changed.wait_for(&mut rung, limit);
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
