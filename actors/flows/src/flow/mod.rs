//! Flows on arbiters (FTN12 §2.2.3): each runs on the arbiter that started it.
//!
//! The first turn of a flow runs at once, inside [`start_flow`]. A flow that completes in it takes
//! no memory of its own; any other becomes a task. The [`FlowActor`] of a flow, for other arbiters,
//! is made when somebody first asks for its address.

mod actor;
mod blocking;
mod deadline;
mod handle;
mod into_flow;
mod site;
mod task;

pub use actor::{Cancel, FlowActor, Inspect, Stack};
pub use blocking::blocking;
pub use deadline::DeadlineSteps;
pub use handle::{Canceller, FlowHandle, spawn_flow, start_flow};
pub use into_flow::{IntoFlow, Within};

pub use deadline::earliest;
pub(crate) use site::{Site, Submission};
pub use task::{End, Hosted, Owner, host};
#[cfg(feature = "ffi")]
pub(crate) use task::{cancel_now, host_later};
