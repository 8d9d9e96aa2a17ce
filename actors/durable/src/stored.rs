//! Results of steps, as the executor has them and as the journal has them.

use asyncsteps_core::Error;
use asyncsteps_executor::recorder::Stored;
use asyncsteps_journal::{Value, ValueError};

/// The end of lists in CBOR: no value.
const NO_VALUE: &[u8] = &[0xff];

/// A result as the executor reads it. One of a coding that this program does not know is read as no value of any type.
pub(crate) fn stored(value: &Value) -> Stored {
    value.cbor().unwrap_or(NO_VALUE).into()
}

/// A result as the journal stores it.
///
/// # Errors
/// If it is too large.
pub(crate) fn value(stored: &Stored) -> Result<Value, Error> {
    let internal = |error: ValueError| Error::unexpected(error.to_string());
    Value::of_cbor(stored).map_err(internal)
}
