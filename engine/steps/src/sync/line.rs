//! A waiting line (FTN12 §1.11.6): first come, first served; a place can be given up.

use std::collections::VecDeque;

/// Names a place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Those who wait, in the order of their coming.
#[derive(Debug)]
pub(super) struct Line<T> {
    /// Tickets grow from front to back.
    places: VecDeque<(Ticket, T)>,
    tickets: u64,
    limit: Option<u32>,
}

impl<T> Line<T> {
    /// An empty line for `limit` waiting ones at most; `None` = no limit.
    pub(super) fn new(limit: Option<u32>) -> Self {
        Self { places: VecDeque::new(), tickets: 0, limit }
    }

    /// Gives the last place to whoever `waiter` makes; `None` if the line is full.
    pub(super) fn join(&mut self, waiter: impl FnOnce() -> T) -> Option<Ticket> {
        if self.limit.is_some_and(|limit| self.places.len() >= limit as usize) {
            return None;
        }
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.places.push_back((ticket, waiter()));
        Some(ticket)
    }

    /// Takes the first one out of the line.
    pub(super) fn next(&mut self) -> Option<T> {
        self.places.pop_front().map(|(_, waiter)| waiter)
    }

    /// Gives up a place; `None` if it is not in the line any more.
    pub(super) fn withdraw(&mut self, ticket: Ticket) -> Option<T> {
        let at = self.position(ticket)?;
        self.places.remove(at).map(|(_, waiter)| waiter)
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        let at = self.position(ticket)?;
        self.places.get_mut(at).map(|(_, waiter)| waiter)
    }

    /// The first in the line.
    pub(super) fn first(&self) -> Option<(Ticket, &T)> {
        self.places.front().map(|(ticket, waiter)| (*ticket, waiter))
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All of them, the first one first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().map(|(_, waiter)| waiter)
    }

    fn position(&self, ticket: Ticket) -> Option<usize> {
        self.places.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_come_is_the_first_to_go() {
        let mut line = Line::new(None);
        let [a, b, c] = ['a', 'b', 'c'].map(|name| line.join(|| name).expect("no limit"));
        assert_eq!(line.withdraw(b), Some('b'));
        assert_eq!(line.withdraw(b), None, "it gave up its place before");
        assert_eq!(line.first(), Some((a, &'a')));
        assert_eq!(line.next(), Some('a'));
        assert_eq!(line.get_mut(a), None);
        assert_eq!(line.get_mut(c), Some(&mut 'c'));
        assert_eq!((line.len(), line.is_empty()), (1, false));
    }

    #[test]
    fn a_full_line_takes_nobody_until_a_place_is_free() {
        let mut line = Line::new(Some(1));
        let ticket = line.join(|| ()).expect("there is a place");
        assert_eq!(line.join(|| ()), None);
        line.withdraw(ticket);
        assert!(line.join(|| ()).is_some());
        assert_eq!(Line::<()>::new(Some(0)).join(|| ()), None);
    }
}
