//! The room of a recording.

use std::cell::RefCell;
use std::time::Duration;

use asyncsteps::{Error, StepEnd, StepRef};
use tokio::time::Instant;

use super::event::{Ending, Recorded, StepEvent, StepEventKind};

/// Events from the beginning of a flow that are kept: a request of the usual size, whole.
const FIRST: usize = 32;

/// Events before now that are kept, beyond those: what a long flow did last.
const LAST: usize = 64;

/// Rooms that an arbiter keeps for later recordings, about 7 KiB each.
const KEPT: usize = 64;

thread_local! {
    /// The rooms of recordings that are over.
    static FREE: RefCell<Vec<Ring>> = const { RefCell::new(Vec::new()) };
}

/// An event as it is written, with as little work as possible.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) at: Instant,
    pub(super) flow: u32,
    pub(super) step: StepRef,
    pub(super) kind: WrittenKind,
}

/// What happened; an error is shared with the flow until somebody reads what was written.
#[derive(Debug)]
pub(super) enum WrittenKind {
    Began,
    Success,
    Error(Error),
    Cancelled,
}

/// The first events and the last ones.
#[derive(Debug, Default)]
pub(super) struct Ring {
    first: Vec<Written>,
    last: Vec<Written>,
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
    pub(super) fn write(&mut self, event: Written) {
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

    /// What was written, with times since this one.
    pub(super) fn recorded(&self, began: Instant, length: Duration) -> Recorded {
        let (newer, older) = self.last.split_at(self.oldest);
        let written = self.first.iter().chain(older).chain(newer);
        let events = written.map(|written| written.event(began)).collect();
        Recorded { events, lost: self.lost, length }
    }
}

impl Written {
    fn event(&self, began: Instant) -> StepEvent {
        let StepRef { branch, parent, depth, attempt, location, .. } = self.step;
        let kind = match &self.kind {
            WrittenKind::Began => StepEventKind::Began,
            WrittenKind::Success => StepEventKind::Ended(Ending::Success),
            WrittenKind::Error(error) => StepEventKind::Ended(Ending::Error(error.into())),
            WrittenKind::Cancelled => StepEventKind::Ended(Ending::Cancelled),
        };
        let at = self.at.saturating_duration_since(began);
        StepEvent { at, flow: self.flow, branch, parent, depth, attempt, location, kind }
    }
}

impl From<StepEnd<'_>> for WrittenKind {
    fn from(end: StepEnd<'_>) -> Self {
        match end {
            StepEnd::Success => Self::Success,
            StepEnd::Error(error) => Self::Error(error.clone()),
            StepEnd::Cancelled | _ => Self::Cancelled,
        }
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
