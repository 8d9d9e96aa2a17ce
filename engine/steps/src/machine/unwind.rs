//! Errors on their way outwards, and cancel (FTN12 §1.2, §2.2.3).

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::report::ReportedEvent;
use super::types::{Machine, Next};
use crate::args::Args;
use crate::error::{Error, LoopEnd, StepFault};
use crate::observe::StepEnd;
use crate::replay::Then;
use crate::stack::{Activity, Callback, Role};

/// The decision of an error handler.
enum Decision {
    Success,
    /// Steps were added: they replace the failed step at its own level (FTN12 §1.2.1).
    Steps,
    Replaced(Error),
    LoopEnded(Box<LoopEnd>),
    /// Nothing: the error goes on.
    Silent,
}

/// How far an error has come at the step on top.
enum UnwindPhase {
    /// The step is still in progress.
    Abort,
    /// It was aborted, and everything inside is undone.
    Handle,
}

impl Machine {
    /// Ends steps from the innermost outwards until a handler recovers.
    pub(super) fn unwind(&mut self, fault: StepFault) -> Next {
        let error = match fault {
            StepFault::Error(error) => error,
            StepFault::Loop(end) => match self.unwind_loop(&end) {
                Ok(next) => return next,
                Err(violation) => violation,
            },
        };
        self.asi.last_error = Some(error.clone());
        self.unwind_error(error, UnwindPhase::Abort)
    }

    /// Goes on with an error whose step is on top and waited until everything inside was undone.
    pub(super) fn unwind_undone(&mut self, error: Error) -> Next {
        self.unwind_error(error, UnwindPhase::Handle)
    }

    #[inline]
    fn unwind_error(&mut self, mut error: Error, mut stage: UnwindPhase) -> Next {
        loop {
            if self.asi.strand.top.flags.is_open() {
                if let UnwindPhase::Abort = mem::replace(&mut stage, UnwindPhase::Abort) {
                    self.abort_top();
                    if self.is_cancelled() {
                        // a cancel handler asked for it: no error handler runs any more
                        return Next::Yield;
                    }
                    self.tell_memory(&error);
                    if self.undo_inside(&error) {
                        return Next::Wait;
                    }
                }
                match self.handle(&error) {
                    Decision::Silent => {}
                    Decision::Replaced(with) => error = self.replace_error(with),
                    Decision::Steps if self.asi.strand.top.flags.is(Role::Attempt) => {
                        self.leave(StepEnd::Error(&error));
                        return self.resume();
                    }
                    Decision::Steps if self.outlives_its_end() => return self.resume(),
                    Decision::Success | Decision::Steps => {
                        self.leave(StepEnd::Recovered(&error));
                        return self.resume();
                    }
                    Decision::LoopEnded(end) => match self.unwind_loop(&end) {
                        Ok(next) => return next,
                        Err(violation) => error = self.replace_error(violation),
                    },
                }
                self.leave(StepEnd::Error(&error));
            }
            if !self.asi.strand.ascend() {
                if self.asi.active() == 0 {
                    if self.undo_root(&error) {
                        return Next::Wait;
                    }
                    self.asi.strand.clear();
                    return Next::Failed(error);
                }
                self.leave_branch();
            }
        }
    }

    /// Reports to the host's replay hooks that the step on top fails.
    #[inline]
    pub(super) fn tell_memory(&mut self, error: &Error) {
        let extras = self.asi.strand.top.extras.as_mut();
        let taken = extras.and_then(|extras| Some((extras.memory.take()?, extras.memory_levels)));
        if let Some(((memory, attempt), levels)) = taken {
            let undoes = self.can_undo_inside(levels);
            memory.fails(attempt, error, Then::Unwinds { undoes });
        }
    }

    fn replace_error(&mut self, error: Error) -> Error {
        self.asi.last_error = Some(error.clone());
        error
    }

    /// Whether the failed step on top stays around the steps that replace it: they may use the
    /// values that it made with `stack`, and the step of a parallel branch stays the only one
    /// without a result.
    fn outlives_its_end(&self) -> bool {
        let strand = &self.asi.strand;
        strand.top.values().is_some()
            || matches!(strand.top.activity(), Activity::Holding(_))
            || strand.is_branch_step()
    }

