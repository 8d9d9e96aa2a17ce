//! Reports about steps to the observer and the host (FTN12 §1.7).

use std::any::Any;
use std::mem;

use super::types::Machine;
use crate::error::Error;
use crate::observe::{Observer, StepEnd, StepRef, UndoneStep};
use crate::stack::{AsyncSteps, Role};

/// An event of a step, for an [`Observer`](crate::Observer).
pub(super) enum ReportedEvent<'a> {
    Begin,
    Resume,
    Enter,
    Leave,
    End(StepEnd<'a>),
    CancelFailed(&'a Error),
}

impl Machine {
    /// Whether the flow launched others since they were last taken.
    #[inline]
    pub(crate) fn has_launched(&self) -> bool {
        self.asi.cold.as_ref().is_some_and(|cold| !cold.launched.is_empty())
    }

    /// Whether there are errors for the host since they were last taken.
    #[inline]
    pub(crate) fn has_unseen(&self) -> bool {
        self.asi.cold.as_ref().is_some_and(|cold| !cold.unseen.is_empty())
    }

    /// Whether the flow has undone steps since they were last taken.
    #[inline]
    pub(crate) fn has_undone(&self) -> bool {
        self.asi.cold.as_ref().is_some_and(|cold| !cold.undone.is_empty())
    }

    /// The flows that steps and cancel handlers launched since the last call.
    pub(crate) fn take_launched(&mut self) -> Vec<AsyncSteps> {
        self.asi.cold.as_mut().map(|cold| mem::take(&mut cold.launched)).unwrap_or_default()
    }

    /// The errors since the last call that only the host can report.
    pub(crate) fn take_unreported_errors(&mut self) -> Vec<Error> {
        self.asi.cold.as_mut().map(|cold| mem::take(&mut cold.unseen)).unwrap_or_default()
    }

    /// The steps that this flow has undone since the last call.
    pub(crate) fn take_undone(&mut self) -> Vec<UndoneStep> {
        self.asi.cold.as_mut().map(|cold| mem::take(&mut cold.undone)).unwrap_or_default()
    }

    /// Makes the error of a panic in the step on top, for the flow and for the host.
    #[cold]
    pub(super) fn panicked(&mut self, payload: Box<dyn Any + Send>) -> Error {
        let error = Error::panicked(payload, self.asi.location());
        self.asi.cold().unseen.push(error.clone());
        error
    }

    /// Whether the flow has an observer of callbacks.
    #[inline]
    pub(super) fn watches_callbacks(&self) -> bool {
        self.asi.cold.as_ref().is_some_and(|cold| cold.watches_callbacks)
    }

    /// Reports the step on top to an observer that watches callbacks.
    #[inline]
    pub(super) fn report_callback(&mut self, event: ReportedEvent<'_>) {
        if self.watches_callbacks() {
            self.tell_observer(event);
        }
    }

    /// Reports the step on top to the observer.
    #[inline]
    pub(super) fn report(&mut self, event: ReportedEvent<'_>) {
        if self.asi.cold.as_ref().is_some_and(|cold| cold.observer.is_some()) {
            self.tell_observer(event);
        }
    }

    /// An iteration is shown as its loop, so it neither begins nor ends.
    #[inline(never)]
    pub(super) fn tell_observer(&mut self, event: ReportedEvent<'_>) {
        let is_iteration = self.asi.strand.top.flags.is(Role::Iteration);
        let step = self.step_ref();
        let called = CalledObserver(&mut self.asi.cold().observer);
        let Some(observer) = called.0 else { return };
        match event {
            ReportedEvent::Begin | ReportedEvent::End(_) if is_iteration => {}
            ReportedEvent::Begin => observer.begin(step),
            ReportedEvent::Resume => observer.resume(step),
            ReportedEvent::Enter => observer.enter(step),
            ReportedEvent::Leave => observer.leave(step),
            ReportedEvent::End(end) => observer.end(step, end),
            ReportedEvent::CancelFailed(error) => observer.cancel_failed(step, error),
        }
        mem::forget(called);
    }

    fn step_ref(&self) -> StepRef {
        let strand = &self.asi.strand;
        let parent = self.asi.strands_around(self.asi.active()).next();
        StepRef {
            branch: strand.branch,
            parent: parent.map_or(0, |parent| parent.branch),
            depth: strand.depth() - u32::from(strand.top.flags.is(Role::Iteration)),
            attempt: self.asi.attempt(),
            location: strand.top.location(),
            moment: self.asi.moment,
        }
    }
}

/// The observer of a flow while it is called; one that panics is not called again.
struct CalledObserver<'a>(&'a mut Option<Box<dyn Observer>>);

impl Drop for CalledObserver<'_> {
    fn drop(&mut self) {
        *self.0 = None;
    }
}
