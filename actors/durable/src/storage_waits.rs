//! How long results of a request have waited for storage: time limits do not count that.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_core::Time;

use crate::on_drop::on_drop;

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

impl StorageWaits {
    /// A result begins to wait, until this is dropped.
    pub(crate) fn wait(self: &Rc<Self>) -> impl Sized + use<> {
        if self.waiting.replace(self.waiting.get() + 1) == 0 {
            self.since.set(clock::now());
        }
        let waits = Rc::clone(self);
        on_drop(move || {
            let Self { waiting, since, ended } = &*waits;
            waiting.set(waiting.get() - 1);
            if waiting.get() == 0 {
                ended.set(ended.get() + clock::now().saturating_since(since.get()));
            }
        })
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
