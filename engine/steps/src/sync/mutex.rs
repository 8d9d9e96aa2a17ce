//! The accounting of `Mutex` (FTN12 §1.11.1, §2.3): who is inside, who waits, and who is next.

use std::collections::HashMap;
use std::hash::Hash;

use smallvec::SmallVec;

use super::line::Line;
use super::zero;
use crate::flow::Identity;

pub use super::line::Ticket;

/// Limits of a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many owners may be inside at once, at least 1.
    pub max: u32,
    /// How many may wait; `None` = no limit, 0 = nobody waits.
    pub max_queue: Option<u32>,
}

impl Default for Options {
    /// One owner, no limit on the queue (FTN12 §2.3).
    fn default() -> Self {
        Self { max: 1, max_queue: None }
    }
}

/// A mutex without a way to tell the waiting ones: `W` is whatever tells them, and `I` says who is
/// who.
///
/// The order is first come, first served; nobody overtakes the queue. The same identity may enter
/// again and leaves as often as it entered.
#[derive(Debug)]
pub struct Queue<W, I = Identity> {
    options: Options,
    inside: Inside<I>,
    waiting: Line<(I, W)>,
}

/// Who is inside, and how often each one entered.
#[derive(Debug)]
enum Inside<I> {
    /// No more than [`FEW`].
    Few(SmallVec<[(I, u32); 1]>),
    Many(HashMap<I, u32>),
}

/// So many holders are found faster one by one than by a hash.
const FEW: u32 = 16;

impl<I: Copy + Eq + Hash> Inside<I> {
    fn new(max: u32) -> Self {
        if max <= FEW { Self::Few(SmallVec::new()) } else { Self::Many(HashMap::new()) }
    }

    fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    fn add(&mut self, identity: I) {
        match self {
            Self::Few(few) => few.push((identity, 1)),
            Self::Many(many) => {
                many.insert(identity, 1);
            }
        }
    }

    fn entries(&mut self, identity: I) -> Option<&mut u32> {
        match self {
            Self::Few(few) => {
                few.iter_mut().find(|(holder, _)| *holder == identity).map(|(_, entries)| entries)
            }
            Self::Many(many) => many.get_mut(&identity),
        }
    }

    fn remove(&mut self, identity: I) {
        match self {
            Self::Few(few) => few.retain(|(holder, _)| *holder != identity),
            Self::Many(many) => {
                many.remove(&identity);
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

/// The answer to [`Queue::lock`], of a mutex or a throttle.
#[expect(clippy::exhaustive_enums, reason = "whoever carries the queue must handle every answer")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The section may be entered.
    Entered,
    /// The owner waits in the queue until its turn comes or it gives up its place.
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
        Self { options, inside: Inside::new(options.max), waiting: Line::new(options.max_queue) }
    }

    /// Enters if that needs no waiting; says whether it did.
    pub fn enter(&mut self, identity: I) -> bool {
        if let Some(entries) = self.inside.entries(identity) {
            *entries += 1;
            return true;
        }
        // a free place with a queue is promised to the first of the queue
        let free = self.has_room() && self.waiting.is_empty();
        if free {
            self.inside.add(identity);
        }
        free
    }

    /// Asks to enter; `tell` is made only for an owner that has to wait.
    pub fn lock(&mut self, identity: I, tell: impl FnOnce() -> W) -> Lock {
        if self.enter(identity) {
            return Lock::Entered;
        }
        self.waiting.join(|| (identity, tell())).map_or(Lock::Rejected, Lock::Queued)
    }

    /// Leaves once. Gives the next owner, which is inside from now on, if that freed a place.
    ///
    /// An identity that is not inside changes nothing.
    #[must_use = "the next owner has to be told"]
    pub fn unlock(&mut self, identity: I) -> Option<(I, W)> {
        let entries = self.inside.entries(identity)?;
        *entries -= 1;
        if *entries > 0 {
            return None;
        }
        self.inside.remove(identity);
        self.admit()
    }

    /// Gives up a place in the queue; `false` if the ticket is not in the queue any more.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        self.take(ticket).is_some()
    }

    /// Takes what tells the one with this ticket out of the queue, which gives up its place; `None`
    /// if it is not in the queue any more.
    pub fn take(&mut self, ticket: Ticket) -> Option<W> {
        self.waiting.withdraw(ticket).map(|(_, tell)| tell)
    }

    /// What tells the one with this ticket; `None` if it is not in the queue any more.
    pub fn tell_mut(&mut self, ticket: Ticket) -> Option<&mut W> {
        self.waiting.get_mut(ticket).map(|(_, tell)| tell)
    }

    /// Those who are inside, each once, in no particular order.
    pub fn inside(&self) -> impl Iterator<Item = I> {
        self.inside.all()
    }

    /// How many are in front of this owner in the queue; `None` if it does not wait. It looks at
    /// all of them: for people.
    #[must_use]
    pub fn ahead_of(&self, identity: I) -> Option<usize> {
        self.waiting.iter().position(|(waiting, _)| *waiting == identity)
    }

    /// How many owners are inside.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.inside.len()
    }

