//! What the binary interface asks of an event loop.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use asyncsteps::{Flow, Outcome, Time};

/// Takes back what it came with: a callback that is not due yet, a flow that is not over.
pub type Stop = Box<dyn FnOnce()>;

/// An event loop whose flows give out binary interfaces.
///
/// Those of this library implement it ([`exports::host`](crate::exports::host)), and so do the
/// arbiters of `asyncsteps-actors` with its feature `ffi`. A host of one's own hangs itself on its
/// flows, as `Arc<dyn Host>` with [`Flow::extend`], or is found by thread ([`provide_hosts`]):
/// without one `sched_immediate`, `sched_deferred` and `newInstance` are refused.
pub trait Host: Send + Sync + fmt::Debug {
    /// Whether this is the thread of the loop.
    fn is_same_thread(&self) -> bool;

    /// The thread that runs the loop now and goes on as long as there are flows; `None`, which is
    /// the default, if that is not known.
    ///
    /// `cancel` on another thread waits until this one has ended the flow, so that what its cancel
    /// handlers use can go afterwards. Without a thread it returns at once.
    fn driver(&self) -> Option<ThreadId> {
        None
    }

    /// The current time of the loop, from any thread.
    fn now(&self) -> Time;

    /// Has the loop call `task` soon, from any thread. If the loop is gone, `task` is dropped.
    fn post(&self, task: Box<dyn FnOnce() + Send>);

    /// Has the loop call `task` at `at`, and tasks for different times in their order. On the thread
    /// of the loop only.
    fn defer_until(&self, at: Time, task: Box<dyn FnOnce()>) -> Stop;

    /// Drives a flow to its end, and calls `over` with it, unless the flow is stopped before. On
    /// the thread of the loop only.
    fn run(&self, flow: Flow, over: Box<dyn FnOnce(Outcome)>) -> Stop;
}

/// Gives the host of the current thread.
pub type FindHost = fn() -> Option<Arc<dyn Host>>;

static FIND: OnceLock<FindHost> = OnceLock::new();

/// Has flows without a host of their own use what `find` gives on their thread, when they first need
/// one. For libraries that host flows: the first call in a process counts, and others do nothing. If
/// `find` gives `None`, what needs an event loop is refused.
pub fn provide_hosts(find: FindHost) {
    FIND.get_or_init(|| find);
}

/// The host of this thread.
pub(crate) fn of_thread() -> Option<Arc<dyn Host>> {
    FIND.get()?()
}
