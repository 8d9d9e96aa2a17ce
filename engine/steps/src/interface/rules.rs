//! The rules for callbacks (FTN12 §2.1): a broken rule fails the step with `InternalError`.

use std::mem;

use crate::args::{Args, Arguments};
use crate::error::{Error, StepError, StepFault, StepResult};
use crate::location::StepLocation;
use crate::stack::{Activity, AsyncSteps, Callback, Handler, QueuedStep};

/// The rule of FTN12 §2.2.1 `parallel`.
const BRANCH_RESULT: &str = "success with arguments in the step of a parallel branch";

impl AsyncSteps {
    #[inline]
    pub(super) fn check_adding(&mut self) {
        if self.completed {
            let _ = self.violation("adding a sub-step after success");
        } else if self.callback == Callback::CancelHandler {
            let _ = self.violation("adding a step in a cancel handler");
        }
    }

    /// Whether the callback may make its step wait; if so the step does not complete implicitly.
    pub(super) fn may_wait(&mut self, what: &str) -> bool {
        if self.callback == Callback::Body {
            self.strand.top.flags.waits = true;
            return true;
        }
        let _ = self.violation(&format!("{what} outside of a step body (add a step instead)"));
        false
    }

    /// Checks the result of a step: a branch of a parallel step has none.
    #[inline]
    pub(crate) fn check_result(&self, result: &Args) -> Result<(), Error> {
        if self.strand.is_branch_step() && !result.is_empty() {
            return Err(Error::violation(BRANCH_RESULT, self.location()));
        }
        Ok(())
    }

    /// Checks the end of a critical section that is a branch: it has no result either, whether or
    /// not it had to wait for the object.
    pub(crate) fn without_result(&mut self, end: StepResult) -> StepResult {
        if self.completed && !self.strand.args.is_empty() {
            return self.violation(BRANCH_RESULT);
        }
        end
    }

    /// Records a broken rule, unless the callback failed before.
    #[cold]
    pub(super) fn violation(&mut self, rule: &str) -> StepResult {
        let error = Error::violation(rule, self.location());
        self.raised.get_or_insert(StepFault::Error(error));
        Err(StepError::RECORDED)
    }

    /// Replaces the steps of a flow that broke a rule while it was configured by one that fails.
    #[inline]
    pub(crate) fn fail_if_misconfigured(&mut self) {
        if self.raised.is_some() {
            self.fail_with_raised();
        }
    }

    #[cold]
    fn fail_with_raised(&mut self) {
        let fault = self.raised.take();
        self.strand.pending.clear();
        let fail = QueuedStep::body(StepLocation::here(), |_, _| Err(StepError(fault)));
        self.queue(fail);
    }

    /// The arguments in the types that the step declares.
    #[inline]
    pub(crate) fn typed<A: Arguments>(&self, args: Args) -> Result<A, StepError> {
        A::from_args(args)
            .map_err(|mismatch| StepError::error(Error::violation(mismatch, self.location())))
    }

    /// The location of the running step.
    #[inline]
    pub(crate) fn location(&self) -> StepLocation {
        self.strand.top.location()
    }

    /// Sets what the running step does in addition to waiting for sub-steps.
    #[inline]
    pub(crate) fn set_activity(&mut self, activity: Activity) {
        let before = self.strand.top.replace_activity(activity);
        if matches!(before, Activity::Plain) {
            // nothing to drop
            mem::forget(before);
        }
    }

    /// Sets what the step that starts does; it goes on to keep the lock that it holds.
    #[inline]
    pub(crate) fn start_activity(&mut self, activity: Activity) {
        let before = self.strand.top.replace_activity(activity);
        if matches!(before, Activity::Plain) {
            // nothing to drop
            mem::forget(before);
        } else if let Activity::Holding(value) = before {
            self.keep(value);
        }
    }

    /// Takes the error handler of the running step away from it.
    pub(crate) fn take_own_handler(&mut self) -> Option<Handler> {
        self.strand.top.take_handler()
    }

    pub(crate) fn set_own_handler(&mut self, handler: Handler) {
        self.strand.top.set_handler(handler);
    }
}
