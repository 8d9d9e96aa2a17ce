//! The opening handshake (RFC 6455 §4.2).

use actix_http::ws::hash_key;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderValue, StatusCode};

use crate::http::head::RequestHead;

/// The only version of the protocol.
pub(super) const VERSION: HeaderValue = HeaderValue::from_static("13");

/// The value of `Sec-WebSocket-Accept` in the answer to an upgrade.
///
/// # Errors
/// Why the upgrade is refused: the status and the text for its client.
pub(super) fn accept_key(head: &RequestHead) -> Result<HeaderValue, (StatusCode, &'static str)> {
    let bad = |why| Err((StatusCode::BAD_REQUEST, why));
    let mut protocols = head.values(&UPGRADE).flat_map(|protocols| protocols.split(','));
    if !protocols.any(|protocol| protocol.trim().eq_ignore_ascii_case("websocket")) {
        return bad("The only upgrade is to websocket");
    }
    if !head.offers_upgrade() {
        return bad("No connection upgrade");
    }
    if head.get(&SEC_WEBSOCKET_VERSION) != VERSION.to_str().ok() {
        return Err((StatusCode::UPGRADE_REQUIRED, "Unsupported version"));
    }
    let key = head.get(&SEC_WEBSOCKET_KEY).unwrap_or_default();
    if !BASE64_STANDARD.decode(key).is_ok_and(|key| key.len() == 16) {
        return bad("Bad websocket key");
    }
    // it is base64
    HeaderValue::from_bytes(&hash_key(key.as_bytes())).or_else(|_| bad("Bad websocket key"))
}
