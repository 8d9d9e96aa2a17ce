//! Undoing what steps have done, on every way out (FTN12 §1.2, §1.3).
//!
//! A step with an undo has an entry in the flow from its start on. When an error leaves a step, or
//! the flow is cancelled, the entries inside are taken, and a flow of its own runs them, the newest
//! first: so nothing that ends the failed flow can cut an undo short.
//!
//! - `policy.rs`: the options of an undo.
//! - `run.rs`: an undo as it is defined and as it runs.
//! - `flow.rs`: the flow that runs undos.

mod flow;
mod policy;
mod run;

pub(crate) use flow::undo_flow;
pub use policy::UndoPolicy;
pub(crate) use run::{OfInput, OfResult, UndoOf};
