//! Counting requests in and out, and waiting for a place in the budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use asyncsteps::{Error, Time, codes};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::Refused;
use asyncsteps_actors::budget::{Admission, Permit};
use asyncsteps_actors::timer;
use asyncsteps_futoin::message::Rid;

/// What a request takes beside its parameters: flow, task and answer.
const REQUEST_BYTES: usize = 2_048;

/// What a node of an object takes: room for eleven names and values, however few it has.
const NODE_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 16;

/// How many of them are in use, about: half after names that came in order.
const NODE_FIELDS: usize = 6;

/// What an allocation takes beside its bytes, about.
const ALLOCATION_BYTES: usize = 16;

/// How much memory a request takes whose message has so many bytes, about.
pub(super) fn memory_of_message(size: usize) -> usize {
    REQUEST_BYTES + size
}

/// How much memory a request with these parameters and this id takes, about.
pub(super) fn memory(params: &Map<String, Value>, rid: Option<&Rid>) -> usize {
    REQUEST_BYTES + fields(params) + rid.map_or(0, |rid| inside(rid.as_value()))
}

fn fields(object: &Map<String, Value>) -> usize {
    let nodes = object.len().div_ceil(NODE_FIELDS) * NODE_BYTES;
    let fields = object.iter().map(|(name, value)| ALLOCATION_BYTES + name.len() + inside(value));
    nodes + fields.sum::<usize>()
}

/// What a value takes beside itself.
fn inside(value: &Value) -> usize {
    match value {
        Value::String(text) => ALLOCATION_BYTES + text.len(),
        Value::Array(items) => {
            // it grew by doubling
            let room = items.capacity() * size_of::<Value>();
            ALLOCATION_BYTES + room + items.iter().map(inside).sum::<usize>()
        }
        Value::Object(object) => fields(object),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The requests of an executor that are not answered.
#[derive(Debug, Default)]
pub(super) struct Flights {
    count: AtomicUsize,
    closing: AtomicBool,
    cancelling: AtomicBool,
    /// Told when no request is left, and when the cancelling begins.
    changed: Notify,
    /// Told when the closing begins; apart, because idle connections wait for nothing else.
    closes: Notify,
    /// Counted since the closing began.
    finished: AtomicUsize,
    cancelled: AtomicUsize,
}

/// A request that is counted in, until this is dropped.
pub(super) struct Flight {
    flights: Arc<Flights>,
    /// It ended by itself.
    finished: bool,
}

impl Flights {
    /// Counts a request in, unless the executor is closing.
    pub(super) fn begin(self: &Arc<Self>) -> Result<Flight, Refused> {
        // counted before `closing` is read, while `close` sets it before it reads the count: with
        // sequential consistency one of the two sees the other
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.is_closing() {
            self.count_out();
            return Err(closing());
        }
        Ok(Flight { flights: Arc::clone(self), finished: false })
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Takes no more requests; tells whether it did until now.
    pub(super) fn close(&self) -> bool {
        let first = !self.closing.swap(true, Ordering::SeqCst);
        self.closes.notify_waiters();
        first
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Waits until no more requests are taken.
    pub(super) async fn closing(&self) {
        let told = self.closes.notified();
        if !self.is_closing() {
            told.await;
        }
    }

    /// Refuses the requests that wait for a place.
    pub(super) fn cancel(&self) {
        self.cancelling.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Waits until no request is left.
    pub(super) async fn idle(&self) {
        self.until(|| self.count() == 0).await;
    }

    /// Requests that ended by themselves and requests that did not, since the closing began.
    pub(super) fn ended(&self) -> (usize, usize) {
        (self.finished.load(Ordering::SeqCst), self.cancelled.load(Ordering::SeqCst))
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_so() {
                return;
            }
            changed.await;
        }
    }

    fn count_out(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.changed.notify_waiters();
        }
    }
}

impl Flight {
    /// Waits for a place in the budget, as long as the request has time and the executor is there.
    pub(super) async fn wait(
        &self,
        admission: Admission,
        deadline: Time,
    ) -> Result<Permit, Refused> {
        if admission.is_queued() {
            // in a box, because most requests find a place and need no room for it
            return Box::pin(self.queue(admission, deadline)).await;
        }
        admission.await.map_err(rejected)
    }

    async fn queue(&self, admission: Admission, deadline: Time) -> Result<Permit, Refused> {
        tokio::select! {
            biased;
            () = timer::sleep_until(deadline) => {
                let why = "Too many requests: no place in time";
                Err(Refused::new(codes::DEFENSE_REJECTED, why))
            }
            admitted = admission => admitted.map_err(rejected),
            () = self.flights.until(|| self.flights.cancelling.load(Ordering::SeqCst)) => {
                Err(closing())
            }
        }
    }

    /// The request ended by itself.
    pub(super) fn finish(&mut self) {
        self.finished = true;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let flights = &self.flights;
        if flights.is_closing() {
            let counter = if self.finished { &flights.finished } else { &flights.cancelled };
            counter.fetch_add(1, Ordering::SeqCst);
        }
        flights.count_out();
    }
}

/// What a limit says.
pub(super) fn rejected(error: Error) -> Refused {
    Refused::new(codes::DEFENSE_REJECTED, error.info().unwrap_or_default().to_owned())
}

fn closing() -> Refused {
    Refused::new(codes::DEFENSE_REJECTED, "Executor is closing")
}
