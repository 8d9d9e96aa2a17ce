//! The accounting of `Mutex` (FTN12 §1.11.1, §2.3): who is inside, who waits, and who is next.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use smallvec::SmallVec;

use super::wait_queue::WaitQueue;
use super::zero::{self, ZeroLimit};
use crate::flow::Identity;

pub use super::wait_queue::Ticket;

/// Limits of a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many owners may be inside at once, at least 1.
    pub max: u32,
    /// How many owners may wait; `None` = no limit, 0 = no queue.
    pub max_queue: Option<u32>,
}

impl Default for Options {
    /// One owner, no limit on the queue (FTN12 §2.3).
    fn default() -> Self {
        Self { max: 1, max_queue: None }
    }
}

impl Options {
    /// Checks limits that come from outside, such as a configuration (FTN12 §2.3).
    ///
    /// # Errors
    /// [`ZeroLimit`] if `max` is 0.
    pub const fn check(&self) -> Result<(), ZeroLimit> {
        if self.max == 0 { Err(ZeroLimit::of("`max` of a mutex")) } else { Ok(()) }
    }
}

/// A mutex, or a semaphore if its `max` is more than 1, that wakes no owner by itself
/// (FTN12 §1.11.1): `W` is a waiter, the handle by which its carrier wakes an owner, and `I`
/// identifies the owner.
///
/// The order is first come, first served; no owner overtakes the queue. An owner may enter again
/// while it is inside, and leaves as often as it entered.
#[derive(Debug)]
pub struct Queue<W, I = Identity> {
    options: Options,
    holders: Holders<I>,
    queue: WaitQueue<(I, W)>,
}

/// The owners inside, and how often each of them entered.
#[derive(Debug)]
enum Holders<I> {
    /// At most [`FEW`].
    Few(SmallVec<[(I, u32); 1]>),
    Many(HashMap<I, u32>),
}

/// Up to this number, a search from holder to holder is faster than a hash.
const FEW: u32 = 16;

impl<I: Copy + Eq + Hash> Holders<I> {
    fn new(max: u32) -> Self {
        if max <= FEW { Self::Few(SmallVec::new()) } else { Self::Many(HashMap::new()) }
    }

    fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    /// Counts an entry of an owner that is inside, or of another one if it `may_come`; says whether it is inside.
    #[inline]
    fn enter(&mut self, identity: I, may_come: bool) -> bool {
        match self {
            Self::Few(few) => match few.iter_mut().find(|(holder, _)| *holder == identity) {
                Some((_, entries)) => *entries += 1,
                None if may_come => few.push((identity, 1)),
                None => return false,
            },
            Self::Many(many) => match many.entry(identity) {
                Entry::Occupied(mut holder) => *holder.get_mut() += 1,
                Entry::Vacant(place) if may_come => {
                    place.insert(1);
                }
                Entry::Vacant(_) => return false,
            },
        }
        true
    }

    /// Takes an entry back; says whether that was the last one of an owner that was inside.
    #[inline]
    fn leave(&mut self, identity: I) -> bool {
        match self {
            Self::Few(few) => {
                let at = few.iter().position(|(holder, _)| *holder == identity);
                let Some(at) = at else { return false };
                few[at].1 -= 1;
                let has_left = few[at].1 == 0;
                if has_left {
                    few.swap_remove(at);
                }
                has_left
            }
            Self::Many(many) => {
                let Entry::Occupied(mut holder) = many.entry(identity) else { return false };
                *holder.get_mut() -= 1;
                let has_left = *holder.get() == 0;
                if has_left {
                    holder.remove();
                }
                has_left
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = I> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flatten().map(|(identity, _)| *identity);
        few.chain(many.into_iter().flat_map(HashMap::keys).copied())
    }
}

/// The result of [`Queue::lock`] of a mutex or a throttle (FTN12 §1.11.6).
#[expect(clippy::exhaustive_enums, reason = "the carrier of the queue must handle every case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The section may be entered.
    Entered,
    /// The owner waits in the queue until its turn comes or it leaves the queue.
    Queued(Ticket),
    /// The queue is full: `DefenseRejected` (FTN12 §1.11.6).
    Rejected,
}

impl<W, I: Copy + Eq + Hash> Queue<W, I> {
    /// An empty mutex.
    ///
    /// # Panics
    /// If `max` is 0, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn new(options: Options) -> Self {
        zero::refuse(options.check());
        Self {
            options,
            holders: Holders::new(options.max),
            queue: WaitQueue::new(options.max_queue),
        }
    }

    /// Enters if that takes no waiting; says whether it did.
    pub fn enter(&mut self, identity: I) -> bool {
        // with a queue, a free permit is for the first waiter
        let is_free = self.has_room() && self.queue.is_empty();
        self.holders.enter(identity, is_free)
    }

    /// Enters or waits; `waiter` is called only for an owner that has to wait.
    pub fn lock(&mut self, identity: I, waiter: impl FnOnce() -> W) -> LockOutcome {
        if self.enter(identity) {
            return LockOutcome::Entered;
        }
        self.queue.push(|| (identity, waiter())).map_or(LockOutcome::Rejected, LockOutcome::Queued)
    }

    /// Leaves once. Returns the next owner, which is inside from now on, if that freed a permit.
    ///
    /// An identity that is not inside changes nothing.
    #[must_use = "the next owner has to be woken"]
    pub fn unlock(&mut self, identity: I) -> Option<(I, W)> {
        if self.holders.leave(identity) { self.admit() } else { None }
    }

