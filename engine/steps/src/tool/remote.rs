//! How other threads reach a loop (FTN12 §2.6).

use std::fmt;
use std::sync::Arc;

use super::arrivals::Arrivals;
use super::manual::{Manual, Post};

/// Reaches a [`Manual`] loop from any thread (FTN12 §2.6, §2.7.2 `sched_immediate`).
#[derive(Clone)]
pub struct Remote(Arc<Arrivals<Post>>);

impl Manual {
    /// A handle for other threads.
    #[must_use]
    pub fn remote(&self) -> Remote {
        Remote(Arc::clone(self.arrivals()))
    }
}

impl Remote {
    /// Makes the loop call `task` on its own thread, in its next round (FTN12 §2.6 `immediate`).
    ///
    /// The task gets the loop, to schedule more on it. It is dropped if the loop is gone.
    pub fn immediate(&self, task: impl FnOnce(&Manual) + Send + 'static) {
        self.0.post(Box::new(task));
    }

    /// Whether this is the thread on which the loop was made (FTN12 §2.6 `is_same_thread`).
    #[must_use]
    pub fn is_same_thread(&self) -> bool {
        self.0.is_same_thread()
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("same_thread", &self.is_same_thread()).finish()
    }
}

const _: () = {
    const fn any_thread<T: Send + Sync + 'static>() {}
    any_thread::<Remote>();
};
