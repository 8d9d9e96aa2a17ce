//! Flows on arbiters (FTN12 §2.2.3): each runs on the arbiter that started it.
//!
//! A flow that has to wait is a [`FlowActor`]: it owns its step stack and state, and has an address.
//! On the same arbiter it is used directly, through a [`FlowHandle`] or a [`FlowRef`]; other arbiters
//! and threads send [`Cancel`], [`Inspect`] and [`Complete`] to its address.
//!
//! | to | on the same arbiter, directly | from everywhere, by message |
//! |---|---|---|
//! | cancel | [`FlowHandle::cancel`], or drop the handle | [`Cancel`] |
//! | see where it is | [`FlowHandle::stack`] | [`Inspect`] |
//! | complete a step | [`asyncsteps_core::Completion`] | [`Complete`], by a [`Completer`] |
//! | wait for its end | `handle.await` | what started it, such as [`RemoteFlow`] |
//!
//! The first turn runs inside of [`start_flow`], and a flow that completes in it costs no actor. The
//! mailbox is made when the address is first asked for. [`running_flows`] lists what waits.
//!
//! [`RemoteFlow`]: crate::pool::RemoteFlow

mod actor;
mod blocking;
mod canceller;
mod completer;
mod deadline;
mod drive;
mod flow_ref;
mod guarded;
mod handle;
mod into_flow;
mod mailbox;
mod messages;
mod owner;
mod running;
mod stack;
mod start;
mod task;

pub use actor::{CompleteError, FlowActor};
pub use blocking::blocking;
pub use canceller::Canceller;
pub use completer::{Completer, WaitSteps};
pub use deadline::DeadlineSteps;
pub use flow_ref::{FlowRef, running_flows};
pub use handle::FlowHandle;
pub use into_flow::{IntoFlow, WithDeadline};
pub use mailbox::FlowContext;
pub use messages::{Cancel, Complete, Inspect};
pub use owner::{FlowEnd, FlowOwner};
pub use stack::Stack;
pub use start::{host_flow, spawn_flow, start_flow};

pub use deadline::earliest;

pub(crate) use drive::{log_end, log_unseen};
pub(crate) use mailbox::CAPACITY;
pub(crate) use running::list_flows;
#[cfg(feature = "ffi")]
pub(crate) use task::Spawned;
pub(crate) use task::spawn;
