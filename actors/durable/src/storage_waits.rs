//! How long results of a request have waited for storage: time limits do not count that.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_core::Time;

/// The time in which at least one result of a request waited for storage.
#[derive(Debug, Default)]
pub(crate) struct StorageWaits {
    /// How many results wait.
    waiting: Cell<usize>,
    /// Since when there is one that waits.
    since: Cell<Time>,
    /// The time of the waits that have ended.
    ended: Cell<Duration>,
}

/// A result that waits for storage, until this is dropped.
pub(crate) struct StorageWait(Rc<StorageWaits>);

impl StorageWaits {
    /// A result begins to wait.
    pub(crate) fn wait(self: &Rc<Self>) -> StorageWait {
        if self.waiting.replace(self.waiting.get() + 1) == 0 {
            self.since.set(clock::now());
        }
        StorageWait(Rc::clone(self))
    }

    /// How long results have waited so far.
    pub(crate) fn waited(&self, now: Time) -> Duration {
        let waits = if self.waiting.get() == 0 {
            Duration::ZERO
        } else {
            now.saturating_since(self.since.get())
        };
        self.ended.get() + waits
    }
}

impl Drop for StorageWait {
    fn drop(&mut self) {
        let StorageWaits { waiting, since, ended } = &*self.0;
        waiting.set(waiting.get() - 1);
        if waiting.get() == 0 {
            ended.set(ended.get() + clock::now().saturating_since(since.get()));
        }
    }
}
