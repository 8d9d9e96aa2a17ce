//! Errors and cancel walking down the levels (FTN12 §1.2, §1.4).

use std::mem;

use super::drive::{Caught, Next};
use super::level::Kind;
use super::{AsyncSteps, Callback};
use crate::args::Args;
use crate::error::{Error, Fault, LoopEnd};
use crate::observe::StepEnd;

/// What an error handler decided.
enum Handled {
    Success,
    /// Steps were added: they replace the failed one at its own level (FTN12 §1.2.1).
    Steps,
    Replaced(Error),
    LeftLoop(Box<LoopEnd>),
    Silent,
}

impl AsyncSteps {
    /// Ends steps from the innermost outwards until a handler recovers.
    pub(super) fn unwind(&mut self, fault: Fault) -> Next {
        let mut error = match fault {
            Fault::Error(error) => error,
            Fault::Loop(end) => match self.unwind_loop(&end) {
                Ok(next) => return next,
                Err(violation) => violation,
            },
        };
        self.last_error = Some(error.clone());
        loop {
            if self.strand.top.flags.open {
                self.abort_top();
                if self.is_cancelled() {
                    // by a handler: no error handler runs any more
                    return Next::Yield;
                }
                match self.handle(&error) {
                    Handled::Silent => {}
                    Handled::Replaced(with) => error = self.replace_error(with),
                    Handled::Success => return self.recover(),
                    Handled::Steps if self.outlives_its_end() => return self.resume(),
                    Handled::Steps => return self.recover(),
                    Handled::LeftLoop(end) => match self.unwind_loop(&end) {
                        Ok(next) => return next,
                        Err(violation) => error = self.replace_error(violation),
                    },
                }
                self.close_top(StepEnd::Error(&error));
            }
            if !self.strand.ascend() {
                if self.active() == 0 {
                    self.strand.pending.clear();
                    return Next::Failed(error);
                }
                self.leave_branch();
            }
        }
    }

    fn replace_error(&mut self, error: Error) -> Error {
        self.last_error = Some(error.clone());
        error
    }

    /// Whether the step on top stays around the steps that replace it: they may use what it made
    /// with `stack`, and the step of a parallel branch stays the only one without a result.
    fn outlives_its_end(&self) -> bool {
        let top = &self.strand.top;
        top.values().is_some()
            || matches!(top.kind, Kind::Holding(_))
            || self.strand.is_branch_step()
    }

    fn recover(&mut self) -> Next {
        self.close_top(StepEnd::Success);
        self.resume()
    }

    fn resume(&mut self) -> Next {
        self.strand.runnable = true;
        Next::Step
    }

    /// Calls the error handler of the step on top, once ever.
    fn handle(&mut self, error: &Error) -> Handled {
        let base = self.strand.top.base();
        self.strand.args = Args::none();
        let result = if let Some(handler) = self.strand.top.handler.take() {
            self.guarded(Callback::ErrorHandler, |asi| handler(asi, error))
        } else if mem::take(&mut self.strand.top.flags.template)
            && let Some((steps, next)) = self.borrow_shared()
        {
            let step = &steps[next as usize - 1];
            let result = self.guarded(Callback::ErrorHandler, |asi| match &step.handler {
                Some(handler) => handler(asi, error),
                None => Ok(()),
            });
            self.return_shared(base, steps, next);
            result
        } else {
            return Handled::Silent;
        };
        let handled = self.handled(result, base);
        if !matches!(handled, Handled::Success | Handled::Steps) {
            self.strand.args = Args::none();
            self.strand.pending.truncate(base);
        }
        handled
    }

    fn handled(&mut self, result: Caught, base: usize) -> Handled {
        if !matches!(result, Ok(Ok(()))) || self.raised.is_some() {
            return match self.fault_of(result) {
                Fault::Error(error) => Handled::Replaced(error),
                Fault::Loop(end) => Handled::LeftLoop(end),
            };
        }
        if self.completed {
            Handled::Success
        } else if self.strand.pending.len() > base {
            self.strand.seal(base);
            Handled::Steps
        } else {
            Handled::Silent
        }
    }

    /// The abnormal end of the step on top, up to its error handler: branches, timers or future,
    /// cancel handler, pending sub-steps.
    pub(super) fn abort_top(&mut self) {
        self.cancel_branches();
        self.abort_alone();
    }

    /// [`abort_top`](Self::abort_top) for a step without branches.
    pub(super) fn abort_alone(&mut self) {
        self.disarm_timers();
        drop(self.close_wait());
        if !matches!(self.strand.top.kind, Kind::Holding(_)) {
            drop(mem::replace(&mut self.strand.top.kind, Kind::Step));
        }
        let base = self.strand.top.base();
        let cancel = self.strand.top.rare.as_mut().and_then(|rare| rare.cancel.take());
        if let Some(cancel) = cancel {
            let result = self.guarded(Callback::CancelHandler, cancel);
            if !matches!(result, Ok(Ok(()))) || self.raised.is_some() {
                self.cancel_handler_failed(result);
            }
        }
        self.strand.pending.truncate(base);
    }

    #[cold]
    fn cancel_handler_failed(&mut self, result: Caught) {
        let error = match self.fault_of(result) {
            Fault::Error(error) => error,
            Fault::Loop(_) => {
                Error::violation("the end of a loop in a cancel handler", self.strand.top.place)
            }
        };
        self.report(|observer, step| observer.cancel_failed(step, &error));
        if error.panic_message().is_none() {
            self.more().unseen.push(error);
        }
    }

    /// Cancels the whole flow: cancel handlers innermost to outermost, no error handlers. Steps that
    /// were completed before are complete.
    pub(super) fn cancel_all(&mut self) {
        if let Some(inbox) = &self.inbox {
            let arrivals = inbox.close();
            drop(self.take_results(arrivals));
        }
        self.activate(0);
        loop {
            if self.strand.top.flags.open {
                self.abort_top();
                self.close_top(StepEnd::Cancelled);
            }
            if !self.strand.ascend() {
                break;
            }
        }
        self.strand.pending.clear();
        self.strand.args = Args::none();
    }
}
