//! FutoIn messages as typed values (FTN3 §1.6, §1.7), coded as JSON, MessagePack or CBOR.
//!
//! [`Request::parse`] accepts any bytes and never panics; an unreadable message becomes a
//! [`RefusedMessage`], which has the answer to send. It checks the form of the message only. The other
//! checks are functions of their own, because FTN6 §1 orders them among the checks of the executor:
//! [`Request::function_name`], [`Request::take_params`] for parameters, [`Request::check_fields`] for
//! unknown fields. They return a [`Refusal`](crate::Refusal).
//!
//! What is read is exact. A key that an object has twice, at any depth, is InvalidRequest with its path, and so is a
//! number that no value holds: an integer beyond 64 bits, unless `f64` has just that. Other numbers are the nearest `f64`,
//! as in every peer.
//!
//! # Byte strings
//!
//! Handlers, checks and results use [`serde_json::Value`] whatever the coding of the message. A value
//! of type `data` (FTN3 §1.8) is its padded base64 text there. The binary codings turn that text into a
//! byte string and back wherever the definition of the function declares `data`. [`Data`] reads and
//! writes it as bytes.
//!
//! ```
//! use asyncsteps_futoin::message::{Request, Response};
//! use serde_json::json;
//!
//! let body = br#"{"f":"conform.main:1.2:echo","p":{"msg":"hi"},"rid":"C1"}"#;
//! let (coding, response) = match Request::parse(body) {
//!     Ok(request) => {
//!         let result = json!({"msg": "hi"});
//!         (request.coding(), Response::success(result).with_rid(request.rid()))
//!     }
//!     Err(refusal) => (refusal.coding(), refusal.into_response()),
//! };
//! let mut bytes = Vec::new();
//! response.write(coding, None, &mut bytes);
//! assert_eq!(bytes, br#"{"r":{"msg":"hi"},"rid":"C1"}"#);
//! ```

mod binary;
mod called;
mod coding;
mod data;
mod decode;
mod encode;
mod exact;
mod headers;
mod malformed;
mod peer;
mod refused;
mod request;
mod response;
mod rid;
mod signed;

#[cfg(test)]
mod tests;

pub use self::coding::{Coding, MediaType};
pub use self::data::Data;
pub(crate) use self::exact::read as read_json;
pub use self::headers::{Headers, header_name};
pub(crate) use self::malformed::is_too_deep;
pub use self::peer::Message;
pub use self::refused::RefusedMessage;
pub(crate) use self::refused::{invalid, invalid_name};
pub use self::request::Request;
pub use self::response::{ErrorResult, Response};
pub use self::rid::Rid;
pub use self::signed::SignedFields;
