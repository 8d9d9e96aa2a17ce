//! Estimates of the memory that a request takes, for the budget.

use serde_json::{Map, Value};

use asyncsteps_futoin::message::Rid;

/// Bytes of a request in addition to its parameters: flow, task and answer.
const REQUEST: usize = 2_048;

/// Bytes of a node of a JSON object: space for eleven names and values, however few it has.
const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 16;

/// Entries of a node that are in use, on average: half after names that came in order.
const ENTRIES_PER_NODE: usize = 6;

/// Bytes of an allocation in addition to its content, on average.
const ALLOCATION: usize = 16;

/// Bytes of a request whose message is not parsed yet and has this size.
pub(super) fn of_message(size: usize) -> usize {
    REQUEST + size
}

/// Bytes of a request with these parameters and this id.
pub(super) fn of_request(params: &Map<String, Value>, rid: Option<&Rid>) -> usize {
    REQUEST + of_object(params) + rid.map_or(0, |rid| behind(rid.as_value()))
}

fn of_object(object: &Map<String, Value>) -> usize {
    let nodes = object.len().div_ceil(ENTRIES_PER_NODE) * NODE;
    let entries = object.iter().map(|(name, value)| ALLOCATION + name.len() + behind(value));
    nodes + entries.sum::<usize>()
}

/// Bytes on the heap that a value refers to.
fn behind(value: &Value) -> usize {
    match value {
        Value::String(text) => ALLOCATION + text.len(),
        Value::Array(items) => {
            // its capacity was doubled as it grew
            let items_bytes = items.capacity() * size_of::<Value>();
            ALLOCATION + items_bytes + items.iter().map(behind).sum::<usize>()
        }
        Value::Object(object) => of_object(object),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
