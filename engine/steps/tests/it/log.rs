//! A log that steps write to, and a value that writes its own end to it.

use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;

/// The entries that steps log, in their order.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, line: impl Display) {
        self.0.borrow_mut().push(line.to_string());
    }

    /// Takes the entries since the last call, joined by spaces.
    pub(crate) fn take(&self) -> String {
        self.0.take().join(" ")
    }
}

/// A value that logs its own end.
pub(crate) struct Dropped(pub(crate) Log, pub(crate) &'static str);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add(format_args!("-{}", self.1));
    }
}
