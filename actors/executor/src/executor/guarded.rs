//! Code of the application that may panic although a request has to go on.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the application; a panic goes to the log, with `panicked` as its message.
pub(super) fn guarded<T>(panicked: &str, run: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(run));
    let done = done.map_err(|payload| {
        tracing::error!("{panicked}");
        // a payload may panic when it is dropped
        catch_unwind(AssertUnwindSafe(|| drop(payload))).unwrap_or_else(mem::forget);
    });
    done.ok()
}
