//! Calls of FutoIn services elsewhere, over HTTP and WebSocket (FTN5; the simple Invoker of FTN7).
//!
//! An [`HttpFabric`] has a URL for each interface that is called. Any executor can be behind it: the one of this
//! workspace, the JavaScript one, or another.
//!
//! ```
//! use std::sync::Arc;
//! use asyncsteps_executor::Executor;
//! use asyncsteps_executor::security::Secret;
//! use asyncsteps_fabric::Client;
//! use asyncsteps_fabric::http::{Config, HttpFabric, Remote};
//!
//! let services = HttpFabric::new(Config::new())?;
//! let bank = Remote::new("wss://bank.example/ftn/").password("shop", Secret::new("correct horse"));
//! services.register("demo.bank:1.2".parse()?, bank)?;
//!
//! // steps of its functions call `demo.bank:1.2:transfer` as any other function
//! let shop = Executor::builder().invoker(Client::new(Arc::new(services))).build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | URL | transport |
//! |---|---|
//! | `http://`, `https://` | HTTP/1.1, one call at a time on each of some connections that are kept |
//! | `ws://`, `wss://` | WebSocket, all calls on one connection, which is opened again by the next call after it ended |
//! | `secure+http://`, `secure+ws://` | the same without TLS in a network that is secure itself (FTN7 §2.1.3) |
//!
//! A call that is dropped, or has no time left, closes its HTTP connection, and an executor cancels the
//! function then. WebSocket has no message for that: the function goes on, and its answer is dropped.
//!
//! The trace of a call goes along over HTTP, as `traceparent`, with [what it carries](asyncsteps_actors::carried), whoever the
//! service belongs to. A message on a WebSocket has no place for it: FTN3 knows
//! no such field, and executors refuse unknown ones. There it causes a trace of its own. For the same reason a call with a
//! [key](asyncsteps_executor::IDEMPOTENCY_KEY) is made over HTTP only, and refused with InvalidRequest on a WebSocket: it
//! would be carried out as often as it is sent.
//!
//! Where several kinds of fabric are used, [`Routes`](crate::Routes) chooses by interface.

mod body;
mod config;
mod connector;
mod credentials;
mod error;
mod fabric;
mod fetch;
mod post;
mod remote;
mod sent;
mod service;
mod session;
mod socket;
mod url;

pub use config::Config;
pub use error::HttpError;
pub use fabric::HttpFabric;
pub use fetch::{Fetching, fetch};
pub use remote::Remote;
pub use rustls::ClientConfig;
