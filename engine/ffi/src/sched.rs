//! Callbacks on the event loop of a flow (FTN12 §2.7.2, 20 to 23), from any thread.
#![expect(unsafe_code, reason = "callbacks from outside are called here")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use asyncsteps::Time;
use slab::Slab;

use crate::abi::{FutoInHandle, Scheduled};
use crate::guard::contained;
use crate::host::{Host, Stop};
use crate::tool::TOOL;

/// What is scheduled on all loops of the process.
static ITEMS: Mutex<Items> = Mutex::new(Items { items: Slab::new(), count: 0 });

thread_local! {
    /// How to take back what is deferred on the loop of this thread.
    static STOPS: RefCell<BTreeMap<Name, Stop>> = const { RefCell::new(BTreeMap::new()) };
}

struct Items {
    items: Slab<Item>,
    /// How many there ever were.
    count: isize,
}

struct Item {
    number: isize,
    call: Scheduled,
    data: *mut c_void,
}

// SAFETY: whoever schedules gives the data to the thread of the loop (FTN12 §2.7.2)
unsafe impl Send for Item {}

/// Names an item for good: its place, and which of all items it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    at: usize,
    number: isize,
}

fn items() -> MutexGuard<'static, Items> {
    ITEMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whoever holds it calls the item; if it is dropped instead, the item is forgotten.
struct Ticket(Name);

impl Ticket {
    fn call(self) {
        let Some(Item { call, data, .. }) = self.0.take() else { return };
        // SAFETY: FTN12 §2.7.2 wants it called with its data; nothing is locked meanwhile
        contained("a scheduled callback", || unsafe { call(data) });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.take();
    }
}

impl Name {
    fn new(call: Scheduled, data: *mut c_void) -> Self {
        let mut items = items();
        items.count += 1;
        let number = items.count;
        Self { at: items.items.insert(Item { number, call, data }), number }
    }

    /// Takes the item out, if it was neither called nor cancelled.
    fn take(self) -> Option<Item> {
        let _ = STOPS.try_with(|stops| stops.borrow_mut().remove(&self));
        if self.is_valid() { items().items.try_remove(self.at) } else { None }
    }

    pub(crate) fn is_valid(self) -> bool {
        items().items.get(self.at).is_some_and(|item| item.number == self.number)
    }

    /// Has the callback not called; nothing happens if it was.
    pub(crate) fn cancel(self, host: Option<&Arc<dyn Host>>) {
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

    /// Never null in `data1`, which is null in a handle that names nothing.
    pub(crate) fn to_handle(self) -> FutoInHandle {
        FutoInHandle {
            data1: ptr::without_provenance_mut(self.at + 1),
            data2: (&raw const TOOL).cast_mut().cast(),
            data3: self.number,
        }
    }

    /// What a handle names; `None` if it is not one of ours.
    pub(crate) fn of(handle: &FutoInHandle) -> Option<Self> {
        let at = handle.data1.addr().checked_sub(1)?;
        let is_ours = ptr::eq(handle.data2, (&raw const TOOL).cast());
        is_ours.then_some(Self { at, number: handle.data3 })
    }
}

/// Has the loop call `call` soon.
pub(crate) fn immediate(host: &Arc<dyn Host>, call: Scheduled, data: *mut c_void) -> Name {
    let name = Name::new(call, data);
    let ticket = Ticket(name);
    host.post(Box::new(move || ticket.call()));
    name
}

/// Has the loop call `call` after `delay`.
pub(crate) fn deferred(
    host: &Arc<dyn Host>,
    delay: Duration,
    call: Scheduled,
    data: *mut c_void,
) -> Name {
    let name = Name::new(call, data);
    let ticket = Ticket(name);
    let at = host.now() + delay;
    if host.is_same_thread() {
        defer(host, at, ticket);
    } else {
        let on = Arc::clone(host);
        host.post(Box::new(move || defer(&on, at, ticket)));
    }
    name
}

fn defer(host: &Arc<dyn Host>, at: Time, ticket: Ticket) {
    let name = ticket.0;
    if name.is_valid() {
        let stop = host.defer_until(at, Box::new(move || ticket.call()));
        STOPS.with_borrow_mut(|stops| stops.insert(name, stop));
    }
}
