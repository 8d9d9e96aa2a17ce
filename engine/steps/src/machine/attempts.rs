//! Attempts of a step: each is a step inside of it.

use std::rc::Rc;
use std::task::Waker;

use super::types::{Machine, Next};
use crate::error::Error;
use crate::observe::StepEnd;
use crate::stack::{Activity, Callback, Flags, Role};

impl Machine {
    /// Starts the attempt that is due inside of the step on top, unless the turn has ended.
    pub(super) fn start_attempt(&mut self, waker: &Waker) -> Next {
        if self.asi.burst == 0 {
            Next::Yield
        } else if self.attempt_completes(waker) {
            Next::Step
        } else {
            self.settle_start(waker)
        }
    }

    /// Whether the step on top, which was started, completes with its first attempt. If that does more than to
    /// complete, it is on top.
    #[inline]
    pub(super) fn completes_at_once(&mut self, waker: &Waker) -> bool {
        let asi = &self.asi;
        let makes_attempts = matches!(asi.strand.top.activity(), Activity::Retrying(_));
        let is_started = makes_attempts && asi.raised.is_none() && !asi.strand.has_substeps();
        if is_started && asi.burst > 0 && !self.is_cancelled() && self.attempt_completes(waker) {
            self.asi.strand.ascend();
            return true;
        }
        false
    }

    fn attempt_completes(&mut self, waker: &Waker) -> bool {
        let Activity::Retrying(attempts) = self.asi.strand.top.activity() else { return false };
        let attempts = Rc::clone(attempts);
        self.asi.burst -= 1;
        self.enter(self.asi.strand.top.about_part(), Flags::of(Role::Attempt));
        self.call(Callback::Body, |asi| attempts.start(asi, Some(waker)));
        if self.is_complete() {
            self.leave(StepEnd::Success);
            return true;
        }
        false
    }

    /// Asks the step around the attempt on top, which failed, for another one.
    pub(super) fn fail_attempt(&mut self, error: &Error) {
        let Some(step) = self.asi.strand.frames.last() else { return };
        if let Activity::Retrying(attempts) = step.activity() {
            let attempts = Rc::clone(attempts);
            self.call(Callback::ErrorHandler, |asi| attempts.fail(asi, error));
        }
    }
}
