//! One step (FTN12 §1.1): it is entered, its body is called, the result is settled, it ends.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use super::report::ReportedEvent;
use super::types::{Machine, Next};
use crate::error::{Error, StepError, StepFault, StepResult};
use crate::observe::StepEnd;
use crate::slot::index;
use crate::stack::{About, Activity, AsyncSteps, Callback, Flags, QueueItem, QueuedStep, Role};

/// The result of a callback, or the payload of its panic.
pub(super) type CallbackResult = Result<StepResult, Box<dyn Any + Send>>;

impl Machine {
    /// Starts the next step of the current level.
    pub(super) fn start_next(&mut self, waker: &Waker) -> Next {
        match self.asi.strand.pending.pop() {
            Some(QueueItem::Step(step)) => self.start(step, waker),
            Some(QueueItem::Template(range)) => self.run_template(range, waker),
            None => Next::Complete,
        }
    }

    fn start(&mut self, step: QueuedStep, waker: &Waker) -> Next {
        let QueuedStep { source, description, mut work } = step;
        self.asi.burst -= 1;
        self.enter(About::of_flow(source, description), Flags::of(Role::Step));
        self.call(Callback::Body, |asi| {
            asi.ask_probe(|| work.policies().is_some())?;
            let args = mem::take(&mut asi.strand.args);
            work.start(asi, args, Some(waker))
        });
        if self.is_complete() || self.completes_at_once(waker) {
            self.leave(StepEnd::Success);
            return Next::Step;
        }
        self.settle_start(waker)
    }

    /// Puts a step on top: every step and every iteration is entered here.
    #[inline(always)]
    pub(super) fn enter(&mut self, about: About, flags: Flags) {
        let strand = &mut self.asi.strand;
        strand.descend();
        let top = &mut strand.top;
        top.base = index(strand.pending.len());
        top.describe(about);
        top.flags = flags;
        self.report(ReportedEvent::Begin);
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
        top.drop_description();
        top.flags = Flags::default();
    }

    /// Reports to the observer that the step on top ends, and what can be undone inside.
    #[cold]
    fn announce_end(&mut self, end: StepEnd<'_>) {
        self.report(ReportedEvent::End(end));
        if self.asi.has_undos() {
            self.pass_undos_on(end);
        }
    }

    /// Drops what the step on top owns, in this order: its wait, timers, values, lock or future.
    #[cold]
    fn clean_top(&mut self) {
        if self.asi.strand.top.wait.is_some() {
            drop(self.asi.close_wait());
        }
        if self.asi.strand.top.extras.is_some() {
            self.disarm_timers();
            self.drop_values();
            self.asi.drop_extras();
        }
        self.asi.set_activity(Activity::Plain);
    }

    /// Drops the values of the step on top, the newest first.
    fn drop_values(&mut self) {
        while let Some(id) = self.asi.strand.top.values() {
            let (value, older) = self.asi.cold().values.remove(id);
            self.asi.extras().values = older;
            drop(value);
        }
    }

    /// Calls a callback of the step on top. Its error, also by a panic, is in `asi.raised`.
    #[inline]
    pub(super) fn call(
        &mut self,
        callback: Callback,
        body: impl FnOnce(&mut AsyncSteps) -> StepResult,
    ) {
        self.asi.completed = false;
        self.asi.polled = false;
        self.asi.callback = callback;
        let is_watched = self.watches_callbacks();
        if is_watched {
            self.tell_observer(ReportedEvent::Enter);
        }
        let result = catch_unwind(AssertUnwindSafe(|| body(&mut self.asi)));
        if is_watched {
            self.tell_observer(ReportedEvent::Leave);
        }
        self.asi.callback = Callback::None;
        self.asi.time_passed();
        if !matches!(result, Ok(Ok(()))) {
            self.record(result);
        }
    }

    /// Records the fault of a callback that did not simply return: its panic, else the first fault,
    /// because `error` ends a callback (FTN12 §2.2.2).
    #[cold]
    pub(super) fn record(&mut self, result: CallbackResult) {
        let recorded = self.asi.raised.take();
        let location = self.asi.location();
        let broken = |rule| StepFault::Error(Error::violation(rule, location));
        self.asi.raised = Some(match result {
            Err(payload) => StepFault::Error(self.panicked(payload)),
            Ok(Err(StepError(Some(_)))) if self.asi.completed => {
                recorded.unwrap_or_else(|| broken("error after success"))
            }
            Ok(Err(StepError(Some(fault)))) => recorded.unwrap_or(match fault {
                StepFault::Error(error) => StepFault::Error(error.at(location)),
                StepFault::Loop(end) => StepFault::Loop(end),
            }),
            Ok(Err(StepError(None)) | Ok(())) => recorded
                .unwrap_or_else(|| broken("an error was returned that the callback did not raise")),
        });
    }

    /// Decides what starting the step on top meant, which is not complete; a future that it has made
    /// is polled.
    pub(super) fn settle_start(&mut self, waker: &Waker) -> Next {
        let next = self.settle_incomplete();
        let polls = matches!(self.asi.strand.top.activity(), Activity::Polling(_));
        if polls && !self.asi.polled && matches!(next, Next::Wait) {
            return self.poll_future(waker);
        }
        next
    }

    /// Decides what the callback of the step on top meant.
    #[inline]
    pub(super) fn settle(&mut self) -> Next {
        if self.is_complete() {
            self.leave(StepEnd::Success);
            return Next::Step;
        }
        self.settle_incomplete()
    }

    /// Whether the callback of the step on top has completed the step, by `success` or implicitly.
    #[inline]
    pub(super) fn is_complete(&self) -> bool {
        let top = &self.asi.strand.top;
        self.asi.raised.is_none()
            && (self.asi.completed
                || (!self.asi.strand.has_substeps()
                    && !top.flags.waits
                    && top.wait.is_none()
                    && matches!(top.activity(), Activity::Plain | Activity::Holding(_))))
    }

    /// The step on top failed, waits, or has sub-steps.
    #[inline]
    fn settle_incomplete(&mut self) -> Next {
        if self.asi.raised.is_none() {
            let strand = &mut self.asi.strand;
            if strand.has_substeps() {
                strand.seal(strand.top.base());
                return Next::Step;
            }
            // waits for a completion are most waits, and need not be looked at again
            if strand.top.flags.waits && matches!(strand.top.activity(), Activity::Plain) {
                return Next::Wait;
            }
        }
        self.settle_leaf()
    }

    /// The step on top failed, or has no sub-steps and is not complete.
    #[inline(never)]
    fn settle_leaf(&mut self) -> Next {
        if let Some(fault) = self.asi.raised.take() {
            return self.unwind(fault);
        }
        let top = &self.asi.strand.top;
        match top.activity() {
            Activity::Plain | Activity::Holding(_) if !top.flags.waits => {
                self.complete_with_handle()
            }
            Activity::Plain
            | Activity::Holding(_)
            | Activity::Waiting(_)
            | Activity::Polling(_)
            | Activity::Undoing(_) => Next::Wait,
            Activity::Looping(_) | Activity::Retrying(_) => Next::Step,
            Activity::Parallel(_) => self.start_branches(),
        }
    }
}
