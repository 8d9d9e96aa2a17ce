//! The locks that a program shows.

use std::cmp::Reverse;
use std::sync::Arc;

use asyncsteps_actors::sync::{KeyOwners, KeyReport, Limiter, LockReport, Mutex, Throttle};

/// Locks that a program names, so that their holders and queues can be shown. Cloning is cheap and
/// shares the locks.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Locks({:?})", self.0.len())]
pub struct Locks(Arc<Vec<Watched>>);

#[derive(Clone)]
enum Watched {
    Mutex(Mutex),
    Throttle(Throttle),
    Limiter(Limiter),
}

/// A lock as a moment ago.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WatchedLock {
    /// `mutex`, `throttle` or `limiter`.
    pub kind: &'static str,
    /// Its name, its limits, its keys in use, and the counts of its waits.
    pub report: LockReport,
    /// Its busiest keys, those with the longest queues first; as many as were asked for.
    pub busiest: Vec<BusyKey>,
}

/// A key of a lock, and who holds it and waits for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BusyKey {
    /// The key, and how busy it is.
    pub report: KeyReport,
    /// Who holds it and who waits, as many as were asked for.
    pub owners: KeyOwners,
}

/// The detail in which locks are reported: a lock may have as many keys, holders and waiters as there are
/// requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "options")]
pub struct LockDetail {
    /// The most keys of each lock whose owners are reported; none by default.
    pub keys: usize,
    /// The most holders and the most waiters of each of them; none by default.
    pub owners: usize,
}

impl Locks {
    /// No locks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a mutex, with all of its keys. Locks are distinguished by their names.
    #[must_use]
    pub fn mutex(self, mutex: &Mutex) -> Self {
        self.watch(Watched::Mutex(mutex.clone()))
    }

    /// Adds a throttle.
    #[must_use]
    pub fn throttle(self, throttle: &Throttle) -> Self {
        self.watch(Watched::Throttle(throttle.clone()))
    }

    /// Adds a limiter.
    #[must_use]
    pub fn limiter(self, limiter: &Limiter) -> Self {
        self.watch(Watched::Limiter(limiter.clone()))
    }

    fn watch(mut self, lock: Watched) -> Self {
        Arc::make_mut(&mut self.0).push(lock);
        self
    }

    /// The locks as they are now, in the order in which they were added. Their keys are gone through on
    /// a thread of their own, so that locks with many keys hold up no arbiter.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn look(&self, closely: LockDetail) -> Vec<WatchedLock> {
        let locks = Arc::clone(&self.0);
        let look = move || locks.iter().map(|lock| lock.look(closely)).collect();
        // it is aborted with its runtime only
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }
}

impl Watched {
    fn look(&self, closely: LockDetail) -> WatchedLock {
        let (kind, report) = match self {
            Self::Mutex(mutex) => ("mutex", mutex.inspect()),
            Self::Throttle(throttle) => ("throttle", throttle.inspect()),
            Self::Limiter(limiter) => ("limiter", limiter.inspect()),
        };
        let mut keys: Vec<&KeyReport> = match closely.keys {
            0 => Vec::new(),
            _ => report.keys.iter().collect(),
        };
        keys.sort_by_key(|key| (Reverse(key.queued), Reverse(key.holders), &key.key));
        let busiest = keys.into_iter().take(closely.keys).map(|key| BusyKey {
            report: key.clone(),
            owners: self.owners(&key.key, closely.owners),
        });
        let busiest = busiest.collect();
        WatchedLock { kind, report, busiest }
    }

    fn owners(&self, key: &str, most: usize) -> KeyOwners {
        match self {
            Self::Mutex(mutex) => mutex.key(key).owners(most),
            Self::Throttle(throttle) => throttle.key(key).owners(most),
            Self::Limiter(limiter) => limiter.key(key).owners(most),
        }
    }
}
