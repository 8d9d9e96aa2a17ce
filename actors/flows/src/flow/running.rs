//! The flows that wait on this arbiter.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use slab::Slab;

use super::mailbox::FlowCell;

/// The flows of one arbiter; `None` until the first call of `list_flows`, because the list takes 16
/// bytes for each flow.
type List = Option<Slab<Weak<FlowCell>>>;

thread_local! {
    static RUNNING: RefCell<List> = const { RefCell::new(None) };
}

/// The number of a flow that is not listed.
const UNLISTED: u32 = u32::MAX;

/// Lists the flows that start on this arbiter from now on.
pub(crate) fn list_flows() {
    RUNNING.with_borrow_mut(|running| {
        running.get_or_insert_default();
    });
}

/// Lists a flow until its number is [removed](remove).
pub(super) fn add(cell: &Rc<FlowCell>) -> u32 {
    RUNNING.with_borrow_mut(|running| {
        let number = running.as_mut().map(|running| running.insert(Rc::downgrade(cell)));
        number.and_then(|number| u32::try_from(number).ok()).unwrap_or(UNLISTED)
    })
}

pub(super) fn remove(number: u32) {
    if number == UNLISTED {
        return;
    }
    // when the thread ends there may be no list any more
    let removed = RUNNING.try_with(|running| {
        running.borrow_mut().as_mut().and_then(|running| running.try_remove(number as usize))
    });
    drop(removed);
}

pub(super) fn all() -> Vec<Rc<FlowCell>> {
    list_flows();
    RUNNING.with_borrow(|running| {
        let flows = running.iter().flatten();
        flows.filter_map(|(_, cell)| cell.upgrade()).collect()
    })
}
