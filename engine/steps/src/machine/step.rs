//! One step (FTN12 §1.1): it is entered, its body is called, the result is settled, it ends.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::report::Event;
use super::types::{CallbackResult, Machine, Next};
use crate::args::Args;
use crate::error::{Error, Fault, Raised, StepResult};
use crate::location::StepLocation;
use crate::observe::StepEnd;
use crate::slot::index;
use crate::stack::{Activity, AsyncSteps, Callback, Flags, Handler, Queued, QueuedStep};

impl Machine {
    /// Starts the next step of the current level.
    pub(super) fn start_next(&mut self) -> Next {
        match self.asi.strand.pending.pop() {
            Some(Queued::Step(step)) => self.start(step),
            Some(Queued::Template(range)) => {
                self.asi.strand.push_template(range);
                self.run_template()
            }
            None => Next::Complete,
        }
    }

    fn start(&mut self, step: QueuedStep) -> Next {
        let location = step.location();
        let QueuedStep { handler, mut work, .. } = step;
        self.asi.burst -= 1;
        self.enter(location, handler, Flags::default());
        let result = self.call_body(|asi, args| {
            asi.ask_probe(|| work.policies().is_some())?;
            work.start(asi, args)
        });
        self.settle(result)
    }

    /// Puts a step on top: every step and every iteration is entered here.
    #[inline]
    pub(super) fn enter(&mut self, location: StepLocation, handler: Option<Handler>, flags: Flags) {
        let strand = &mut self.asi.strand;
        strand.descend();
        let top = &mut strand.top;
        top.base = index(strand.pending.len());
        top.location = location;
        if handler.is_some() {
            top.handler = handler;
        }
        top.flags = Flags { open: true, ..flags };
        self.report(Event::Begin);
    }

    /// Ends the step on top and makes its frame room for the next step: every step and every
    /// iteration ends here.
    #[inline]
    pub(super) fn leave(&mut self, end: StepEnd<'_>) {
        let cold = self.asi.cold.as_ref();
        if cold.is_some_and(|cold| cold.observer.is_some() || cold.policies.is_some()) {
            self.announce_end(end);
        }
        if !self.asi.strand.top.is_plain() {
            self.clean_top();
        }
        let top = &mut self.asi.strand.top;
        top.handler = None;
        top.flags = Flags::default();
    }

    /// Tells the observer that the step on top ends, and what can be undone inside.
    #[cold]
    fn announce_end(&mut self, end: StepEnd<'_>) {
        self.report(Event::End(end));
        if self.asi.has_undos() {
            self.pass_undos_on(end);
        }
    }

    /// Drops what the step on top owns, in this order: its wait, timers, values, lock or future.
    #[cold]
    fn clean_top(&mut self) {
        drop(self.asi.close_wait());
        if self.asi.strand.top.extras.is_some() {
            self.disarm_timers();
            self.drop_values();
            self.asi.strand.top.extras = None;
        }
        self.asi.set_activity(Activity::Plain);
    }

    /// Drops the values of the step on top, the newest first.
    fn drop_values(&mut self) {
        while let Some(id) = self.asi.strand.top.values() {
            let (value, older) = self.asi.cold().values.remove(id);
            self.asi.strand.top.extras().values = older;
            drop(value);
        }
    }

    /// Calls the body of the step on top with the result of the step before it.
    #[inline]
    pub(super) fn call_body(
        &mut self,
        body: impl FnOnce(&mut AsyncSteps, Args) -> StepResult,
    ) -> CallbackResult {
        let args = mem::take(&mut self.asi.strand.args);
        self.call(Callback::Body, |asi| body(asi, args))
    }

    /// Calls a callback of the step on top and catches its panic.
    #[inline]
    pub(super) fn call(
        &mut self,
        callback: Callback,
        body: impl FnOnce(&mut AsyncSteps) -> StepResult,
    ) -> CallbackResult {
        self.asi.completed = false;
        self.asi.callback = callback;
        let is_observed = self.is_observed();
        if is_observed {
            self.tell_observer(Event::Enter);
        }
        let result = catch_unwind(AssertUnwindSafe(|| body(&mut self.asi)));
        if is_observed {
            self.tell_observer(Event::Leave);
        }
        self.asi.callback = Callback::None;
        result
    }

    /// Decides what the body of the step on top meant.
    #[inline]
    pub(super) fn settle(&mut self, result: CallbackResult) -> Next {
        if self.is_complete(&result) {
            self.leave(StepEnd::Success);
            return Next::Step;
        }
        if self.only_polls(&result) { Next::Poll } else { self.settle_incomplete(result) }
    }

    /// Whether the body of the step on top has left a future to be polled, and nothing else.
    #[inline]
    fn only_polls(&self, result: &CallbackResult) -> bool {
        let strand = &self.asi.strand;
        matches!(result, Ok(Ok(())))
            && self.asi.raised.is_none()
            && !strand.has_substeps()
            && matches!(strand.top.activity(), Activity::Polling(_))
    }

    /// Whether the body of the step on top has completed the step, by `success` or implicitly.
    #[inline]
    pub(super) fn is_complete(&self, result: &CallbackResult) -> bool {
        let top = &self.asi.strand.top;
        matches!(result, Ok(Ok(())))
            && self.asi.raised.is_none()
            && (self.asi.completed
                || (!self.asi.strand.has_substeps()
                    && !top.flags.waits
                    && matches!(top.activity(), Activity::Plain | Activity::Holding(_))))
    }

    /// The step on top failed, waits, or has sub-steps.
    pub(super) fn settle_incomplete(&mut self, result: CallbackResult) -> Next {
        if !matches!(result, Ok(Ok(()))) || self.asi.raised.is_some() {
            let fault = self.fault_of(result);
            return self.unwind(fault);
        }
        let strand = &mut self.asi.strand;
        if strand.has_substeps() {
            strand.seal(strand.top.base());
            return Next::Step;
        }
        match strand.top.activity() {
            Activity::Plain
            | Activity::Holding(_)
            | Activity::Waiting(_)
            | Activity::Undoing(_) => Next::Wait,
            Activity::Looping(_) => Next::Step,
            Activity::Parallel(_) => self.start_branches(),
            Activity::Polling(_) => Next::Poll,
        }
    }

    /// The fault of a callback that did not simply return: its panic, else the first fault, because
    /// `error` ends a callback (FTN12 §2.2.2).
    #[cold]
    pub(super) fn fault_of(&mut self, result: CallbackResult) -> Fault {
        let recorded = self.asi.raised.take();
        let location = self.asi.location();
        let broken = |rule| Fault::Error(Error::violation(rule, location));
        match result {
            Err(payload) => Fault::Error(self.panicked(payload)),
            Ok(Err(Raised(Some(_)))) if self.asi.completed => {
                recorded.unwrap_or_else(|| broken("error after success"))
            }
            Ok(Err(Raised(Some(fault)))) => recorded.unwrap_or(match fault {
                Fault::Error(error) => Fault::Error(error.at(location)),
                Fault::Loop(end) => Fault::Loop(end),
            }),
            Ok(Err(Raised(None)) | Ok(())) => recorded
                .unwrap_or_else(|| broken("an error was returned that the callback did not raise")),
        }
    }
}