    fn resume(&mut self) -> Next {
        self.asi.strand.runnable = true;
        self.go_on()
    }

    /// Calls the error handler of the step on top, once ever.
    fn handle(&mut self, error: &Error) -> Decision {
        self.asi.strand.args = Args::none();
        let top = &mut self.asi.strand.top;
        if top.flags.is(Role::Attempt) {
            self.fail_attempt(error);
            return self.end_handler();
        }
        match top.take_handler() {
            Some(handler) => self.call(Callback::ErrorHandler, |asi| handler(asi, error)),
            None if mem::take(&mut top.flags.template_handler)
                && self.call_template_handler(error) => {}
            None => return Decision::Silent,
        }
        self.end_handler()
    }

    /// The decision of the error handler of the step on top; unless the flow goes on with its steps, they are dropped.
    fn end_handler(&mut self) -> Decision {
        let decision = self.decision();
        if !matches!(decision, Decision::Success | Decision::Steps) {
            self.asi.strand.args = Args::none();
            self.asi.strand.drop_pending();
        }
        decision
    }

    /// Decides what an error handler meant.
    fn decision(&mut self) -> Decision {
        match self.asi.raised.take() {
            Some(StepFault::Error(error)) => return Decision::Replaced(error),
            Some(StepFault::Loop(end)) => return Decision::LoopEnded(end),
            None => {}
        }
        let strand = &mut self.asi.strand;
        if self.asi.completed {
            Decision::Success
        } else if strand.has_substeps() || strand.is_retried() {
            strand.seal(strand.top.base());
            Decision::Steps
        } else {
            Decision::Silent
        }
    }

    /// The abnormal end of the step on top, up to its error handler: branches, timers or future,
    /// cancel handler, pending sub-steps, the place of an attempt.
    pub(super) fn abort_top(&mut self) {
        if self.asi.strand.top.is_plain() {
            return self.asi.strand.drop_pending();
        }
        self.cancel_branches();
        self.abort_leaf();
    }

    /// [`abort_top`](Self::abort_top) for a step without branches.
    pub(super) fn abort_leaf(&mut self) {
        self.disarm_timers();
        drop(self.asi.close_wait());
        if !matches!(self.asi.strand.top.activity(), Activity::Holding(_)) {
            self.asi.set_activity(Activity::Plain);
        }
        let extras = self.asi.strand.top.extras.as_mut();
        if let Some(cancel) = extras.and_then(|extras| extras.cancel.take()) {
            self.call(Callback::CancelHandler, cancel);
            if let Some(fault) = self.asi.raised.take() {
                self.cancel_handler_failed(fault);
            }
        }
        self.asi.strand.drop_pending();
        let Some(extras) = self.asi.strand.top.extras.as_mut() else { return };
        let holds_place = extras.holds_place;
        if let Some(body) = extras.shielded.take() {
            self.leave_alone(body);
        }
        if holds_place {
            self.hold_on();
            drop(self.asi.take_locks());
        }
    }

    #[cold]
    fn cancel_handler_failed(&mut self, fault: StepFault) {
        let error = match fault {
            StepFault::Error(error) => error,
            StepFault::Loop(_) => {
                Error::violation("the end of a loop in a cancel handler", self.asi.location())
            }
        };
        self.report(ReportedEvent::CancelFailed(&error));
        if error.panic_message().is_none() {
            self.asi.cold().unseen.push(error);
        }
    }

    /// Cancels the whole flow: cancel handlers innermost to outermost, no error handlers. Steps that
    /// were completed before are complete.
    ///
    /// A destructor or an observer that panics stops neither the cancelling nor the undo: its panic
    /// goes on afterwards. The value that panicked is gone by then, so it does so once.
    pub(super) fn cancel_all(&mut self) {
        let mut panic = None;
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.cancel_steps())) {
            panic.get_or_insert(payload);
        }
        self.undo_all();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    fn cancel_steps(&mut self) {
        if let Some(inbox) = &self.asi.inbox {
            inbox.close();
            drop(self.take_results(u32::MAX));
        }
        self.activate(0);
        loop {
            if self.asi.strand.top.flags.is_open() {
                self.abort_top();
                self.leave_cancelled();
            }
            if !self.asi.strand.ascend() {
                break;
            }
        }
        self.asi.strand.clear();
    }
}
