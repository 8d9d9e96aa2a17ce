//! Event loops for the binary interface.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use asyncsteps_core::{Flow, Outcome, Time};

/// Cancels a callback that is not due yet, or a flow that has not ended.
pub type Stop = Box<dyn FnOnce()>;

/// An event loop whose flows have binary interfaces.
///
/// The loops of this library implement it ([`exports::host`](crate::exports::host)), and so do the
/// arbiters of `asyncsteps-actors` with its feature `ffi`. Another host adds itself to its flows as
/// `Arc<dyn EventLoop>` with [`Flow::extend`], or is found by thread ([`register_event_loops`]). Without a host
/// `sched_immediate`, `sched_deferred` and `newInstance` are refused.
pub trait EventLoop: Send + Sync + fmt::Debug {
    /// Whether this is the thread of the loop.
    fn is_same_thread(&self) -> bool;

    /// The thread that runs the loop now, and will as long as there are flows; `None`, the default, if
    /// that is not known.
    ///
    /// `cancel` on another thread waits until this thread has ended the flow, so that the caller can
    /// release what its cancel handlers use. Without a thread `cancel` returns at once.
    fn driver(&self) -> Option<ThreadId> {
        None
    }

    /// The current time of the loop, from any thread.
    fn now(&self) -> Time;

    /// Calls `task` soon on the loop. Any thread may call this. If the loop is gone, it drops `task`.
    fn post(&self, task: Box<dyn FnOnce() + Send>);

    /// Calls `task` at `at` on the loop, and tasks for different times in their order. Only for the
    /// thread of the loop.
    fn defer_until(&self, at: Time, task: Box<dyn FnOnce()>) -> Stop;

    /// Runs a flow and calls `over` with its outcome, unless it is stopped before. Only for the thread
    /// of the loop.
    fn run(&self, flow: Flow, over: Box<dyn FnOnce(Outcome)>) -> Stop;
}

/// Returns the host of the current thread.
pub type FindEventLoop = fn() -> Option<Arc<dyn EventLoop>>;

static FIND: OnceLock<FindEventLoop> = OnceLock::new();

/// Sets the function that finds a host for flows without one of their own, on their thread, when they
/// first need it. For libraries that host flows: the first call in a process counts, later ones do
/// nothing. If `find` returns `None`, calls that need an event loop are refused.
pub fn register_event_loops(find: FindEventLoop) {
    FIND.get_or_init(|| find);
}

/// The host of this thread.
pub(crate) fn of_thread() -> Option<Arc<dyn EventLoop>> {
    FIND.get()?()
}
