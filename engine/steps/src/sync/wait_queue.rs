//! A queue of waiters (FTN12 §1.11.6): first come, first served; a waiter can leave it.

use std::collections::VecDeque;

/// Names a waiter in a queue (FTN12 §1.11.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Waiters in the order in which they came.
#[derive(Debug)]
pub(super) struct WaitQueue<T> {
    /// Tickets grow from front to back.
    waiters: VecDeque<(Ticket, T)>,
    next_ticket: u64,
    limit: Option<u32>,
}

impl<T> WaitQueue<T> {
    /// An empty queue for at most `limit` waiters; `None` = no limit.
    pub(super) fn new(limit: Option<u32>) -> Self {
        Self { waiters: VecDeque::new(), next_ticket: 0, limit }
    }

    /// Appends the waiter that `make` makes; `None`, and nothing made, if the queue is full.
    pub(super) fn push(&mut self, make: impl FnOnce() -> T) -> Option<Ticket> {
        if self.limit.is_some_and(|limit| self.waiters.len() >= limit as usize) {
            return None;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiters.push_back((ticket, make()));
        Some(ticket)
    }

    /// Takes the first waiter out of the queue.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.waiters.pop_front().map(|(_, waiter)| waiter)
    }

    /// Takes a waiter out of the queue; `None` if it is not in the queue any more.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let position = self.position(ticket)?;
        self.waiters.remove(position).map(|(_, waiter)| waiter)
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        let position = self.position(ticket)?;
        self.waiters.get_mut(position).map(|(_, waiter)| waiter)
    }

    pub(super) fn contains(&self, ticket: Ticket) -> bool {
        self.position(ticket).is_some()
    }

    /// The first waiter.
    pub(super) fn first(&self) -> Option<(Ticket, &T)> {
        self.waiters.front().map(|(ticket, waiter)| (*ticket, waiter))
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// All waiters, the first one first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiters.iter().map(|(_, waiter)| waiter)
    }

    fn position(&self, ticket: Ticket) -> Option<usize> {
        self.waiters.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_come_is_the_first_to_go() {
        let mut queue = WaitQueue::new(None);
        let [a, b, c] = ['a', 'b', 'c'].map(|name| queue.push(|| name).expect("no limit"));
        assert_eq!(queue.remove(b), Some('b'));
        assert_eq!(queue.remove(b), None, "it left before");
        assert_eq!(queue.first(), Some((a, &'a')));
        assert_eq!(queue.pop(), Some('a'));
        assert_eq!(queue.get_mut(a), None);
        assert_eq!(queue.get_mut(c), Some(&mut 'c'));
        assert_eq!((queue.len(), queue.is_empty()), (1, false));
    }

    #[test]
    fn a_full_queue_takes_no_waiter_until_one_leaves() {
        let mut queue = WaitQueue::new(Some(1));
        let ticket = queue.push(|| ()).expect("there is room");
        assert_eq!(queue.push(|| ()), None);
        queue.remove(ticket);
        assert!(queue.push(|| ()).is_some());
        assert_eq!(WaitQueue::<()>::new(Some(0)).push(|| ()), None);
    }
}
