//! The opening handshake (RFC 6455 §4.2).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{
    AUTHORIZATION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderValue, StatusCode};
use sha1::{Digest as _, Sha1};

use crate::http::head::RequestHead;

/// The only version of the protocol.
pub(super) const VERSION: HeaderValue = HeaderValue::from_static("13");

/// What a server appends to the key of a client.
const UUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

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
    let accepted = Sha1::new().chain_update(key).chain_update(UUID).finalize();
    // it is base64
    HeaderValue::try_from(BASE64_STANDARD.encode(accepted)).or_else(|_| bad("Bad websocket key"))
}

/// The protocol of an upgrade that has a token behind it, `Sec-WebSocket-Protocol: bearer, <token>`: pages can set no other
/// header.
pub(super) const BEARER: HeaderValue = HeaderValue::from_static("bearer");

/// The same as the value of `Authorization`; nothing if the upgrade offers no such protocol.
///
/// # Errors
/// Why the upgrade is refused.
pub(super) fn bearer(head: &RequestHead) -> Result<Option<HeaderValue>, &'static str> {
    let protocols = head.values(&SEC_WEBSOCKET_PROTOCOL).flat_map(|value| value.split(','));
    let mut protocols = protocols.map(str::trim);
    if protocols.next().is_none_or(|name| name != BEARER) {
        return Ok(None);
    }
    let Some(token) = protocols.next() else { return Ok(None) };
    if head.get(&AUTHORIZATION).is_some() || protocols.next().is_some() {
        return Err("Sec-WebSocket-Protocol has a token beside other credentials or protocols");
    }
    let mut authorization = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| "Sec-WebSocket-Protocol has no token")?;
    authorization.set_sensitive(true);
    Ok(Some(authorization))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_answered_as_in_the_example_of_the_specification() {
        let request = http::Request::get("/")
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
            .body(())
            .expect("a request");
        let accepted = accept_key(&RequestHead::of_test(request));
        assert_eq!(accepted, Ok(HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")));
    }
}
