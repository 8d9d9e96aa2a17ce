//! The universal binary interface of FTN12 §2.7: AsyncSteps for C and whatever can call it.
//!
//! `include/asyncsteps.h` is the interface itself; `examples` shows it from C, C++ and Python.
//!
//! Who may do what where:
//! - Steps are added and completed on the thread of the event loop. Any thread completes a step that
//!   waits, executes, cancels and frees roots, and schedules callbacks.
//! - State variables of foreign code live in the [`SharedState`](asyncsteps::SharedState) of the
//!   flow: any thread makes and reads them while the root lives. Steps in Rust read them as
//!   [`Variable`], and foreign code reads those of Rust as values: shared ones on any thread, the
//!   others in the callbacks of the flow.
//! - A root is executed as often as its owner wants, one time after the other, with the same
//!   variables. `cancel` waits for the cancel handlers if another thread runs them.

pub mod abi;
mod aliases;
mod binary;
mod context;
mod cpp_tool;
mod end;
mod event_loop;
pub mod exports;
mod foreign_sync;
mod guard;
mod handle;
mod host;
mod local;
mod memory;
mod ops;
mod own_sync;
mod parts;
mod pool;
mod remote;
mod root;
mod sched;
mod steps;
mod table;
mod value;
mod variables;
mod wrap;

pub use binary::{Binary, BinaryStep, into_root};
pub use foreign_sync::{BinarySync, SyncPointer};
pub use host::{FindHost, Host, Stop, provide_hosts};
pub use value::{Value, Values};
pub use variables::Variable;
pub use wrap::{Refused, wrap};
