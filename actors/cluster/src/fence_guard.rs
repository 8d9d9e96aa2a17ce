//! Tokens that this process has seen.

use std::collections::{BTreeSet, HashMap};

use asyncsteps_actors::sync::FencingToken;
use parking_lot::Mutex;

/// How many locks a guard remembers by default.
const LOCKS: usize = 100_000;

/// Refuses tokens that are older than one that this process has seen.
///
/// It is advisory: other processes do not know what it saw, and it forgets with the process. It saves
/// work that would be refused later; what must not happen is refused by the storage of the effect, see
/// [`sql`](crate::sql).
///
/// ```
/// use asyncsteps_cluster::{FenceGuard, FencingToken};
///
/// let guard = FenceGuard::default();
/// guard.accept(&FencingToken::new("stock", "apples", 8))?;
/// assert!(guard.accept(&FencingToken::new("stock", "apples", 7)).is_err());
/// # Ok::<(), asyncsteps_cluster::StaleFence>(())
/// ```
#[derive(Debug)]
pub struct FenceGuard {
    seen: Mutex<SeenTokens>,
    locks: usize,
}

#[derive(Debug, Default)]
struct SeenTokens {
    highest: HashMap<(String, String), u64>,
    /// The locks by these numbers. All locks of a cluster draw from one sequence, so the lowest number is
    /// the oldest.
    oldest: BTreeSet<(u64, String, String)>,
}

/// A later holder of the lock was seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token {fence} is refused: {highest} was seen before")]
#[non_exhaustive]
pub struct StaleFence {
    /// The token that is refused.
    pub fence: FencingToken,
    /// The number of the later holder.
    pub highest: u64,
}

impl Default for FenceGuard {
    /// A guard that remembers 100,000 locks: about 20 MB with short names.
    fn default() -> Self {
        Self::with_locks(LOCKS)
    }
}

impl FenceGuard {
    /// A guard that remembers `locks` locks, at least one; beyond that it forgets the one whose holder
    /// is the longest ago.
    #[must_use]
    pub fn with_locks(locks: usize) -> Self {
        Self { seen: Mutex::default(), locks: locks.max(1) }
    }

    /// Remembers a token.
    ///
    /// # Errors
    /// [`StaleFence`] if one of a later holder was seen.
    pub fn accept(&self, fence: &FencingToken) -> Result<(), StaleFence> {
        let (lock, key) = (fence.lock().to_owned(), fence.key().to_owned());
        let mut seen = self.seen.lock();
        if let Some(highest) = seen.highest.get(&(lock.clone(), key.clone())).copied() {
            if highest > fence.epoch() {
                return Err(StaleFence { fence: fence.clone(), highest });
            }
            seen.oldest.remove(&(highest, lock.clone(), key.clone()));
        }
        seen.highest.insert((lock.clone(), key.clone()), fence.epoch());
        seen.oldest.insert((fence.epoch(), lock, key));
        if seen.highest.len() > self.locks
            && let Some((_, lock, key)) = seen.oldest.pop_first()
        {
            seen.highest.remove(&(lock, key));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_of_each_lock_counts() {
        let guard = FenceGuard::default();
        let accept = |lock, epoch| guard.accept(&FencingToken::new(lock, "", epoch)).is_ok();
        assert!(accept("a", 5) && accept("a", 5) && accept("b", 3) && accept("a", 6));
        assert!(!accept("a", 5) && !accept("b", 2) && accept("b", 3));
    }

    #[test]
    fn it_forgets_the_oldest_holder() {
        let guard = FenceGuard::with_locks(2);
        let accept = |lock, epoch| guard.accept(&FencingToken::new(lock, "", epoch)).is_ok();
        assert!(accept("a", 1) && accept("b", 2) && accept("a", 3) && accept("c", 4));
        assert!(accept("b", 1), "it was forgotten");
        assert!(!accept("c", 3), "it is remembered");
    }
}