    /// How many wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.waiting.len()
    }

    fn has_room(&self) -> bool {
        self.inside.len() < self.options.max as usize
    }

    fn admit(&mut self) -> Option<(I, W)> {
        if !self.has_room() {
            return None;
        }
        let (identity, tell) = self.waiting.next()?;
        self.inside.add(identity);
        Some((identity, tell))
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
    fn owners_enter_in_the_order_of_their_asking() {
        let [a, b, c] = owners();
        let mut mutex = Queue::new(Options::default());
        assert_eq!(mutex.lock(a, || 'a'), Lock::Entered);
        assert!(matches!(mutex.lock(b, || 'b'), Lock::Queued(_)));
        assert!(matches!(mutex.lock(c, || 'c'), Lock::Queued(_)));
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
        assert_eq!(mutex.lock(a, || ()), Lock::Entered);
        assert_eq!(mutex.lock(a, || ()), Lock::Entered);
        assert!(matches!(mutex.lock(b, || ()), Lock::Queued(_)));
        assert_eq!(mutex.unlock(a), None);
        assert_eq!(mutex.unlock(a), Some((b, ())));
    }

    #[test]
    fn a_full_queue_rejects_and_a_withdrawn_place_is_free_again() {
        let [a, b, c] = owners();
        let mut mutex = Queue::new(Options { max: 1, max_queue: Some(1) });
        assert_eq!(mutex.lock(a, || ()), Lock::Entered);
        let Lock::Queued(ticket) = mutex.lock(b, || ()) else { unreachable!("it has to wait") };
        assert_eq!(mutex.lock(c, || ()), Lock::Rejected);
        assert!(mutex.withdraw(ticket));
        assert!(!mutex.withdraw(ticket));
        assert!(matches!(mutex.lock(c, || ()), Lock::Queued(_)));
    }

    #[test]
    fn a_wide_mutex_keeps_the_same_accounts() {
        let owners: [Identity; 100] = owners();
        let mut mutex = Queue::new(Options { max: 99, max_queue: Some(1) });
        for owner in &owners[..99] {
            assert_eq!(mutex.lock(*owner, || ()), Lock::Entered);
            assert_eq!(mutex.lock(*owner, || ()), Lock::Entered);
        }
        assert!(matches!(mutex.lock(owners[99], || ()), Lock::Queued(_)));
        assert_eq!((mutex.holders(), mutex.inside().count()), (99, 99));
        assert_eq!(mutex.unlock(owners[7]), None);
        assert_eq!(mutex.unlock(owners[7]), Some((owners[99], ())));
        assert_eq!(mutex.unlock(owners[7]), None, "it is not inside");
        assert!(!mutex.inside().any(|owner| owner == owners[7]));
    }

    #[test]
    fn as_many_as_max_are_inside() {
        let [a, b, c] = owners();
        let mut mutex = Queue::new(Options { max: 2, max_queue: Some(0) });
        assert_eq!(mutex.lock(a, || ()), Lock::Entered);
        assert_eq!(mutex.lock(b, || ()), Lock::Entered);
        assert_eq!(mutex.lock(c, || ()), Lock::Rejected);
    }
}
