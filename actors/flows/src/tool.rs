//! AsyncTool (FTN12 §2.6) on the event loop of an actix arbiter.
//!
//! It is for code that is written against [`AsyncTool`] and runs on any event loop. Code that knows its
//! arbiter starts flows with [`start_flow`](crate::flow::start_flow), which runs the first turn at once
//! and needs no task for a flow that never waits.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use actix_rt::ArbiterHandle;
use asyncsteps_core::tool::AsyncTool;
use asyncsteps_core::{Error, Time};
use tokio::task::AbortHandle;

use crate::flow::{log_end, log_unseen};
use crate::{clock, timer};

/// The event loop of the current arbiter, or of the current tokio `LocalSet`.
///
/// ```
/// use std::time::Duration;
/// use asyncsteps_core::{Flow, tool::AsyncTool};
/// use asyncsteps_actors::tool::ArbiterTool;
///
/// # actix::System::new().block_on(async {
/// let tool = ArbiterTool::current();
/// let mut flow = Flow::new();
/// flow.success_step(42);
/// assert_eq!(flow.promise::<i32, _>(&tool).await.unwrap(), 42);
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct ArbiterTool {
    /// Not `Send`: it represents the loop of its thread.
    local: PhantomData<Rc<()>>,
}

/// A callback or a future that was scheduled on an arbiter (FTN12 §2.6 `Handle`).
#[derive(Clone, Debug)]
pub struct Handle {
    task: AbortHandle,
    /// Set until the callback is called or cancelled.
    valid: Rc<Cell<bool>>,
}

/// Reaches an arbiter from any thread (FTN12 §2.6, §2.7.2 `sched_immediate`).
#[derive(Clone, Debug)]
pub struct Remote {
    arbiter: ArbiterHandle,
    thread: ThreadId,
}

/// The arbiter is gone: nothing was scheduled on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the arbiter is gone")]
pub struct ArbiterGone;

impl ArbiterTool {
    /// The loop of this thread; scheduling on it panics where there is none.
    #[must_use]
    pub fn current() -> Self {
        // flows on this loop may have foreign steps
        #[cfg(feature = "ffi")]
        crate::ffi::register();
        Self { local: PhantomData }
    }

    /// A handle for other threads; `None` on a `LocalSet` that is no arbiter.
    #[must_use]
    pub fn remote(&self) -> Option<Remote> {
        let arbiter = actix_rt::Arbiter::try_current()?;
        Some(Remote { arbiter, thread: thread::current().id() })
    }
}

impl AsyncTool for ArbiterTool {
    type Handle = Handle;

    /// # Panics
    /// Outside of an arbiter and of a `LocalSet`; so do the other ways to schedule.
    fn immediate(&self, task: impl FnOnce() + 'static) -> Handle {
        start(|valid| async move {
            valid.set(false);
            task();
        })
    }

    fn deferred(&self, delay: Duration, task: impl FnOnce() + 'static) -> Handle {
        let at = clock::now() + delay;
        start(move |valid| async move {
            timer::sleep_until(at).await;
            valid.set(false);
            task();
        })
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Handle {
        start(|valid| async move {
            future.await;
            valid.set(false);
        })
    }

    /// Drops what the callback captured when the loop gets to it.
    fn cancel(&self, handle: &Handle) {
        if handle.valid.replace(false) {
            handle.task.abort();
        }
    }

    fn is_valid(&self, handle: &Handle) -> bool {
        handle.valid.get() && !handle.task.is_finished()
    }

    /// Writes it to the log.
    fn report(&self, error: Error) {
        log_unseen(&error);
    }

    /// Writes it to the log.
    fn report_end(&self, error: Error) {
        log_end(&error);
    }

    fn now(&self) -> Time {
        clock::now()
    }
}

fn start<F: Future<Output = ()> + 'static>(make: impl FnOnce(Rc<Cell<bool>>) -> F) -> Handle {
    let valid = Rc::new(Cell::new(true));
    let task = actix_rt::spawn(make(Rc::clone(&valid))).abort_handle();
    Handle { task, valid }
}

impl Remote {
    /// Calls `task` on the arbiter, with its loop (FTN12 §2.6 `immediate`).
    ///
    /// # Errors
    /// [`ArbiterGone`] if the arbiter has stopped.
    pub fn immediate(
        &self,
        task: impl FnOnce(&ArbiterTool) + Send + 'static,
    ) -> Result<(), ArbiterGone> {
        let sent = self.arbiter.spawn_fn(move || task(&ArbiterTool::current()));
        if sent { Ok(()) } else { Err(ArbiterGone) }
    }

    /// Whether this is the thread of the arbiter (FTN12 §2.6 `is_same_thread`).
    #[must_use]
    pub fn is_same_thread(&self) -> bool {
        self.thread == thread::current().id()
    }
}
