//! FutoIn messages as typed values (FTN3 §1.6, §1.7), coded as JSON, MessagePack or CBOR.
//!
//! [`Request::parse`] accepts any bytes and never panics; what it cannot read becomes a
//! [`Refusal`], which is an answer to send. It finds out only what belongs to the message as such.
//! The rest has its turn in the executor, because FTN6 §1 orders the checks: the function's name
//! in [`Request::function_name`], parameters in [`Request::take_params`], unknown fields in
//! [`Request::check_fields`].
//!
//! Of a field that is repeated, at any depth, the last one counts, as in every ECMAScript peer:
//! the signature check, the parameter check and the handler all see that one.
//!
//! # Byte strings
//!
//! JSON's values are the values of all codings: whatever a message came in, handlers, checkers and
//! results have a [`serde_json::Value`], and a value of type `data` (FTN3 §1.8) is its padded
//! base64 text. The binary codings turn that text into a byte string and back, wherever the
//! definition of the function declares `data`. [`Data`] reads and writes it as bytes.
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
mod cbor;
mod coding;
mod data;
mod fields;
mod headers;
mod msgpack;
mod peer;
mod request;
mod response;
mod signed;

#[cfg(test)]
mod tests;

pub use self::{
    coding::{Coding, MediaType},
    data::Data,
    headers::Headers,
    peer::Message,
    request::{Refusal, Request, Rid},
    response::Response,
    signed::Signed,
};
pub(crate) use self::{fields::is_too_deep, request::name_refused};
