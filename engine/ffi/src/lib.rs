//! The universal binary interface of FTN12 §2.7: AsyncSteps for C and whatever can call it.
//!
//! `include/asyncsteps.h` is the interface itself; `examples` shows it from C, C++ and Python.

pub mod abi;
mod binary;
mod context;
mod event_loop;
pub mod exports;
mod faces;
mod foreign_sync;
mod guard;
mod handle;
mod host;
mod local;
mod ops;
mod own_sync;
mod pool;
mod remote;
mod root;
mod sched;
mod steps;
mod table;
mod tool;
mod value;
mod wrap;

pub use binary::{Binary, BinaryStep, into_root};
pub use foreign_sync::{BinarySync, SyncPointer};
pub use host::{FindHost, Host, Stop, provide_hosts};
pub use value::{Value, Values};
pub use wrap::{Refused, wrap};
