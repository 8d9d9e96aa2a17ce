//! The recording of a flow, while it runs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::event::Recorded;
use super::ring::{Ring, WrittenEvent};
use crate::clock;

/// Recordings that an arbiter keeps to be used again, about 7 KiB each.
const KEPT: usize = 64;

thread_local! {
    /// Recordings that have ended and have no other owner.
    static FREE: RefCell<Vec<Rc<RecordingState>>> = const { RefCell::new(Vec::new()) };
}

/// The history of the steps of a flow; for the arbiter of the flow. Cloning shares.
#[derive(Clone, derive_more::Debug)]
#[debug("Recording {{ elapsed: {:?}, .. }}", self.elapsed())]
pub struct Recording(Rc<RecordingState>);

struct RecordingState {
    began: Cell<Instant>,
    ring: RefCell<Ring>,
    /// How many flows write here.
    flows: Cell<u32>,
    when_over: Cell<Option<WhenOver>>,
}

type WhenOver = Box<dyn FnOnce(Recorded)>;

impl Recording {
    /// A recording that begins now.
    #[must_use]
    pub fn start() -> Self {
        let began = clock::read();
        match FREE.with_borrow_mut(Vec::pop) {
            Some(inner) => {
                inner.began.set(began);
                Self(inner)
            }
            None => Self(Rc::new(RecordingState {
                began: Cell::new(began),
                ring: RefCell::new(Ring::new()),
                flows: Cell::default(),
                when_over: Cell::default(),
            })),
        }
    }

    /// The events that were recorded until now.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        self.0.ring.borrow().recorded(self.began(), clock::read())
    }

    /// Has `receive` called with all that was recorded when no flow writes here any more and the last
    /// clone is dropped; it replaces an earlier one.
    pub fn when_over(&self, receive: impl FnOnce(Recorded) + 'static) {
        self.0.when_over.set(Some(Box::new(receive)));
    }

    /// How long ago it began.
    #[must_use]
    #[inline]
    pub fn elapsed(&self) -> Duration {
        clock::read().saturating_duration_since(self.0.began.get())
    }

    pub(super) fn began(&self) -> Instant {
        self.0.began.get()
    }

    /// The number of a further flow that writes here.
    pub(super) fn add_flow(&self) -> u32 {
        let flow = self.0.flows.get();
        self.0.flows.set(flow + 1);
        flow
    }

    #[inline]
    pub(super) fn write(&self, event: WrittenEvent) {
        self.0.ring.borrow_mut().write(event);
    }
}

impl Drop for Recording {
    /// The last one leaves its room to another recording.
    fn drop(&mut self) {
        if Rc::strong_count(&self.0) > 1 {
            return;
        }
        if let Some(receive) = self.0.when_over.take() {
            receive(self.recorded());
        }
        self.0.ring.borrow_mut().clear();
        self.0.flows.set(0);
        // when the thread ends there is nothing to keep it for
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT {
                free.push(Rc::clone(&self.0));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_used_again() {
        let recording = Recording::start();
        let room = Rc::as_ptr(&recording.0);
        drop(recording.clone());
        assert_ne!(Rc::as_ptr(&Recording::start().0), room, "it is in use");
        drop(recording);
        assert_eq!(Rc::as_ptr(&Recording::start().0), room);
    }

    #[test]
    fn no_more_rooms_are_kept_than_are_of_use() {
        let recordings: Vec<Recording> = (0..2 * KEPT).map(|_| Recording::start()).collect();
        drop(recordings);
        assert_eq!(FREE.with_borrow(Vec::len), KEPT);
    }

    #[test]
    fn the_last_one_tells_what_was_recorded() {
        let told = Rc::new(Cell::new(0));
        let recording = Recording::start();
        let (other, tell) = (recording.clone(), Rc::clone(&told));
        recording.when_over(move |_| tell.set(tell.get() + 1));
        drop(recording);
        assert_eq!(told.get(), 0);
        drop(other);
        assert_eq!(told.get(), 1);
        drop(Recording::start());
        assert_eq!(told.get(), 1, "a later use of the room has nobody to tell");
    }
}
