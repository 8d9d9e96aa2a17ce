//! Synchronisation objects for flows on all arbiters (FTN12 §1.11).
//!
//! The accounting of an object is shared: a flow enters and leaves through its handle, within a
//! short critical section and without a message. Only who has to wait is told later, by whoever
//! makes room. So nothing depends on an actor being alive, but for the windows of a [`Throttle`],
//! which its actor ends.
//!
//! Around the accounting there are actors: [`MutexActor`], [`ThrottleActor`] and [`LimiterActor`]
//! take the messages [`Lock`] and [`Enter`], so that actors use the same objects as flows.

mod actor;
mod calls;
pub mod deadlock;
mod keys;
pub mod limiter;
mod lock;
pub mod mutex;
pub mod registry;
pub mod throttle;

pub use actor::{Answer, Enter, GetLoad, LimiterActor, Lock, MutexActor};
pub use limiter::Limiter;
pub use lock::Load;
pub use mutex::{LockGuard, Mutex};
pub use registry::{Registry, RegistryError};
pub use throttle::{Throttle, ThrottleActor};

pub use calls::{Call, Calling, calling};
