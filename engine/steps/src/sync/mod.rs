//! Synchronisation (FTN12 §1.11): the protocol, the accounting of locks, and locks for flows on one
//! event loop.
//!
//! The accounting is done by pure machines: [`mutex::Queue`] and [`throttle::Queue`] know who holds,
//! who waits, and who is next. An object that carries such a machine, on one event loop or as an
//! actor, implements [`ISync`].

mod any;
pub mod limiter;
mod local;
pub mod mutex;
mod section;
pub mod throttle;
mod wait_queue;
mod zero;

pub use any::{AnySync, StepLock};
pub use local::{Limiter, Mutex, Throttle};
pub use section::{ISync, Section, SharedSync};
pub(crate) use section::{SharedSectionBody, Synced};
pub use zero::ZeroLimit;
