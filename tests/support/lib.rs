//! What the tests of the workspace share.
//!
//! A library of its own and not a module, because each test uses another part of it. In reading
//! order: [`stream`] (plain or TLS), [`client`] (HTTP as bytes), [`h2`] (HTTP/2 as
//! bytes), [`ws`] (WebSocket as bytes), [`server`] (an executor behind HTTP
//! in its own thread), [`front`] (which HTTP server that is), [`shop`] (the demo, in process or as a program, and its database),
//! [`conform`] (the interfaces of the demo, implemented), [`npm`] (Node.js programs), [`python`] (Python programs), [`jobs`]
//! (requests that wait until a test lets them go on).
#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "helpers of tests panic to fail the test")]

pub mod client;
pub mod conform;
pub mod front;
pub mod h2;
pub mod jobs;
pub mod log;
pub mod npm;
pub mod python;
pub mod server;
pub mod shop;
pub mod stream;
pub mod ws;

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_executor::iface::{Definition, Loader, Source};

/// How long anything may take before a test fails instead of waiting on: far more than a loaded
/// machine needs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The definition in this text, which has this id: `test.bank:1.0`.
#[must_use]
pub fn definition(id: &str, text: &'static str) -> Arc<Definition> {
    let file = format!("{}-iface.json", id.replace(':', "-"));
    let id = id.parse().expect("a name");
    Loader::new([Source::texts([(file, text)])]).load(&id).expect("a definition")
}
