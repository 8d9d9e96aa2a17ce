//! The errors that every function may raise (FTN3 §1.9.1).

use asyncsteps_core::codes;

/// Errors that a function may raise without declaring them (FTN3 §1.9.1). Errors that only invokers
/// generate are not among them: a Timeout, ConnectError, CommError or InvokerError of a call that a
/// function makes does not describe the call that it serves.
pub(super) const STANDARD: [&str; 9] = [
    codes::UNKNOWN_INTERFACE,
    codes::NOT_SUPPORTED_VERSION,
    codes::NOT_IMPLEMENTED,
    codes::UNAUTHORIZED,
    codes::INTERNAL_ERROR,
    codes::INVALID_REQUEST,
    codes::DEFENSE_REJECTED,
    codes::PLEASE_REAUTH,
    codes::SECURITY_ERROR,
];
