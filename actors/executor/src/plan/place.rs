//! Where a step is in its plan.

use std::fmt::{self, Write};
use std::panic::Location;
use std::sync::{Arc, OnceLock};

/// The identity of a step of a plan.
#[derive(Debug)]
pub(super) struct StepId {
    pub(super) name: &'static str,
    /// Where the application wrote it.
    pub(super) source: &'static Location<'static>,
    /// Where it is in the complete plan; it is known when all steps around it are.
    place: OnceLock<Place>,
}

/// Where a step is in its plan.
#[derive(Debug)]
pub(super) struct Place {
    /// The number of the step among the steps of its name beside it, from 1.
    pub(super) nth: usize,
    /// The name of the innermost step that is [tried again](super::Step::retry): it, or one around it.
    pub(super) retried: Option<&'static str>,
    /// The names that it had before, the newest first, each with its number among steps of that name.
    pub(super) was: Vec<(&'static str, usize)>,
}

impl StepId {
    pub(super) fn new(name: &'static str, source: &'static Location<'static>) -> Arc<Self> {
        Arc::new(Self { name, source, place: OnceLock::new() })
    }

    /// The step is there in the complete plan.
    pub(super) fn put(&self, place: Place) {
        let _ = self.place.set(place);
    }

    /// The name of the innermost step that is tried again: it, or one around it.
    pub(super) fn retried(&self) -> Option<&'static str> {
        self.place.get()?.retried
    }

    /// The name of the step beside it whose attempt it would be in paths.
    pub(super) fn attempted(&self) -> Option<&'static str> {
        let (step, attempt) = self.name.rsplit_once('.')?;
        attempt.parse::<u32>().is_ok_and(|attempt| attempt > 1).then_some(step)
    }

    /// The names that it had before, the newest first, each with its number among steps of that name.
    pub(super) fn was(&self) -> &[(&'static str, usize)] {
        self.place.get().map_or(&[], |place| &place.was)
    }

    /// Its name, and its number among the steps of that name beside it.
    pub(super) fn numbered(&self) -> (&'static str, usize) {
        (self.name, self.place.get().map_or(1, |place| place.nth))
    }
}

/// Writes a step as a part of an idempotency key.
pub(super) fn write_step((name, nth): (&str, usize), key: &mut String) -> fmt::Result {
    key.write_str(name)?;
    if nth > 1 { write!(key, "~{nth}") } else { Ok(()) }
}

/// Writes the key of an item as a part of an idempotency key, which travels in headers.
pub(crate) fn write_item(item: &str, key: &mut String) -> fmt::Result {
    key.push('#');
    item.bytes().try_for_each(|byte| match byte {
        b'%' => key.write_str("%25"),
        byte if byte.is_ascii_graphic() => key.write_char(char::from(byte)),
        byte => write!(key, "%{byte:02X}"),
    })
}
