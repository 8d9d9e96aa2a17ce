//! Panics of foreign code: they go to the log, and no further.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The log's text for a panic of what a flow owned.
pub(super) const DROPPED: &str = "a flow panicked when dropped";

/// Drops what a flow owned.
pub(super) fn discard<T>(value: T) {
    guarded(DROPPED, || drop(value));
}

/// Runs code that may panic, a destructor for example; a panic goes to the log.
#[inline]
pub(super) fn guarded<T>(panicked: &str, run: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(run));
    done.map_err(|payload| log_panic(panicked, payload)).ok()
}

#[cold]
pub(super) fn log_panic(what: &str, payload: Box<dyn Any + Send>) {
    tracing::error!("{what}");
    // a payload may panic when it is dropped
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(payload);
    }
}
