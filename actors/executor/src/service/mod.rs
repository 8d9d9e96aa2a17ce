//! Functions with types: handlers that read their parameters and give their results as Rust types.
//!
//! [`functions`](crate::functions) is the guide.
//!
//! - `context.rs`: the [`Service`] that functions share, and the [`Cx`] that bodies get.
//! - `key.rs`: what tells steps apart in their keys.
//! - `steps.rs`: [`Steps`], the steps of one function; `step.rs` is one of them and what is said
//!   behind it; `several.rs` does several things at once, `branches.rs` in parallel branches.
//! - `handler.rs`: what can handle a function, and the template that is made of it.

mod branches;
mod context;
mod handler;
mod key;
mod several;
mod step;
mod steps;
mod substeps;

pub use branches::Branches;
pub use context::{Cx, Service};
pub(crate) use handler::typed_template;
pub use handler::{AddsSteps, Awaits, Handler};
pub use step::{Body, Gives, Kind, Nested, Step};
pub use steps::{Steps, This};
