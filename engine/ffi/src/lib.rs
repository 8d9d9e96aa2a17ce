//! The universal binary interface of FTN12 §2.7: AsyncSteps for C and languages that can call C.
//!
//! `include/asyncsteps.h` is the interface itself; `examples` shows it from C, C++ and Python.
//!
//! # Model
//!
//! Foreign code gets a pointer `bsi` in each callback. It points to a table of functions, which add
//! steps, complete a step or make it wait. Behind the pointer is a handle of one of our flows. Our own
//! event loops run flows for foreign programs, and any other host can do so, too ([`EventLoop`]).
//!
//! The crate connects both sides:
//! - [`Binary`] passes foreign code the pointer of a flow in Rust, [`into_root`] makes a flow a root
//!   that foreign code executes and frees, and [`BinaryStep`] is a foreign step in a template.
//! - [`wrap()`] runs steps in Rust on the flow of another implementation.
//! - [`BinarySync`] is a foreign lock for our flows, [`SyncPointer`] a lock in Rust for foreign steps.
//! - [`Value`] is a binary value, [`Variable`] a state variable that foreign code made.
//!
//! ```
//! use std::ffi::c_void;
//! use asyncsteps_core::{Flow, run_to_end};
//! use asyncsteps_ffi::Binary;
//! use asyncsteps_ffi::abi::{FutoInArgs, FutoInAsyncSteps};
//!
//! // a step as a C compiler would make it: it passes its arguments on
//! unsafe extern "C" fn echo(
//!     bsi: *mut FutoInAsyncSteps, _: *mut c_void, args: *const FutoInArgs,
//! ) {
//!     unsafe { ((*(*bsi).api).success)(bsi, args.cast_mut()) }
//! }
//!
//! let mut flow = Flow::new();
//! flow.success_step(42);
//! // SAFETY: the pointer is valid while `binary` calls
//! flow.binary(|bsi| unsafe { ((*(*bsi).api).add)(bsi, std::ptr::null_mut(), Some(echo), None) });
//! assert_eq!(run_to_end::<i32>(flow).unwrap(), 42);
//! ```
//!
//! # Threads
//!
//! - Steps are added and completed on the thread of the event loop. Any thread completes a step that
//!   waits, executes, cancels and frees roots, and schedules callbacks.
//! - State variables of foreign code are in the [`SharedState`](asyncsteps_core::SharedState) of the flow: any thread
//!   makes and reads them while the root lives. Steps in Rust read them as [`Variable`]. Foreign code reads the
//!   variables of Rust as values: shared ones on any thread, others in the callbacks of the flow.
//! - A root can be executed again after it has ended, with the same variables. `cancel` waits for the
//!   cancel handlers if another thread runs them.
//!
//! # Memory
//!
//! The memory behind our pointers is never freed, and every block has eight equivalent addresses: the
//! address identifies the generation. So a pointer that is used too late, or copied, or of another
//! library is refused. A block is in quarantine before it is used again.
//!
//! # Reading order
//!
//! [`abi`] has the structures of the header. `table` has the functions behind the pointer; they check
//! and call a `handle`, whose parts are `local`, `remote` and, for each flow, `context`; `ops`, `root`
//! and `variables` are the operations of handles. `steps` makes foreign callbacks steps. `event_loop`
//! and `sched` run flows and callbacks, [`exports`] are the functions that foreign programs link to.

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
mod sync_object;
mod table;
mod value;
mod variables;
mod wrap;
mod wrapped;

pub use binary::{Binary, BinaryStep, into_root};
pub use foreign_sync::{BinarySync, SyncPointer};
pub use host::{EventLoop, FindEventLoop, Stop, register_event_loops};
pub use value::{Value, Values};
pub use variables::Variable;
pub use wrap::{Refused, wrap};
