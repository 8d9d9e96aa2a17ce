//! Codes of the closing handshake (RFC 6455 §7.4.1).

pub(super) const NORMAL: u16 = 1000;
pub(super) const GOING_AWAY: u16 = 1001;
pub(super) const PROTOCOL_ERROR: u16 = 1002;
pub(super) const NO_TEXT: u16 = 1007;
pub(super) const POLICY_VIOLATION: u16 = 1008;
pub(super) const TOO_LARGE: u16 = 1009;
pub(super) const TRY_AGAIN_LATER: u16 = 1013;
