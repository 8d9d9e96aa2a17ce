//! The FutoIn executor (FTN6): each request runs an AsyncSteps flow.
//!
//! An [`Executor`] hosts interfaces, which definitions declare (FTN3), with a
//! [`Template`](asyncsteps_core::Template) for each function. A request goes this way:
//!
//! 1. A transport, such as those of `asyncsteps-transport`, reads bytes, parses a [`Request`](message::Request) and passes
//!    it, with its [`Channel`](channel::Channel), to [`Executor::dispatch`].
//! 2. The executor finds the [`Caller`] by the credentials, with a
//!    [`SecurityProvider`](security::SecurityProvider).
//! 3. It looks the function up and checks conditions, security level and parameters against the
//!    definition.
//! 4. The request waits for a permit of the [`Budget`](asyncsteps_actors::budget::Budget); clients
//!    take turns.
//! 5. A flow of the function's template runs, on the arbiter that took the request. Its steps see the
//!    request through [`RequestSteps`] and call other functions through [`CallSteps`].
//! 6. The result is checked against the definition. An error reaches the caller if it is declared
//!    or standard; any other becomes InternalError, and its cause goes to the log.
//! 7. The transport sends the [`Reply`], once, whatever happened. A caller that goes away, a time
//!    limit or a shutdown cancels the flow: its cancel handlers run and its locks are released.
//!
//! ```
//! use asyncsteps_core::Template;
//! use asyncsteps_executor::iface::{Loader, Source};
//! use asyncsteps_executor::{Executor, RequestSteps};
//! use serde_json::{Value, json};
//!
//! # actix::System::new().block_on(async {
//! let definition = r#"{
//!     "iface": "demo.greeter", "version": "1.0", "ftn3rev": "1.9",
//!     "funcs": { "greet": { "params": { "name": "string" }, "result": "string" } },
//!     "requires": [ "AllowAnonymous" ]
//! }"#;
//! let source = Source::texts([("demo.greeter-1.0-iface.json", definition)]);
//! let greeter = Loader::new([source]).load(&"demo.greeter:1.0".parse()?)?;
//!
//! let greet = Template::build(|asi| {
//!     asi.add(|asi, ()| {
//!         let name: String = asi.param("name")?;
//!         asi.reply(format!("Hello, {name}!"))
//!     });
//! });
//! let executor = Executor::builder()
//!     .interface(greeter, |functions| { functions.add("greet", &greet); })
//!     .build()?;
//! let greeting: Value =
//!     executor.call_as_system("demo.greeter:1.0:greet", json!({ "name": "Ann" })).await?;
//! assert_eq!(greeting, "Hello, Ann!");
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! In reading order:
//! - [`Executor`], [`Builder`], [`Functions`]: building and using one
//! - [`functions`]: functions with types; [`ftn3`]: which type of FTN3 is which of Rust
//! - [`Service`], [`plan`]: what such functions are made of
//! - [`RequestSteps`], [`CallSteps`]: what steps can do with a request
//! - [`channel`] and [`raw`]: the other end of a request, raw data
//! - [`security`]: users and their passwords (FTN8)
#![cfg_attr(feature = "test", doc = "- [`test`](mod@test): requests of tests")]
//! - [`observe`]: spans of requests, figures, and requests that were kept
//! - [`health`]: whether it works, and whether it should get requests
//! - [`recorder`]: requests that survive a crash, as their host sees them
//!
//! [`iface`], [`message`], [`net`], `typed`, [`typescript`] and [`url`] are modules of `asyncsteps-futoin`, so that a service needs one
//! dependency.
//!
//! Features: `jwt`, callers with bearer tokens; `test`, requests of tests, for the `dev-dependencies` of a service.
#![forbid(unsafe_code)]

pub use asyncsteps_futoin::typed;
pub use asyncsteps_futoin::{iface, message, net, typescript, url};

pub use self::executor::*;
pub use self::plan::{Cx, Either, Emits, Returns, Service, Step, Steps};

pub mod channel;
mod executor;
pub mod health;
pub mod observe;
pub mod plan;
pub mod raw;
mod recent;
pub mod recorder;
pub mod security;
mod stored;

#[doc = include_str!("docs/functions.md")]
pub mod functions {}

#[doc = include_str!("docs/plans.md")]
pub mod plans {}

#[doc = include_str!("docs/ftn3.md")]
pub mod ftn3 {}
