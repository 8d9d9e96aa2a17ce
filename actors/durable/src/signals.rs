//! The signals that others send to a flow, until its steps take them.

use std::cell::{Cell, RefCell};

use asyncsteps_journal::request::StoredSignal;
use tokio::sync::Notify;

/// The signals that no step of a flow has taken.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    waiting: RefCell<Vec<StoredSignal>>,
    /// There are new ones, or a step may take one again.
    pub(crate) changed: Notify,
    /// A step has just taken one.
    pub(crate) is_resting: Cell<bool>,
    /// The numbers of those by which operators pause the flow.
    pub(crate) pauses: RefCell<Vec<u64>>,
    /// The numbers of signals that only wake the flow.
    pub(crate) wake: RefCell<Vec<u64>>,
}

impl Signals {
    pub(crate) fn add<'a>(&self, new: impl Iterator<Item = &'a StoredSignal>) {
        self.waiting.borrow_mut().extend(new.cloned());
    }

    /// Takes all that are so.
    pub(crate) fn take_all(&self, are_so: impl Fn(&StoredSignal) -> bool) -> Vec<StoredSignal> {
        self.waiting.borrow_mut().extract_if(.., |signal| are_so(signal)).collect()
    }

    /// Takes the first one with one of these names, for a step.
    pub(crate) fn take(&self, names: &[&str]) -> Option<StoredSignal> {
        if self.is_resting.get() {
            return None;
        }
        let mut waiting = self.waiting.borrow_mut();
        let at = waiting.iter().position(|signal| names.contains(&&*signal.name))?;
        Some(waiting.remove(at))
    }
}
