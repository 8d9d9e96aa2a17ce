//! The writer's cache of flows.

use std::cell::{RefCell, RefMut};
use std::collections::HashMap;

use crate::head::FlowHead;
use crate::id::Uid;
use crate::quota::WaitingCounts;

/// Flows that are kept: the ones that append in turn on a busy node, such as entities, in about four megabytes.
const FLOWS: usize = 16_384;

/// Heads of flows that were changed lately. One thread of one process writes to the file, so its
/// cache matches the file; uncommitted changes are forgotten.
#[derive(Default)]
pub(super) struct Cache {
    flows: RefCell<HashMap<Uid, CachedFlow>>,
    waiting: RefCell<WaitingCounts>,
}

struct CachedFlow {
    head: FlowHead,
    /// The highest number of a record; `None` until one was written. Higher numbers are new.
    last: Option<u64>,
}

impl Cache {
    pub(super) fn head(&self, uid: Uid) -> Option<FlowHead> {
        Some(self.flows.borrow().get(&uid)?.head.clone())
    }

    /// Whether no record of the flow has this number or a higher one.
    pub(super) fn is_new(&self, uid: Uid, number: u64) -> bool {
        let flows = self.flows.borrow();
        flows.get(&uid).and_then(|flow| flow.last).is_some_and(|last| number > last)
    }

    /// The flow was read or written so.
    pub(super) fn keep(&self, head: &FlowHead) {
        let mut flows = self.flows.borrow_mut();
        if flows.len() >= FLOWS && !flows.contains_key(&head.uid) {
            flows.clear();
        }
        match flows.get_mut(&head.uid) {
            Some(flow) => flow.head.clone_from(head),
            None => {
                flows.insert(head.uid, CachedFlow { head: head.clone(), last: None });
            }
        }
    }

    /// Records up to this number were written.
    pub(super) fn written(&self, uid: Uid, number: u64) {
        if let Some(flow) = self.flows.borrow_mut().get_mut(&uid) {
            flow.last = flow.last.max(Some(number));
        }
    }

    /// The flow is removed.
    pub(super) fn forget(&self, uid: Uid) {
        self.flows.borrow_mut().remove(&uid);
    }

    pub(super) fn clear(&self) {
        self.flows.borrow_mut().clear();
    }

    /// A transaction begins.
    pub(super) fn begin(&self) {
        self.waiting.take();
    }

    /// How many flows of callers wait, as far as this transaction has counted them.
    pub(super) fn waiting(&self) -> RefMut<'_, WaitingCounts> {
        self.waiting.borrow_mut()
    }
}
