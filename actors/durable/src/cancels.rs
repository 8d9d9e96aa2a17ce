//! Who or what cancels a request: a person, or the limit of a caller with the error that the caller gets.

use asyncsteps_core::{Error, codes};
use asyncsteps_journal::Uid;
use asyncsteps_journal::request::{CancelledBy, StoredCancel};

use crate::records::error_of;

/// The code of the error that ends a request which was cancelled.
pub(crate) const CANCELLED: &str = "Cancelled";

/// Who or what has cancelled a request, for people.
pub(crate) fn shown_by(by: &CancelledBy) -> String {
    match by {
        CancelledBy::Person(name) => name.clone(),
        CancelledBy::Limit(failure) => format!("the limit of its caller, with {}", failure.code),
    }
}

/// The error that a caller of a cancelled request gets.
pub(crate) fn error_of_cancelled(uid: Uid) -> Error {
    Error::with_info(codes::INTERNAL_ERROR, format!("the request {uid} was cancelled"))
}

/// The error with which a cancel ends a request.
pub(crate) fn error_of_cancel(cancel: &StoredCancel) -> Error {
    match &cancel.by {
        CancelledBy::Person(name) => Error::with_info(CANCELLED, format!("cancelled by {name}")),
        CancelledBy::Limit(failure) => error_of(failure),
    }
}

/// The error that a caller of a request gets that this cancel has ended.
pub(crate) fn error_for_caller(uid: Uid, cancel: &StoredCancel) -> Error {
    match &cancel.by {
        CancelledBy::Person(_) => error_of_cancelled(uid),
        CancelledBy::Limit(_) => error_of_cancel(cancel),
    }
}
