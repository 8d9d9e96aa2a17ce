//! Waits of the running step, and early ends of them (FTN12 §2.2.2).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::completion::Completion;
use crate::error::{StepError, StepFault, StepResult, StepReturn};
use crate::flow::Awaitable;
use crate::inbox::{WaitKey, WaitMessage};
use crate::replay::{Limit, LimitTurn, ReplayHooks};
use crate::stack::{Activity, AsyncSteps, Callback, Purpose, StepTimer};
use crate::time::Time;

/// Execution API: time limits, cancel handlers and waits (FTN12 §2.2.2).
impl AsyncSteps {
    /// Limits the time of this step with all its sub-steps: after that `Timeout` is raised in the
    /// innermost running step. A later call replaces an earlier one. Any duration from zero up.
    ///
    /// A handler inside of the step can recover from it and go on for longer. A limit that nothing
    /// inside can outlast is [`timeout`](crate::Added::timeout), behind the step.
    ///
    /// A handler around the step can turn `Timeout` into an error that the interface declares, if
    /// callers are to see one.
    pub fn set_timeout(&mut self, limit: Duration) {
        if self.may_wait("set_timeout") {
            self.arm_timer(self.now + limit, limit, Purpose::Limit);
        }
    }

    /// Sets what to do when the step ends in any way but success: error, timeout, failure of a
    /// sibling branch, cancel (FTN12 §1.3). A later call replaces an earlier one.
    ///
    /// The handler cannot add steps; it can [`launch`](Self::launch) a flow that has them.
    pub fn set_cancel<R, F>(&mut self, handler: F)
    where
        R: StepReturn,
        F: FnOnce(&mut Self) -> R + 'static,
    {
        if self.may_wait("set_cancel") {
            self.extras().cancel = Some(Box::new(move |asi| handler(asi).into_result()));
        }
    }

    /// Makes the step wait for something outside instead of completing when its body returns;
    /// the handle completes it (FTN12 §1.6 `waitExternal`).
    ///
    /// If the last clone of the handle is dropped, inside of the body or later, the step fails with
    /// `InternalError`; see [`wait_only`](Self::wait_only).
    pub fn wait_external(&mut self) -> Completion {
        self.may_wait("wait_external");
        self.completion()
    }

    /// [`wait_external`](Self::wait_external) for an object that can describe what the step waits
    /// for, see [`Execution::waits`](crate::Execution::waits).
    pub fn wait_external_for(&mut self, object: Arc<dyn Awaitable>) -> Completion {
        // the object describes the wait of an identity, so the flow needs one
        let _ = self.flow_id();
        let completion = self.wait_external();
        let is_plain = matches!(self.strand.top.activity(), Activity::Plain);
        if self.callback == Callback::Body && is_plain {
            self.set_activity(Activity::Waiting(object));
        }
        completion
    }

    /// Makes the step wait without a handle: until its time limit or a cancel ends it, or a handle
    /// that [`completion`](Self::completion) returns later in the same body completes it
    /// (FTN12 §1.6 `waitExternal`).
    pub fn wait_only(&mut self) {
        self.may_wait("wait_only");
    }

    /// Makes the step wait until `at`, then completes it without a result.
    ///
    /// Something else may complete the step earlier. A step with sub-steps completes with them. A
    /// later call replaces an earlier one; a point in the past is the next turn.
    pub fn wait_until(&mut self, at: Time) {
        if self.may_wait("wait_until") {
            self.arm_timer(at, Duration::ZERO, Purpose::WakeUp);
        }
    }

    /// A handle that completes this step from outside while it waits, for any reason.
    ///
    /// Unlike [`wait_external`](Self::wait_external) it does not make the step wait by itself; a
    /// timeout or a cancel handler does. A step that does not wait can be completed while its body
    /// runs. After [`success`](Self::success), and in an error or cancel handler, the handle is stale.
    pub fn completion(&mut self) -> Completion {
        match self.wait_key(1) {
            (key, true) => Completion::counted(self.inbox(), key),
            (key, false) => Completion::new(self.inbox(), key),
        }
    }

    /// Ends the flow's turn after this callback, so that others on the event loop can run.
    pub fn relinquish(&mut self) {
        self.burst = 0;
    }

    /// The key under which external events know the wait of the running step, and whether it is
    /// new; a new wait counts `handles` that are about to be made. If nothing can complete the step any
    /// more, its wait is closed from the beginning.
    pub(super) fn wait_key(&mut self, handles: u32) -> (WaitKey, bool) {
        if let Some(key) = self.strand.top.wait {
            return (key, false);
        }
        let strand = self.active();
        let can_wait = match self.callback {
            Callback::Body => !self.completed,
            // the machine itself makes a step wait
            Callback::None => true,
            Callback::ErrorHandler | Callback::CancelHandler => false,
        };
        let key = self.inbox().open(strand, handles);
        if can_wait {
            self.strand.top.wait = Some(key);
        } else {
            drop(self.inbox().lock().close(key));
        }
        (key, can_wait)
    }

    /// Closes the wait of the running step, which completes itself.
    ///
    /// # Errors
    /// Records the error if the step was completed or interrupted from outside before.
    #[cold]
    pub(super) fn end_wait(&mut self) -> StepResult {
        match self.close_wait() {
            Some(WaitMessage::Success(_) | WaitMessage::Error(_)) => {
                self.violation("success after an external completion")
            }
            Some(WaitMessage::Interrupt(error)) => {
                self.raised = Some(StepFault::Error(error.at(self.location())));
                Err(StepError::RECORDED)
            }
            Some(WaitMessage::Abandoned | WaitMessage::Poll) | None => Ok(()),
        }
    }

    /// Closes the wait of the step on top: nothing can complete it any more. Returns the message
    /// that arrived for it and was not received.
    pub(crate) fn close_wait(&mut self) -> Option<WaitMessage> {
        let (key, inbox) = (self.strand.top.wait.take()?, self.inbox.as_ref()?);
        inbox.lock().close(key)
    }

    /// Limits the time of the running step from now on: everything inside is cancelled then. The replay hooks of the
    /// step are asked for the rest of the limit, now and when it has passed.
    pub(crate) fn limit_hard(
        &mut self,
        limit: Limit,
        declared: Duration,
        memory: Option<Rc<dyn ReplayHooks>>,
    ) -> Time {
        let now = self.now;
        let left = |it: &Rc<dyn ReplayHooks>| it.time_left(limit, declared, now, LimitTurn::Begins);
        let left = memory.as_ref().map_or(declared, left);
        self.arm_timer(now + left, declared, Purpose::HardLimit);
        if let Some(memory) = memory {
            self.extras().limited = Some((memory, limit));
        }
        now + left
    }

    /// Arms a timer of the running step; it replaces an earlier one for the same purpose.
    fn arm_timer(&mut self, at: Time, limit: Duration, purpose: Purpose) {
        let (strand, depth) = (self.active(), self.strand.depth());
        let before = self.extras().timers.of(purpose).take();
        let timers = &mut self.cold().timers;
        if let Some(before) = before {
            timers.remove(before);
        }
        let id = timers.insert(StepTimer::new(at, limit, (strand, depth), purpose));
        *self.extras().timers.of(purpose) = Some(id);
    }
}
