//! The surroundings of a step in the request that runs it.

use std::fmt::{self, Write};
use std::iter;
use std::panic::Location;
use std::rc::Rc;

use super::place::{Inside, write_item, write_step};
use super::recorded::RecordedLevel;

/// One attempt of a step with sub-steps, or an iteration or item in it: the surroundings of a step in a request.
pub(super) struct Around {
    pub(super) outer: Option<Rc<Self>>,
    /// Its name and number, as the host of the request knows it; `None` for a group without a name.
    pub(super) step: Option<(&'static str, usize)>,
    /// Where the application wrote it.
    pub(super) source: &'static Location<'static>,
    pub(super) attempt: u32,
    /// Something inside can be undone, so each attempt has keys of its own.
    pub(super) has_undo: bool,
    pub(super) inside: Option<Inside>,
    pub(super) depth: usize,
    /// The steps inside, if a host records them.
    pub(super) recorded: Option<Rc<RecordedLevel>>,
}

impl Around {
    /// Whether this, or something around it, is an item.
    pub(super) fn is_in_item(&self) -> bool {
        let mut outer = iter::successors(Some(self), |around| around.outer.as_deref());
        outer.any(|around| matches!(around.inside, Some(Inside::Item(..))))
    }

    /// Writes the steps around, each with a slash behind it, as a part of an idempotency key.
    pub(super) fn write(this: Option<&Rc<Self>>, key: &mut String) -> fmt::Result {
        let Some(this) = this else { return Ok(()) };
        Self::write(this.outer.as_ref(), key)?;
        let is_new = this.attempt > 1 && this.has_undo;
        let Some(step) = this.step else {
            return if is_new { write!(key, ".{}/", this.attempt) } else { Ok(()) };
        };
        write_step(step, key)?;
        if is_new {
            write!(key, ".{}", this.attempt)?;
        }
        match &this.inside {
            Some(Inside::Iteration(index)) => write!(key, "#{index}")?,
            Some(Inside::Item(number, None)) => write!(key, "#{number}")?,
            Some(Inside::Item(_, Some(item))) => write_item(item, key)?,
            None => {}
        }
        key.write_char('/')
    }
}
