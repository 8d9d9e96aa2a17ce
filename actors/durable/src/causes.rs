//! Errors of a service that caused a failure: recorded with it, so that handlers find them by their types after a crash.

use asyncsteps_core::{Error, RecordedError};
use asyncsteps_executor::plan::StepView;
use asyncsteps_journal::record::{Cause, Failure};
use asyncsteps_journal::{Path, Value};

use crate::records::error_of;

/// The error of a service that caused this one, as it is recorded. A value that cannot be stored, or is larger than
/// [`VALUE_BYTES`](asyncsteps_journal::limits::VALUE_BYTES), is left out with a warning: then the error is known by
/// its code.
pub(crate) fn cause_of(step: &StepView, path: &Path, error: &Error) -> Option<Cause> {
    let (RecordedError { code, json }, unwritten) = step.recorded_error(error)?;
    let value = json.map(|json| Value::encode(&json)).transpose();
    let (value, too_large) = match value {
        Ok(value) => (value, None),
        Err(error) => (None, Some(error.into())),
    };
    if let Some(why) = unwritten.or(too_large) {
        tracing::warn!(%path, code, error = %why, "the value of an error is not recorded: after a crash it is known by its code");
    }
    // without a value, the code of the failure says as much
    (value.is_some() || code != error.code()).then_some(Cause { code, value })
}

/// The error with which a step failed in an earlier run.
///
/// # Errors
/// Why the value that is recorded cannot be read.
pub(crate) fn recalled(
    step: &StepView,
    failure: &Failure,
    cause: Option<&Cause>,
) -> Result<Error, String> {
    let json = cause.and_then(|cause| cause.value.as_ref()).map(Value::decode).transpose();
    let json = json.map_err(|error| error.to_string())?;
    let recorded = cause.map(|cause| RecordedError { code: cause.code.clone(), json });
    step.recalled(error_of(failure), recorded).map_err(|error| error.to_string())
}
