//! The decision of an operator about a step of a paused request: it reaches the request as a signal with a name that no
//! step has, and is recorded at the step.

use asyncsteps_journal::request::StoredSignal;
use asyncsteps_journal::{Path, Value, ValueError};
use serde::{Deserialize, Serialize};

/// The name of the signal: names of steps and of people have no such character.
pub(crate) const SETTLED: &str = "\u{1}settled";

/// The branch of a step at which that is recorded.
pub(crate) const AT: &str = "settled";

/// The decision about a step that a paused request has begun, see [`Durable::settle`](crate::Durable::settle).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Settle {
    /// Its effect stays: it is not undone.
    Kept,
    /// It is undone already, outside of the request.
    Undone,
    /// It ended with this result, which the request goes on with.
    Result(serde_json::Value),
    /// The program undoes it, out of turn, before the request goes on.
    Undo,
}

/// The decision of an operator about a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settled {
    path: String,
    pub(crate) how: Settle,
    by: String,
    why: String,
}

impl Settled {
    pub(crate) fn new(path: &Path, how: Settle, by: &str, why: &str) -> Self {
        Self { path: path.to_string(), how, by: by.to_owned(), why: why.to_owned() }
    }

    /// As a signal says it.
    pub(crate) fn encode(&self) -> Result<Value, ValueError> {
        let text =
            serde_json::to_string(self).map_err(|error| ValueError::NotRead(error.to_string()))?;
        Value::encode(&text)
    }

    /// Reads it from the value of a signal or a record.
    pub(crate) fn decode(value: &Value) -> Option<Self> {
        serde_json::from_str(&value.decode::<String>().ok()?).ok()
    }

    /// Where it is recorded, if the signal is one of an operator.
    pub(crate) fn path_in(signal: &StoredSignal) -> Option<Path> {
        let is_settled = signal.name == SETTLED;
        let settled = is_settled.then(|| Self::decode(&signal.value)).flatten()?;
        Some(settled.path.parse::<Path>().ok()?.branch(AT))
    }
}
