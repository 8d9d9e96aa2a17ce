//! Messages from outside for the steps that wait (FTN12 §1.3): results, errors, wake-ups of
//! futures.

use std::task::Waker;

use super::types::{Machine, Next};
use crate::args::{Args, SendArgs};
use crate::error::{Error, StepFault};
use crate::flow::Outcome;
use crate::inbox::{Arrival, WaitKey, WaitMessage};
use crate::observe::StepEnd;

impl Machine {
    /// Receives completions and wake-ups of futures, as many as a turn has steps; returns the end
    /// of the flow if one of them ended it.
    ///
    /// Steps take the results that were sent to them before an error takes effect that would cancel
    /// them.
    #[inline]
    pub(super) fn receive_arrivals(&mut self, waker: &Waker) -> Option<Outcome> {
        let inbox = self.asi.inbox.as_ref()?;
        if inbox.has_news() && !inbox.is_cancelled() { self.receive_news(waker) } else { None }
    }

    fn receive_news(&mut self, waker: &Waker) -> Option<Outcome> {
        for (key, strand, message) in self.take_results(self.asi.burst) {
            if self.is_cancelled() || !self.activate(strand) {
                continue;
            }
            let polls =
                matches!(message, WaitMessage::Poll) && self.waits_for(key) && !self.is_undoing();
            let next = if polls { self.poll_future(waker) } else { self.receive(key, message) };
            if let Next::Failed(error) = next {
                return Some(Outcome::Error(error));
            }
        }
        None
    }

    /// Receives the message that was sent to the step on top before a timer ends the step. If there
    /// is none, its wait is closed.
    pub(super) fn receive_last(&mut self) -> Option<Next> {
        let key = self.asi.strand.top.wait.filter(|_| self.asi.strand.top_waits())?;
        let message = self.asi.inbox.as_ref()?.lock().close(key)?;
        match message {
            WaitMessage::Success(_) | WaitMessage::Error(_) | WaitMessage::Interrupt(_) => {
                Some(self.receive(key, message))
            }
            WaitMessage::Abandoned | WaitMessage::Poll => None,
        }
    }

    /// The body of the step on top made a handle and returned without waiting: the step is complete,
    /// with what the handle sent until then.
    #[cold]
    pub(super) fn complete_with_handle(&mut self) -> Next {
        self.receive_last().unwrap_or_else(|| self.complete())
    }

    /// The sub-steps of the step on top, which has a wait, are complete, and so is the step, unless
    /// a message to it must not be lost.
    #[cold]
    pub(super) fn complete_with_wait(&mut self) -> Next {
        match self.asi.close_wait() {
            Some(WaitMessage::Success(_) | WaitMessage::Error(_)) => self.completed_with_substeps(),
            Some(WaitMessage::Interrupt(error)) => self.interrupt_top(&error),
            Some(WaitMessage::Abandoned | WaitMessage::Poll) | None => self.complete(),
        }
    }

    fn complete(&mut self) -> Next {
        self.leave(StepEnd::Success);
        Next::Step
    }

    /// Whether the step on top was completed from outside and had not received that yet.
    pub(super) fn took_result(&mut self) -> bool {
        self.asi.strand.top_waits()
            && !self.is_undoing()
            && matches!(self.asi.close_wait(), Some(WaitMessage::Success(_)))
    }

    /// Receives up to `limit` messages, and completes the waiting steps to which results were sent;
    /// returns the other messages.
    pub(super) fn take_results(&mut self, limit: u32) -> Vec<Arrival> {
        let mut others = Vec::new();
        for _ in 0..limit {
            let inbox = self.asi.inbox.as_ref().filter(|inbox| inbox.has_news());
            let Some((key, strand, message)) = inbox.and_then(|inbox| inbox.receive()) else {
                break;
            };
            let taken = if let WaitMessage::Success(result) = message {
                self.take_result(key, strand, result)
            } else {
                Err(message)
            };
            if let Err(message) = taken {
                others.push((key, strand, message));
            }
        }
        others
    }

    /// Completes a waiting step with a result.
    ///
    /// # Errors
    /// The message that is left, if the step cannot take it.
    fn take_result(
        &mut self,
        key: WaitKey,
        strand: u32,
        result: SendArgs,
    ) -> Result<(), WaitMessage> {
        if !self.activate(strand) || !self.waits_for(key) || self.is_undoing() {
            return Err(WaitMessage::Success(result));
        }
        let result = result.into_args();
        self.asi.check_result(&result).map_err(WaitMessage::Error)?;
        // the inbox has closed the wait
        self.asi.strand.top.wait = None;
        self.complete_with(result);
        Ok(())
    }

    /// Whether the step on top waits for this, without sub-steps.
    fn waits_for(&self, key: WaitKey) -> bool {
        self.asi.strand.top.wait == Some(key) && self.asi.strand.top_waits()
    }

    /// Passes a message to the step on top that waits for it; a stale message is dropped.
    fn receive(&mut self, key: WaitKey, message: WaitMessage) -> Next {
        if let WaitMessage::Interrupt(error) = message {
            return self.interrupt(key, &error);
        }
        if !self.waits_for(key) {
            return self.receive_elsewhere(key, &message);
        }
        if !matches!(message, WaitMessage::Poll) {
            // the inbox has closed the wait
            self.asi.strand.top.wait = None;
        }
        if self.is_undoing() {
            return self.end_undo();
        }
        let location = self.asi.location();
        match message {
            WaitMessage::Success(args) => self.complete_waiting(args.into_args()),
            WaitMessage::Error(error) | WaitMessage::Interrupt(error) => {
                self.unwind(StepFault::Error(error.at(location)))
            }
            WaitMessage::Poll => Next::Wait,
            WaitMessage::Abandoned => {
                let rule = "abandoned: every handle that could complete the step was dropped";
                self.unwind(StepFault::Error(Error::violation(rule, location)))
            }
        }
    }

    /// A message for a step that has ended, or that has sub-steps: such a step must not be
    /// completed.
    fn receive_elsewhere(&mut self, key: WaitKey, message: &WaitMessage) -> Next {
        let is_open = || self.asi.strand.open_frames().any(|frame| frame.wait == Some(key));
        match message {
            WaitMessage::Success(_) | WaitMessage::Error(_) if is_open() => {
                self.completed_with_substeps()
            }
            WaitMessage::Success(_)
            | WaitMessage::Error(_)
            | WaitMessage::Abandoned
            | WaitMessage::Interrupt(_)
            | WaitMessage::Poll => Next::Wait,
        }
    }

    #[cold]
    fn completed_with_substeps(&mut self) -> Next {
        let rule = "external completion of a step with sub-steps";
        self.unwind(StepFault::Error(Error::violation(rule, self.asi.location())))
    }

    /// Completes the step on top, which waited, with a result.
    #[inline]
    pub(super) fn complete_waiting(&mut self, result: Args) -> Next {
        if let Err(violation) = self.asi.check_result(&result) {
            return self.unwind(StepFault::Error(violation));
        }
        self.complete_with(result);
        Next::Step
    }

    #[inline]
    pub(super) fn complete_with(&mut self, result: Args) {
        self.leave(StepEnd::Success);
        self.asi.strand.args = result;
        self.asi.strand.runnable = true;
    }
}
