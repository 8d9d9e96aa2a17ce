//! Error codes with a fixed meaning (FTN3 §1.9.1, FTN12 §1.3 and §1.11.6).
//!
//! Codes are open: interfaces declare more of them, so a code is text and not an enum.

/// The connection to the peer could not be made; nothing was sent.
pub const CONNECT_ERROR: &str = "ConnectError";
/// The connection broke after sending; the outcome is unknown.
pub const COMM_ERROR: &str = "CommError";
/// The interface is not known to the peer.
pub const UNKNOWN_INTERFACE: &str = "UnknownInterface";
/// The interface is known to the peer, the version is not.
pub const NOT_SUPPORTED_VERSION: &str = "NotSupportedVersion";
/// The function is declared, but not implemented.
pub const NOT_IMPLEMENTED: &str = "NotImplemented";
/// The caller may not call this function.
pub const UNAUTHORIZED: &str = "Unauthorized";
/// A bug or a broken rule on this side.
pub const INTERNAL_ERROR: &str = "InternalError";
/// A bug on the calling side.
pub const INVOKER_ERROR: &str = "InvokerError";
/// The request does not follow the interface.
pub const INVALID_REQUEST: &str = "InvalidRequest";
/// The request was refused to protect the service: a limit is reached.
pub const DEFENSE_REJECTED: &str = "DefenseRejected";
/// The caller has to authenticate again, at a higher level.
pub const PLEASE_REAUTH: &str = "PleaseReauth";
/// Credentials or signature are wrong, or the channel is not secure enough.
pub const SECURITY_ERROR: &str = "SecurityError";
/// A time limit expired (`set_timeout`).
pub const TIMEOUT: &str = "Timeout";
