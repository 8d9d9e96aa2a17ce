//! What the writer knows of flows without looking.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::head::Head;
use crate::id::Uid;

/// Flows that are kept: those that append at the same time on a busy node, in about a megabyte.
const FLOWS: usize = 4096;

/// Heads of flows that were changed lately. One thread of one process writes to the file, so what it
/// wrote is what is there; what it did not commit is forgotten.
#[derive(Default)]
pub(super) struct Cache(RefCell<HashMap<Uid, Known>>);

struct Known {
    head: Head,
    /// The highest number of a record; `None` until one was written. Higher numbers are new.
    last: Option<u64>,
}

impl Cache {
    pub(super) fn head(&self, uid: Uid) -> Option<Head> {
        Some(self.0.borrow().get(&uid)?.head.clone())
    }

    /// Whether no record of the flow has this number or a higher one.
    pub(super) fn is_new(&self, uid: Uid, number: u64) -> bool {
        let flows = self.0.borrow();
        flows.get(&uid).and_then(|flow| flow.last).is_some_and(|last| number > last)
    }

    /// The flow was read or written so.
    pub(super) fn keep(&self, head: &Head) {
        let mut flows = self.0.borrow_mut();
        if flows.len() >= FLOWS && !flows.contains_key(&head.uid) {
            flows.clear();
        }
        match flows.get_mut(&head.uid) {
            Some(flow) => flow.head.clone_from(head),
            None => {
                flows.insert(head.uid, Known { head: head.clone(), last: None });
            }
        }
    }

    /// Records up to this number were written.
    pub(super) fn written(&self, uid: Uid, number: u64) {
        if let Some(flow) = self.0.borrow_mut().get_mut(&uid) {
            flow.last = flow.last.max(Some(number));
        }
    }

    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}
