//! What the transport of a request has passed with it.

use std::cell::RefCell;
use std::rc::Rc;

use asyncsteps_futoin::message::Headers;

use super::events::EventSender;
use crate::raw::RawInput;

/// What the transport of a request has passed with it, for its steps.
pub(super) struct ReceivedParts {
    pub(super) headers: Option<Rc<dyn Headers>>,
    /// The raw upload, until it is taken.
    pub(super) input: RefCell<Option<Box<RawInput>>>,
    /// Where its events go, if its caller watches.
    pub(super) events: Option<Box<EventSender>>,
}

impl ReceivedParts {
    pub(super) fn new(
        headers: Option<Rc<dyn Headers>>,
        input: Option<RawInput>,
        events: Option<Box<EventSender>>,
    ) -> Self {
        Self { headers, input: RefCell::new(input.map(Box::new)), events }
    }
}
