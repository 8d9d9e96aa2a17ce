//! Callbacks on the event loop of a flow (FTN12 §2.7.2, 20 to 23), from any thread.
#![expect(unsafe_code, reason = "callbacks from outside are called here")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::Time;
use parking_lot::Mutex;
use slab::Slab;

use crate::abi::Scheduled;
use crate::guard::contained;
use crate::host::{EventLoop, Stop};

/// The items scheduled on all loops of the process.
static ITEMS: Mutex<Items> = Mutex::new(Items { items: Slab::new(), count: 0 });

thread_local! {
    /// How to cancel the items deferred on the loop of this thread.
    static STOPS: RefCell<BTreeMap<ItemId, Stop>> = const { RefCell::new(BTreeMap::new()) };
}

struct Items {
    items: Slab<QueuedCall>,
    /// How many items were ever made.
    count: isize,
}

struct QueuedCall {
    number: isize,
    call: Scheduled,
    data: *mut c_void,
}

// SAFETY: the caller of the scheduler hands the data to the thread of the loop (FTN12 §2.7.2)
unsafe impl Send for QueuedCall {}

/// Identifies an item for ever: its index in the table and its number among all items.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ItemId {
    index: usize,
    number: isize,
}

/// The duty to call an item. If it is dropped instead, the item is forgotten.
struct CallTicket(ItemId);

impl CallTicket {
    fn call(self) {
        let Some(QueuedCall { call, data, .. }) = self.0.take() else { return };
        // SAFETY: FTN12 §2.7.2 wants it called with its data; nothing is locked meanwhile
        contained("a scheduled callback", || unsafe { call(data) });
    }
}

impl Drop for CallTicket {
    fn drop(&mut self) {
        self.0.take();
    }
}

impl ItemId {
    fn new(call: Scheduled, data: *mut c_void) -> Self {
        let mut items = ITEMS.lock();
        items.count += 1;
        let number = items.count;
        Self { index: items.items.insert(QueuedCall { number, call, data }), number }
    }

    /// Takes the item out, if it was neither called nor cancelled.
    fn take(self) -> Option<QueuedCall> {
        let _ = STOPS.try_with(|stops| stops.borrow_mut().remove(&self));
        if self.is_valid() { ITEMS.lock().items.try_remove(self.index) } else { None }
    }

    pub(crate) fn is_valid(self) -> bool {
        ITEMS.lock().items.get(self.index).is_some_and(|item| item.number == self.number)
    }

    /// Cancels the callback; does nothing if it was called.
    pub(crate) fn cancel(self, host: Option<&Arc<dyn EventLoop>>) {
        let stop = STOPS.with_borrow_mut(|stops| stops.remove(&self));
        self.take();
        match (stop, host) {
            (Some(stop), _) => stop(),
            (None, Some(host)) if !host.is_same_thread() => {
                host.post(Box::new(move || self.cancel(None)));
            }
            (None, _) => {}
        }
    }

    /// The numbers that identify the item.
    pub(crate) fn numbers(self) -> (usize, isize) {
        (self.index, self.number)
    }

    pub(crate) fn of_numbers(index: usize, number: isize) -> Self {
        Self { index, number }
    }
}

/// Calls `call` soon on the loop.
pub(crate) fn immediate(host: &Arc<dyn EventLoop>, call: Scheduled, data: *mut c_void) -> ItemId {
    let id = ItemId::new(call, data);
    let ticket = CallTicket(id);
    host.post(Box::new(move || ticket.call()));
    id
}

/// Calls `call` on the loop after `delay`.
pub(crate) fn deferred(
    host: &Arc<dyn EventLoop>,
    delay: Duration,
    call: Scheduled,
    data: *mut c_void,
) -> ItemId {
    let id = ItemId::new(call, data);
    let ticket = CallTicket(id);
    let at = host.now() + delay;
    if host.is_same_thread() {
        defer(host, at, ticket);
    } else {
        let on = Arc::clone(host);
        host.post(Box::new(move || defer(&on, at, ticket)));
    }
    id
}

fn defer(host: &Arc<dyn EventLoop>, at: Time, ticket: CallTicket) {
    let id = ticket.0;
    if id.is_valid() {
        let stop = host.defer_until(at, Box::new(move || ticket.call()));
        STOPS.with_borrow_mut(|stops| stops.insert(id, stop));
    }
}
