//! FutoIn without IO: messages, interface definitions, credentials and addresses.
//!
//! A definition says what can be called and with which types. A message names a function and brings
//! parameters. This crate reads both, checks one by the other, and writes answers. It has no runtime,
//! no clock and no socket, so a server, a proxy, a client or a test tool can use it:
//!
//! ```
//! use asyncsteps_futoin::iface::{Loader, Source};
//! use asyncsteps_futoin::message::Request;
//!
//! let definition = Loader::new([Source::builtin()]).load(&"futoin.ping:1.0".parse()?)?;
//! let mut request = Request::parse(br#"{"f":"futoin.ping:1.0:ping","p":{"echo":7}}"#)?;
//! let called = request.function_name()?;
//! let function = definition.function("ping").expect("the definition has it");
//! let mut params = request.take_params(&called, function)?;
//! function.check_params(&called, &mut params)?;
//! assert_eq!(params["echo"], 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order:
//! - [`iface`]: interface definitions (FTN3), loading and checks; [`iface::guide`] is how to write them
//! - [`message`]: requests and responses as JSON, MessagePack and CBOR (FTN3, FTN4, FTN5)
//! - [`url`]: calls in a URL (FTN5)
//! - [`openapi`]: definitions as an OpenAPI document, for tools that do not know FutoIn
//! - [`security`]: credentials, signatures, passwords, security levels (FTN8)
//! - [`typed`]: the Rust types of a function beside its declaration
//! - [`typescript`]: definitions as TypeScript, and a client
//! - [`net`]: addresses and ranges of clients, trusted proxies
//! - [`Refusal`]: how every check says no
#![forbid(unsafe_code)]

pub mod iface;
pub mod message;
pub mod net;
pub mod openapi;
mod refusal;
#[doc(hidden)]
pub mod report;
pub mod security;
pub mod typed;
pub mod typescript;
pub mod url;

pub use self::refusal::Refusal;
