//! Transports: they turn bytes into requests and answers into bytes; the Executor sees no bytes.

#[cfg(feature = "http")]
mod headers;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub mod websocket;
