//! A value that tasks wait for.

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// A value that tasks wait for. They wake in the order in which they began to wait; the waiters of tokio's `watch` wake in
/// a random order, which a simulation could not repeat.
#[derive(Debug, Default)]
pub struct WatchedValue<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> WatchedValue<T> {
    /// A value that no task waits for yet.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    /// Looks at the value, or changes it without waking what waits for it.
    pub fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.value.lock())
    }

    /// Changes the value.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.value.lock());
        self.changed.notify_waiters();
        result
    }

    /// Completes with the next change after this call.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Re-evaluates `look` after each change until it returns `Some`.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn wait_for<R>(&self, mut look: impl FnMut(&mut T) -> Option<R>) -> R {
        loop {
            let changed = self.changed();
            if let Some(result) = look(&mut self.value.lock()) {
                return result;
            }
            changed.await;
        }
    }
}
