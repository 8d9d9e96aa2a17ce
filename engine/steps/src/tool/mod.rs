//! AsyncTool, the event loop interface (FTN12 §2.6), and flows as futures on it.
//!
//! [`AsyncTool`] is the interface of an event loop: to call something soon or later, to cancel that,
//! and to read the time. [`Manual`] is an event loop driven by hand: for foreign loops, which call
//! [`Manual::iterate`] at the times that it returns, and for virtual time. `asyncsteps_actors::tool`
//! has the one for actix and tokio.
//!
//! [`Flow::execute_on`](crate::Flow::execute_on) executes a flow on any of them, and
//! [`Flow::promise`](crate::Flow::promise) makes it a future with a typed result (FTN12 §2.2.3):
//!
//! ```
//! use std::time::Duration;
//! use asyncsteps_core::tool::{AsyncTool, Manual};
//! use asyncsteps_core::{Flow, Time};
//!
//! let tool = Manual::new(Time::ZERO);
//! let mut flow = Flow::new();
//! flow.add(|asi, ()| {
//!     asi.sleep(Duration::from_secs(3600));
//!     asi.success_step("tea");
//! });
//! let promise = flow.promise::<String, _>(&tool);
//! assert_eq!(tool.complete(promise).unwrap().unwrap(), "tea");
//! // an hour of virtual time has passed
//! assert_eq!(tool.now().since_epoch(), Duration::from_secs(3600));
//! ```

mod arrivals;
mod async_tool;
mod futures;
mod manual;
mod promise;
mod queue;
mod remote;

pub use async_tool::AsyncTool;
pub use manual::{Handle, Manual};
pub use promise::Promise;
pub use remote::Remote;
