//! The surroundings of a step in the request that runs it.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};
use std::iter;
use std::panic::Location;
use std::rc::Rc;

use super::of_request::OfRequest;
use super::place::{write_item, write_step};
use super::recorded::RecordedLevel;
use crate::executor::Sent;
use crate::recorder::Part;

/// The surroundings of a step in a request: one attempt of a step with sub-steps, or an iteration or item in it, or the
/// function. Its steps find it as what [surrounds](asyncsteps_core::AsyncSteps::surround) them.
pub(super) struct Around {
    pub(super) request: Rc<OfRequest>,
    /// `None` for the function.
    pub(super) outer: Option<Rc<Self>>,
    /// Its name and number, as the host of the request knows it; `None` for the function, and for a group without a name.
    pub(super) step: Option<(&'static str, usize)>,
    /// Where the application wrote it.
    pub(super) source: &'static Location<'static>,
    pub(super) attempt: u32,
    /// Something inside can be undone, so each attempt has keys of its own.
    pub(super) has_undo: bool,
    /// The iteration or the item.
    pub(super) part: Option<Part>,
    /// The steps inside, if a host records them.
    pub(super) recorded: Option<Rc<RecordedLevel>>,
    /// The signals that were taken inside of an item; one that an item inside has given back is there no more.
    pub(super) taken: RefCell<Vec<Rc<Cell<Option<Sent>>>>>,
}

impl Around {
    /// The function that serves this request.
    pub(super) fn of_function(
        request: Rc<OfRequest>,
        recorded: Option<Rc<RecordedLevel>>,
    ) -> Rc<Self> {
        Rc::new(Self {
            source: request.source,
            request,
            outer: None,
            step: None,
            attempt: 1,
            has_undo: false,
            part: None,
            recorded,
            taken: RefCell::default(),
        })
    }

    /// The steps directly inside, or of the innermost level around that the host of the request records, if it records any.
    pub(super) fn level(&self) -> Option<&Rc<RecordedLevel>> {
        self.request.host.as_ref()?;
        let mut around = iter::successors(Some(self), |around| around.outer.as_deref());
        around.find_map(|around| around.recorded.as_ref())
    }

    /// A step inside took this signal.
    pub(super) fn takes(&self, signal: &Sent) {
        let outer = iter::successors(Some(self), |around| around.outer.as_deref());
        let items =
            outer.filter(|around| matches!(around.part, Some(Part::Item(_) | Part::Key(_))));
        let taken = Rc::new(Cell::new(None));
        for item in items {
            taken.set(Some(signal.clone()));
            item.taken.borrow_mut().push(Rc::clone(&taken));
        }
    }

    /// This item of a race has lost: the signals that its steps took are there again.
    pub(super) fn give_back_signals(&self) {
        if let Some(inbox) = &self.request.inbox {
            inbox.put_back(self.taken.take().into_iter().filter_map(|taken| taken.take()));
        }
    }

    /// Writes the steps around, each with a slash behind it, as a part of an idempotency key.
    pub(super) fn write(&self, key: &mut String) -> fmt::Result {
        if let Some(outer) = &self.outer {
            outer.write(key)?;
        }
        let is_new = self.attempt > 1 && self.has_undo;
        let Some(step) = self.step else {
            return if is_new { write!(key, ".{}/", self.attempt) } else { Ok(()) };
        };
        write_step(step, key)?;
        if is_new {
            write!(key, ".{}", self.attempt)?;
        }
        match &self.part {
            Some(Part::Iteration(index)) => write!(key, "#{index}")?,
            Some(Part::Item(number)) => write!(key, "#{number}")?,
            Some(Part::Key(item)) => write_item(item, key)?,
            None => {}
        }
        key.write_char('/')
    }
}
