//! AsyncSteps flows and locks on actix actors.
//!
//! Everything is an actor with an address: each flow, which owns its step stack and state, and each
//! mutex, throttle and limiter. On its own arbiter you use it directly, without a message; from
//! anywhere else you send it one. The accounting of locks is shared, so that they are used directly
//! from every thread.
//!
//! ```
//! use asyncsteps_core::Template;
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
//! - [`flow`]: starting flows, waiting for them, and their messages
//! - [`pool`]: arbiters for flows, placement and shutdown; [`drain`]: counting flows in flight
//! - [`budget`]: admission, fair among clients
//! - [`sync`](mod@sync): locks and their messages
//! - [`clock`] and [`timer`]: the time of an arbiter; [`random`]: random names; [`latency`]: distributions of times;
//!   [`watched`]: a value whose waiters wake in order
//! - [`span`]: spans of flows and steps through `tracing`; [`trace`]: the trace that a flow belongs to,
//!   [`carried`]: what it carries; [`record`]: the history of the steps of a flow
//! - [`stuck`]: turns that block their arbiter
//! - [`tool`]: the event loop of an arbiter for code that runs on any loop
#![cfg_attr(feature = "ffi", doc = "- [`ffi`]: steps in C and other languages (FTN12 §2.7)")]
//!
//! The feature `ffi` brings steps in other languages.
#![forbid(unsafe_code)]

mod arbiter_load;
pub mod carried;
pub mod clock;
pub mod drain;
#[cfg(feature = "ffi")]
pub mod ffi;
pub mod flow;
pub mod latency;
pub mod pool;
pub mod random;
pub mod record;
pub mod span;
pub mod stuck;
pub mod sync;
pub mod timer;
pub mod tool;
pub mod trace;
pub mod watched;

pub use asyncsteps_budget as budget;
