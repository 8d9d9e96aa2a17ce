//! Functions with types: handlers that read their parameters and give their results as Rust types.
//!
//! [`functions`](crate::functions) is the guide.
//!
//! - `context.rs`: the [`Service`] that functions share, and the [`Cx`] that bodies get.
//! - `key.rs`: what tells steps apart in their keys.
//! - `steps.rs`: [`Steps`], the steps of one function; `step.rs` is one of them and what is said
//!   behind it; `several.rs` and `parts.rs` do several things at once, `branches.rs` in parallel branches.
//! - `looping.rs`: loops with a state. `random.rs`: random numbers and the time of day.
//! - `remembered.rs`: steps of a request whose host remembers them; `retired.rs`: those that the function has no
//!   more; `transacted.rs`: those that the host carries out in a transaction.
//! - `handler.rs`: what can handle a function, and the template that is made of it.

mod answer;
mod branches;
mod context;
mod handler;
mod key;
mod looping;
mod parts;
mod random;
mod remembered;
mod retired;
mod several;
mod step;
mod steps;
mod substeps;
mod transacted;

pub use crate::recorder::Next;
pub use answer::AnswerWithin;
pub use branches::Branches;
pub use context::{Cx, Service};
pub(crate) use context::{coded, errors_of, random_id, read};
pub use handler::{AddsSteps, Awaits, Built, FunctionOf, Handler};
pub(crate) use key::write_item;
pub(crate) use random::seed;
pub use retired::Retired;
pub use step::{Body, Items, Kind, Leaf, Loop, Nested, Parts, Returns, Step, Transacted};
pub use steps::{FunctionPolicies, Steps};
