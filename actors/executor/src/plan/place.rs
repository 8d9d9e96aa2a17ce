//! Where a step is: in its plan, and in the request that runs it.

use std::fmt::{self, Write};
use std::panic::Location;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use crate::recorder::Part;

/// A step of a plan, as it is told apart from the others.
#[derive(Debug)]
pub(super) struct StepId {
    pub(super) name: &'static str,
    /// Where the application wrote it.
    pub(super) source: &'static Location<'static>,
    /// Where it is in the complete plan; it is known when all steps around it are.
    place: OnceLock<Place>,
}

/// Where a step is in its plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The number of the step among those of its name beside it, from 1.
    pub(super) nth: usize,
    /// How many steps are around it.
    pub(super) depth: usize,
}

impl StepId {
    pub(super) fn new(name: &'static str, source: &'static Location<'static>) -> Arc<Self> {
        Arc::new(Self { name, source, place: OnceLock::new() })
    }

    /// The step is there in the complete plan.
    pub(super) fn put(&self, place: Place) {
        let _ = self.place.set(place);
    }

    pub(super) fn place(&self) -> Place {
        self.place.get().copied().unwrap_or(Place { nth: 1, depth: 0 })
    }

    /// The name of the step beside it whose attempt it would be in paths.
    pub(super) fn attempted(&self) -> Option<&'static str> {
        let (step, attempt) = self.name.rsplit_once('.')?;
        attempt.parse::<u32>().is_ok_and(|attempt| attempt > 1).then_some(step)
    }

    /// The parts of its path that stand for the step itself.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> {
        let nth = self.place().nth;
        [Some(Part::Step(self.name)), (nth > 1).then_some(Part::Nth(nth))].into_iter().flatten()
    }
}

/// One attempt of a step with sub-steps, or an iteration or item in it: what a request has around a step.
pub(super) struct Around {
    pub(super) outer: Option<Rc<Self>>,
    /// `None` for a group without a name.
    pub(super) step: Option<Arc<StepId>>,
    /// Where the application wrote it.
    pub(super) source: &'static Location<'static>,
    pub(super) attempt: u32,
    /// Something inside can be undone, so each attempt has keys of its own.
    pub(super) has_undo: bool,
    pub(super) inside: Option<Inside>,
    pub(super) depth: usize,
}

/// Which part of a step it is that repeats its sub-steps.
#[derive(Clone, Debug)]
pub(super) enum Inside {
    /// An iteration of a loop, from 0.
    Iteration(u64),
    /// One of several items, by its number and its key if it has one.
    Item(usize, Option<Rc<str>>),
}

impl Around {
    /// Writes the steps around, each with a slash behind it, as a part of an idempotency key.
    pub(super) fn write(this: Option<&Rc<Self>>, key: &mut String) -> fmt::Result {
        let Some(this) = this else { return Ok(()) };
        Self::write(this.outer.as_ref(), key)?;
        let is_new = this.attempt > 1 && this.has_undo;
        let Some(step) = &this.step else {
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

    /// The path to the steps inside, for a host.
    pub(super) fn path(this: Option<&Rc<Self>>) -> Vec<Part> {
        let Some(this) = this else { return Vec::new() };
        let mut path = Self::path(this.outer.as_ref());
        if let Some(step) = &this.step {
            path.extend(step.parts());
        }
        path.extend((this.attempt > 1).then_some(Part::Attempt(this.attempt)));
        path.extend(this.inside.as_ref().map(|inside| match inside {
            Inside::Iteration(index) => Part::Iteration(*index),
            Inside::Item(number, _) => Part::Item(*number),
        }));
        path
    }
}

/// Writes a step as a part of an idempotency key.
pub(super) fn write_step(step: &StepId, key: &mut String) -> fmt::Result {
    key.write_str(step.name)?;
    match step.place().nth {
        1 => Ok(()),
        nth => write!(key, "~{nth}"),
    }
}

/// Writes the key of an item as a part of an idempotency key, which travels in headers.
fn write_item(item: &str, key: &mut String) -> fmt::Result {
    key.push('#');
    item.bytes().try_for_each(|byte| match byte {
        b'%' => key.write_str("%25"),
        byte if byte.is_ascii_graphic() => key.write_char(char::from(byte)),
        byte => write!(key, "%{byte:02X}"),
    })
}
