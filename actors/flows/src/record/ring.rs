//! The room of a recording.

use std::cell::RefCell;
use std::time::Duration;

use super::event::{Recorded, StepEvent};

/// Events from the beginning of a flow that are kept: a request of the usual size, whole.
const FIRST: usize = 32;

/// Events before now that are kept, beyond those: what a long flow did last.
const LAST: usize = 64;

/// Rooms that an arbiter keeps for later recordings, about 8 KiB each.
const KEPT: usize = 64;

thread_local! {
    /// The rooms of recordings that are over.
    static FREE: RefCell<Vec<Ring>> = const { RefCell::new(Vec::new()) };
}

/// The first events and the last ones.
#[derive(Debug, Default)]
pub(super) struct Ring {
    first: Vec<StepEvent>,
    last: Vec<StepEvent>,
    /// The oldest event in `last`, once that is full.
    oldest: usize,
    lost: usize,
}

impl Ring {
    /// An empty one.
    pub(super) fn take() -> Self {
        let free = FREE.with_borrow_mut(Vec::pop);
        free.unwrap_or_else(|| Self { first: Vec::with_capacity(FIRST), ..Self::default() })
    }

    /// Keeps the room for another recording.
    pub(super) fn give_back(mut self) {
        self.first.clear();
        self.last.clear();
        (self.oldest, self.lost) = (0, 0);
        // when the thread ends there is nothing to keep it for
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT {
                free.push(self);
            }
        });
    }

    #[inline]
    pub(super) fn write(&mut self, event: StepEvent) {
        if self.first.len() < FIRST {
            self.first.push(event);
        } else if self.last.len() < LAST {
            // most flows never need it
            self.last.reserve_exact(LAST - self.last.len());
            self.last.push(event);
        } else {
            self.last[self.oldest] = event;
            self.oldest = (self.oldest + 1) % LAST;
            self.lost += 1;
        }
    }

    pub(super) fn recorded(&self, length: Duration) -> Recorded {
        let (newer, older) = self.last.split_at(self.oldest);
        let events = [&self.first, older, newer].concat();
        Recorded { events, lost: self.lost, length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_used_again() {
        let ring = Ring::take();
        let room = ring.first.as_ptr();
        ring.give_back();
        assert_eq!(Ring::take().first.as_ptr(), room);
    }

    #[test]
    fn no_more_rooms_are_kept_than_are_of_use() {
        let rings: Vec<Ring> = (0..2 * KEPT).map(|_| Ring::take()).collect();
        rings.into_iter().for_each(Ring::give_back);
        assert_eq!(FREE.with_borrow(Vec::len), KEPT);
    }
}
