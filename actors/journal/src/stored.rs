//! How tables keep what they have no type for.

use crate::request::{Append, FlowState, Then};
use crate::time::Timestamp;
use crate::value::Value;

const STATES: [FlowState; 8] = [
    FlowState::Ready,
    FlowState::New,
    FlowState::Suspect,
    FlowState::Running,
    FlowState::Parked,
    FlowState::Paused,
    FlowState::Dead,
    FlowState::Ended,
];

/// The state with this number.
pub(crate) fn state(number: i64) -> Option<FlowState> {
    STATES.into_iter().find(|state| *state as i64 == number)
}

/// A value as one column.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len() + 8);
    let written = minicbor::encode(value, &mut bytes);
    debug_assert!(written.is_ok(), "a vector takes all bytes");
    bytes
}

/// A value from a column; `None` if no program writes it so.
pub(crate) fn value(bytes: &[u8]) -> Option<Value> {
    minicbor::decode(bytes).ok()
}

/// Numbers of databases have a sign; ours stop where they would get one.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number from a column.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A time as one column.
pub(crate) fn millis(time: Timestamp) -> i64 {
    int(time.as_millis())
}

/// A time from a column.
pub(crate) fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(unsigned(millis))
}

/// Whether a batch lets others have one of its flows.
pub(crate) fn gives_up(batch: &[Append]) -> bool {
    batch.iter().any(|entry| entry.then != Then::Keep)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_the_number_of_its_place() {
        for (number, expected) in (0..).zip(STATES) {
            assert_eq!(state(number), Some(expected));
        }
        assert_eq!(state(8), None);
    }
}