    /// Leaves the queue; `false` if the ticket is not in the queue any more.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        self.take(ticket).is_some()
    }

    /// Takes the waiter with this ticket out of the queue; `None` if it is not in the queue any
    /// more.
    pub fn take(&mut self, ticket: Ticket) -> Option<W> {
        self.queue.remove(ticket).map(|(_, waiter)| waiter)
    }

    /// Whether the owner with this ticket is still in the queue.
    #[must_use]
    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        self.queue.contains(ticket)
    }

    /// The waiter with this ticket; `None` if it is not in the queue any more.
    pub fn waiter_mut(&mut self, ticket: Ticket) -> Option<&mut W> {
        self.queue.get_mut(ticket).map(|(_, waiter)| waiter)
    }

    /// The owners inside, each once, in no particular order.
    pub fn inside(&self) -> impl Iterator<Item = I> {
        self.holders.all()
    }

    /// The owners that wait, the first one first.
    pub fn waiting(&self) -> impl Iterator<Item = (I, &W)> {
        self.queue.iter().map(|(identity, waiter)| (*identity, waiter))
    }

    /// How many owners are in front of this one in the queue; `None` if it does not wait. It goes
    /// through the queue: for logs and consoles.
    #[must_use]
    pub fn ahead_of(&self, identity: I) -> Option<usize> {
        self.queue.iter().position(|(waiting, _)| *waiting == identity)
    }

    /// How many owners are inside.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.holders.len()
    }

    /// How many owners wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    fn has_room(&self) -> bool {
        self.holders.len() < self.options.max as usize
    }

    fn admit(&mut self) -> Option<(I, W)> {
        if !self.has_room() {
            return None;
        }
        let (identity, waiter) = self.queue.pop()?;
        self.holders.enter(identity, true);
        Some((identity, waiter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flow;

    fn owners<const N: usize>() -> [Identity; N] {
        std::array::from_fn(|_| Identity { flow: Flow::new().id(), branch: 0 })
    }

    #[test]
    fn owners_enter_in_the_order_in_which_they_asked() {
        let [a, b, c] = owners();
        let mut mutex = Queue::new(Options::default());
        assert_eq!(mutex.lock(a, || 'a'), LockOutcome::Entered);
        assert!(matches!(mutex.lock(b, || 'b'), LockOutcome::Queued(_)));
        assert!(matches!(mutex.lock(c, || 'c'), LockOutcome::Queued(_)));
        assert_eq!(mutex.unlock(a), Some((b, 'b')));
        assert_eq!(mutex.unlock(a), None, "it is not inside any more");
        assert_eq!(mutex.unlock(b), Some((c, 'c')));
        assert_eq!(mutex.unlock(c), None);
        assert_eq!((mutex.holders(), mutex.queued()), (0, 0));
    }

    #[test]
    fn an_owner_leaves_as_often_as_it_entered() {
        let [a, b] = owners();
        let mut mutex = Queue::new(Options::default());
        assert_eq!(mutex.lock(a, || ()), LockOutcome::Entered);
        assert_eq!(mutex.lock(a, || ()), LockOutcome::Entered);
        assert!(matches!(mutex.lock(b, || ()), LockOutcome::Queued(_)));
        assert_eq!(mutex.unlock(a), None);
        assert_eq!(mutex.unlock(a), Some((b, ())));
    }

    #[test]
    fn a_full_queue_rejects_until_a_waiter_leaves() {
        let [a, b, c] = owners();
        let mut mutex = Queue::new(Options { max: 1, max_queue: Some(1) });
        assert_eq!(mutex.lock(a, || ()), LockOutcome::Entered);
        let LockOutcome::Queued(ticket) = mutex.lock(b, || ()) else {
            unreachable!("it has to wait")
        };
        assert_eq!(mutex.lock(c, || ()), LockOutcome::Rejected);
        assert!(mutex.withdraw(ticket));
        assert!(!mutex.withdraw(ticket));
        assert!(matches!(mutex.lock(c, || ()), LockOutcome::Queued(_)));
    }

    #[test]
    fn a_wide_mutex_keeps_the_same_accounts() {
        let owners: [Identity; 100] = owners();
        let mut mutex = Queue::new(Options { max: 99, max_queue: Some(1) });
        for owner in &owners[..99] {
            assert_eq!(mutex.lock(*owner, || ()), LockOutcome::Entered);
            assert_eq!(mutex.lock(*owner, || ()), LockOutcome::Entered);
        }
        assert!(matches!(mutex.lock(owners[99], || ()), LockOutcome::Queued(_)));
        assert_eq!((mutex.holders(), mutex.inside().count()), (99, 99));
        assert_eq!(mutex.unlock(owners[7]), None);
        assert_eq!(mutex.unlock(owners[7]), Some((owners[99], ())));
        assert_eq!(mutex.unlock(owners[7]), None, "it is not inside");
        assert!(!mutex.inside().any(|owner| owner == owners[7]));
    }

    #[test]
    fn at_most_max_owners_are_inside() {
        let [a, b, c] = owners();
        let mut mutex = Queue::new(Options { max: 2, max_queue: Some(0) });
        assert_eq!(mutex.lock(a, || ()), LockOutcome::Entered);
        assert_eq!(mutex.lock(b, || ()), LockOutcome::Entered);
        assert_eq!(mutex.lock(c, || ()), LockOutcome::Rejected);
    }
}
