//! The locks that a program shows.

use std::fmt;
use std::sync::Arc;

use asyncsteps_actors::sync::{Limiter, LockReport, Mutex, Throttle};

/// Locks that a program names, so that their holders and queues can be shown. Cloning is cheap and
/// shares the locks.
#[derive(Clone, Default)]
pub struct Locks(Vec<Watched>);

/// A lock, and how it is asked for its load.
#[derive(Clone)]
struct Watched {
    kind: &'static str,
    report: Arc<dyn Fn() -> LockReport + Send + Sync>,
}

/// A lock as a moment ago.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WatchedLock {
    /// `mutex`, `throttle` or `limiter`.
    pub kind: &'static str,
    /// Its name and its keys in use.
    pub report: LockReport,
}

impl Locks {
    /// No locks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a mutex, with all of its keys. Locks are told apart by their names.
    #[must_use]
    pub fn mutex(self, mutex: &Mutex) -> Self {
        let mutex = mutex.clone();
        self.watch("mutex", move || mutex.inspect())
    }

    /// Adds a throttle.
    #[must_use]
    pub fn throttle(self, throttle: &Throttle) -> Self {
        let throttle = throttle.clone();
        self.watch("throttle", move || throttle.inspect())
    }

    /// Adds a limiter.
    #[must_use]
    pub fn limiter(self, limiter: &Limiter) -> Self {
        let limiter = limiter.clone();
        self.watch("limiter", move || limiter.inspect())
    }

    fn watch(
        mut self,
        kind: &'static str,
        report: impl Fn() -> LockReport + Send + Sync + 'static,
    ) -> Self {
        self.0.push(Watched { kind, report: Arc::new(report) });
        self
    }

    /// The locks as they are now, in the order in which they were added.
    #[must_use]
    pub fn look(&self) -> Vec<WatchedLock> {
        let look =
            |watched: &Watched| WatchedLock { kind: watched.kind, report: (watched.report)() };
        self.0.iter().map(look).collect()
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Locks").field(&self.0.len()).finish()
    }
}
