//! AsyncTool, the event loop interface (FTN12 §2.6), and flows as futures on it.
//!
//! [`AsyncTool`] is what flows and their surroundings may ask of an event loop: to call something
//! soon, to call it later, to take it back, and the time. [`Manual`] is such a loop, driven by hand:
//! for foreign loops, which call [`Manual::iterate`] when it asks to, and for virtual time.
//! `asyncsteps_actors::tool` has the one for actix and tokio.
//!
//! [`Flow::promise`](crate::Flow::promise) makes a flow a future with a typed result
//! (FTN12 §2.2.3) on any of them:
//!
//! ```
//! use std::time::Duration;
//! use asyncsteps::tool::{AsyncTool, Manual};
//! use asyncsteps::{Flow, Time};
//!
//! let tool = Manual::new(Time::ZERO);
//! let mut flow = Flow::new();
//! flow.add(|asi, ()| {
//!     asi.sleep(Duration::from_secs(3600));
//!     asi.success_step("tea");
//! });
//! let promise = flow.promise::<String, _>(&tool);
//! assert_eq!(tool.complete(promise).unwrap().unwrap(), "tea");
//! // an hour takes as long as the host says
//! assert_eq!(tool.now().since_epoch(), Duration::from_secs(3600));
//! ```

mod manual;
mod promise;
mod queue;
mod remote;

use std::time::Duration;

use crate::time::Time;

pub use manual::{Handle, Manual};
pub use promise::Promise;
pub use remote::Remote;

/// An event loop, as the code that runs on it sees it (FTN12 §2.6 AsyncTool).
///
/// A value of it is a handle to the loop: cloning it is cheap and gives the same loop. It stays on
/// the thread of its loop, so its callbacks need not be `Send`; how other threads reach a loop is
/// its own matter ([`Manual::remote`]).
pub trait AsyncTool: Clone + 'static {
    /// What a scheduled callback is known by. Dropping it changes nothing.
    type Handle: 'static;

    /// Has the loop call `task` soon: after this call returned, and after everything that was
    /// scheduled for this time before (FTN12 §2.6 `immediate`).
    fn immediate(&self, task: impl FnOnce() + 'static) -> Self::Handle;

    /// Has the loop call `task` when `delay` has passed; zero is [`immediate`](Self::immediate)
    /// (FTN12 §2.6 `deferred`).
    fn deferred(&self, delay: Duration, task: impl FnOnce() + 'static) -> Self::Handle;

    /// Has the loop poll `future` to its end, for the first time soon.
    ///
    /// Beyond FTN12, whose loops know callbacks only: what waits for a
    /// [`promise`](crate::Flow::promise) is a future itself.
    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Self::Handle;

    /// Takes a callback or a future back: it is not called any more (FTN12 §2.6 `cancel`).
    ///
    /// Nothing happens if it ran already.
    fn cancel(&self, handle: &Self::Handle);

    /// Whether the callback or the future is still to be called (FTN12 §2.6 `is_valid`).
    fn is_valid(&self, handle: &Self::Handle) -> bool;

    /// Whether this is the thread of the loop (FTN12 §2.6 `is_same_thread`).
    ///
    /// Always so where the handle cannot leave that thread, as here.
    fn is_same_thread(&self) -> bool {
        true
    }

    /// The current time of the loop.
    fn now(&self) -> Time;
}
