//! The event loop interface (FTN12 §2.6).

use std::time::Duration;

use crate::error::Error;
use crate::time::Time;

/// An event loop, as the code that runs on it sees it (FTN12 §2.6 AsyncTool).
///
/// A value of it is a handle to the loop: clones are cheap and share the loop. It stays on the
/// thread of its loop, so its callbacks need not be `Send`. Each loop has its own way for other
/// threads to reach it, such as [`Manual::remote`](super::Manual::remote).
pub trait AsyncTool: Clone + 'static {
    /// Names a scheduled callback. Dropping it changes nothing.
    type Handle: 'static;

    /// Makes the loop call `task` soon: after this call returned, and after everything that was
    /// scheduled for this time before (FTN12 §2.6 `immediate`).
    fn immediate(&self, task: impl FnOnce() + 'static) -> Self::Handle;

    /// Makes the loop call `task` when `delay` has passed; zero is [`immediate`](Self::immediate)
    /// (FTN12 §2.6 `deferred`).
    fn deferred(&self, delay: Duration, task: impl FnOnce() + 'static) -> Self::Handle;

    /// Makes the loop poll `future` to its end, for the first time soon.
    ///
    /// Beyond FTN12, whose loops know callbacks only: a flow as a
    /// [`promise`](crate::Flow::promise) is a future.
    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Self::Handle;

    /// Cancels a callback or a future: it is not called any more (FTN12 §2.6 `cancel`).
    ///
    /// Nothing happens if it ran already.
    fn cancel(&self, handle: &Self::Handle);

    /// Whether the callback or the future is still to be called (FTN12 §2.6 `is_valid`).
    fn is_valid(&self, handle: &Self::Handle) -> bool;

    /// Whether this is the thread of the loop (FTN12 §2.6 `is_same_thread`).
    ///
    /// By default the answer is yes: the handle is not `Send`.
    fn is_same_thread(&self) -> bool {
        true
    }

    /// Takes an error of a flow on this loop that nothing else shows: the panic of a callback, the error
    /// of a cancel handler, or of an undo, which is left to be done by hand
    /// ([`take_unreported_errors`](crate::Execution::take_unreported_errors)).
    ///
    /// By default nothing happens: a loop with a log writes it there.
    fn report(&self, error: Error) {
        drop(error);
    }

    /// Takes the error that has ended a flow whose result is not wanted
    /// ([`execute_on`](crate::Flow::execute_on)). A panic of one of its callbacks was reported before by
    /// itself.
    ///
    /// By default it is [reported](Self::report) like the others.
    fn report_end(&self, error: Error) {
        self.report(error);
    }

    /// The current time of the loop.
    fn now(&self) -> Time;
}
