//! Refusals of callers.

use crate::refusal::Refusal;

/// FTN3 §1.9.1: credentials are wrong, or the channel does not allow the call.
pub const SECURITY_ERROR: &str = "SecurityError";

impl Refusal {
    /// SecurityError for credentials that are wrong, or that the provider cannot check. The text is
    /// the same for both and for every reason, so that no caller learns which users exist (FTN8
    /// §2.1.7).
    #[must_use]
    pub fn credentials() -> Self {
        Self::new(SECURITY_ERROR, "Basic Auth Verification Failed")
    }

    /// SecurityError for `-internal` from outside of the process.
    #[must_use]
    pub fn not_internal() -> Self {
        Self::new(SECURITY_ERROR, "Not internal channel")
    }
}
