//! The FutoIn executor (FTN6): requests over HTTP, WebSocket and in process run AsyncSteps flows.
//!
//! An [`Executor`] runs the template of a function for each request, checks it against the
//! definition of its interface (FTN3), and answers once, whatever happens.
//!
//! In reading order:
//! - [`Executor`], [`Functions`]: serving requests (FTN6)
//! - [`channel`] and [`raw`]: the way to the caller, raw data
//! - [`security`]: users and their passwords (FTN8)
//! - [`transport`](mod@transport): HTTP and WebSocket (FTN5)
//! - [`observe`]: spans of requests, and a log of them and of steps
//! - [`deploy`]: running a service under systemd, in containers and behind proxies
//!
//! [`iface`], [`message`], [`net`] and [`url`] are those of `asyncsteps-futoin`, so that a service
//! needs one dependency.
//!
//! Features: `http` (on by default) brings the transports, `log` the log of [`observe`], and `rustls`
//! TLS for the server.
#![forbid(unsafe_code)]

pub use asyncsteps_futoin::{iface, message, net, url};

pub use self::executor::*;

pub mod channel;
mod executor;
pub mod observe;
pub mod raw;
pub mod security;
pub mod transport;

#[doc = include_str!("docs/deploy.md")]
pub mod deploy {}

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
