//! AsyncSteps flows, locks and the FutoIn Executor on actix actors.
//!
//! What `asyncsteps` computes runs here: a flow on the arbiter that started it, in a task of its own
//! once it has to wait, and with an actor that stands for it once somebody asks for its address;
//! locks as actors that flows of all arbiters share; and an Executor that runs the template of a
//! function for each request.
//!
//! ```
//! use asyncsteps::Template;
//! use asyncsteps_actors::flow::start_flow;
//! use asyncsteps_actors::sync::Mutex;
//!
//! # actix::System::new().block_on(async {
//! let lock = Mutex::new(Default::default());
//! let double = Template::build(|asi| {
//!     asi.add(|asi, ()| asi.success(21));
//!     asi.sync(&lock, |asi, n: i32| asi.success(n * 2));
//! });
//! assert_eq!(start_flow::<i32>(double.flow()).await.unwrap(), 42);
//! # });
//! ```
//!
//! In reading order:
//! - [`flow`]: starting flows, waiting for them, cancelling them
//! - [`host`]: arbiters for flows, placement and shutdown
//! - [`budget`]: admission, fair among clients
//! - [`sync`](mod@sync): locks
//! - [`tool`]: the event loop of an arbiter for code that runs on any loop
#![cfg_attr(feature = "ffi", doc = "- [`ffi`]: steps in C and other languages (FTN12 §2.7)")]
//! - [`iface`] and [`message`]: interface definitions (FTN3) and messages, pure
//! - [`channel`] and [`raw`]: the way to the caller, raw data
//! - [`security`]: who calls (FTN8); [`url`]: calls in a URL; [`net`]: from where; pure
//! - [`executor`]: serving requests (FTN6)
//! - [`transport`](mod@transport): HTTP and WebSocket (FTN5)
//! - [`observe`]: spans of requests and steps, and a log of them
//! - [`deploy`]: running a service under systemd, in containers and behind proxies
//!
//! Features: `http` (on by default) brings the transports, `log` the log of [`observe`], `rustls` TLS
//! for the server, and `ffi` steps in other languages.
#![forbid(unsafe_code)]

pub mod budget;
pub mod channel;
mod clock;
pub mod executor;
#[cfg(feature = "ffi")]
pub mod ffi;
pub mod flow;
pub mod host;
pub mod iface;
pub mod message;
pub mod net;
pub mod observe;
pub mod raw;
pub mod security;
pub mod sync;
pub mod tool;
pub mod transport;
pub mod url;
mod wheel;

#[doc = include_str!("docs/deploy.md")]
pub mod deploy {}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
