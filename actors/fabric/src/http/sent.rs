//! Whether anything of a call was sent.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::call_error::CallError;

/// Whether anything of a call was sent, which decides its outcome if there is no answer. Cloning shares.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent(Arc<AtomicBool>);

impl Sent {
    /// From now on the call may be carried out.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The error of a call without an answer.
    pub(super) fn failure(&self, info: impl Into<String>) -> CallError {
        match self.0.load(Ordering::Relaxed) {
            true => CallError::lost(info),
            false => CallError::connect(info),
        }
    }
}

/// An error with its causes, in one line.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // some errors repeat their cause
        let next = error.to_string();
        if !text.ends_with(&next) {
            text += ": ";
            text += &next;
        }
        cause = error.source();
    }
    text
}
