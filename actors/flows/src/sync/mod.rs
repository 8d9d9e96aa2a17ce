//! Synchronisation objects for flows on all arbiters (FTN12 §1.11).
//!
//! Each [`Mutex`], [`Throttle`] and [`Limiter`] is an actor with an address. Its accounting is shared,
//! so that flows and other code also use it directly, from any thread: they enter and leave through a
//! handle, within a short critical section and without a message. A holder that leaves admits the next
//! waiter. So no lock depends on an actor that runs, but for the periods of a throttle, which its actor
//! ends.
//!
//! Code that has an address instead of a handle sends [`Lock`], [`Unlock`], [`Enter`] and [`Inspect`].
//! A lock is answered by a [`LockGuard`], which unlocks when it is dropped, or which becomes a
//! [`LockTicket`]: a name of the lock that can be kept and sent, for [`Unlock`]. Whatever gets lost (the
//! request, the answer, the guard, the ticket) leaves the lock free.
//!
//! In this order: [`Mutex`], [`Throttle`], [`Limiter`], [`Registry`] for objects by name, and
//! [`deadlock`].

mod away;
mod calls;
pub mod deadlock;
mod fencing_token;
mod keys;
pub mod limiter;
mod limits;
mod load;
mod messages;
pub mod mutex;
mod on_demand;
mod owners;
pub mod registry;
pub mod throttle;
mod waiter;
mod waits;

pub use away::AwayWait;
pub use calls::{Call, Calling, calling};
pub use fencing_token::{CallerFences, FencingToken, HeldFence, ParseFencingTokenError, fences};
pub use limiter::{Limiter, LimiterActor};
pub use limits::Limits;
pub use load::{KeyReport, Load, LockReport};
pub use messages::{Deferred, Enter, Inspect, Lock, Unlock};
pub use mutex::{HeldLock, LockGuard, LockTicket, Mutex, MutexActor, UnlockError};
pub use owners::{KeyOwners, LockOwner, WaitingOwner};
pub use registry::{Registry, RegistryError};
pub use throttle::{Throttle, ThrottleActor};
pub use waits::WaitFigures;
