//! Counting requests in and out, and waiting for a place in the budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use asyncsteps::{Error, Time, codes};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::Refused;
use asyncsteps_actors::budget::{Admission, Permit};
use asyncsteps_actors::drain::{Drain, Drained, Entered};
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
    requests: Arc<Drain>,
    cancelling: AtomicBool,
    /// Told when the cancelling begins.
    cancels: Notify,
}

/// A request that is counted in, until this is dropped.
pub(super) struct Flight {
    flights: Arc<Flights>,
    entered: Entered,
}

impl Flights {
    /// Counts a request in, unless the executor is closing.
    pub(super) fn begin(self: &Arc<Self>) -> Result<Flight, Refused> {
        let entered = self.requests.admit().ok_or_else(closing)?;
        Ok(Flight { flights: Arc::clone(self), entered })
    }

    pub(super) fn count(&self) -> usize {
        self.requests.count()
    }

    /// Takes no more requests; tells whether it did until now.
    pub(super) fn close(&self) -> bool {
        self.requests.close()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.requests.is_closing()
    }

    /// Waits until no more requests are taken.
    pub(super) async fn closing(&self) {
        self.requests.closing().await;
    }

    /// Refuses the requests that wait for a place.
    pub(super) fn cancel(&self) {
        self.cancelling.store(true, Ordering::SeqCst);
        self.cancels.notify_waiters();
    }

    /// Waits until no request is left.
    pub(super) async fn idle(&self) {
        self.requests.idle().await;
    }

    /// Requests that ended by themselves and requests that did not, since the closing began.
    pub(super) fn ended(&self) -> Drained {
        self.requests.ended()
    }

    /// Waits until the cancelling begins.
    async fn cancelled(&self) {
        let cancels = self.cancels.notified();
        if !self.cancelling.load(Ordering::SeqCst) {
            cancels.await;
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
            () = self.flights.cancelled() => Err(closing()),
        }
    }

    /// The request ended by itself.
    pub(super) fn finish(&mut self) {
        self.entered.finish();
    }
}

/// What a limit says.
pub(super) fn rejected(error: Error) -> Refused {
    Refused::new(codes::DEFENSE_REJECTED, error.info().unwrap_or_default().to_owned())
}

fn closing() -> Refused {
    Refused::new(codes::DEFENSE_REJECTED, "Executor is closing")
}
