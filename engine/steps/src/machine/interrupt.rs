//! Ends of steps from outside: by an [`Interrupter`](crate::Interrupter), or chosen by a simulation,
//! where the flow waits and as if a time limit expired.

use std::time::Duration;

use super::types::{Machine, Next};
use crate::error::{Error, StepFault};
use crate::flow::Outcome;
use crate::inbox::WaitKey;
use crate::slot::index;
use crate::stack::Activity;
use crate::time::Time;

impl Machine {
    /// Cancels everything inside of the step in the active strand that has this wait, and raises the
    /// error at the step itself. Undos of steps inside then come after the step has regained its lost
    /// objects.
    pub(super) fn interrupt(&mut self, key: WaitKey, error: &Error) -> Next {
        let mut frames = self.asi.strand.open_frames().enumerate();
        let found = frames.find(|(_, frame)| frame.wait == Some(key));
        let Some((depth, frame)) = found else { return Next::Wait };
        let loses = self.asi.can_regain(frame).then_some(error);
        drop(frames);
        self.end_inside(index(depth), loses);
        // the inbox has closed the wait
        self.asi.strand.top.wait = None;
        self.interrupt_top(error)
    }

    /// Raises the error at the step on top, which has no wait and nothing in progress inside.
    pub(super) fn interrupt_top(&mut self, error: &Error) -> Next {
        if self.can_undo_inside(0) {
            self.asi.regain_before_undo();
        }
        let location = self.asi.location();
        self.unwind(StepFault::Error(error.clone().at(location)))
    }

    /// Cancels everything inside of the step at this depth of the active strand, which is on top
    /// then.
    pub(super) fn cancel_inside(&mut self, depth: u32) {
        self.end_inside(depth, None);
    }

    /// The same for a step that has lost an object with this error: its host learns that the steps inside fail with it,
    /// since they are undone before the step itself fails.
    fn end_inside(&mut self, depth: u32, loses: Option<&Error>) {
        while self.asi.strand.depth() > depth {
            if self.asi.strand.top.flags.is_open() {
                self.abort_top();
                if let Some(error) = loses {
                    self.tell_memory(error);
                }
                self.leave_cancelled();
            }
            self.asi.strand.ascend();
        }
    }

    /// The strands whose innermost step waits for something that can fail.
    pub(crate) fn waiting_strands(&self) -> Vec<u32> {
        let waiting = self.asi.strands().filter(|(_, strand)| {
            let is_waiting = match strand.top.activity() {
                Activity::Parallel(_) | Activity::Undoing(_) => false,
                Activity::Plain
                | Activity::Holding(_)
                | Activity::Waiting(_)
                | Activity::Looping(_)
                | Activity::Polling(_)
                | Activity::Retrying(_) => strand.top_waits(),
            };
            is_waiting && !strand.runnable
        });
        waiting.map(|(id, _)| id).collect()
    }

    /// Fails the step that waits in this strand, unless a result was sent to it before: that counts.
    /// Returns the end of the flow if that ended it.
    pub(crate) fn fail_wait(&mut self, strand: u32, error: Error, now: Time) -> Option<Outcome> {
        self.asi.now = now;
        self.asi.time_passed();
        if !self.activate(strand) {
            return None;
        }
        let next = self.receive_last().unwrap_or_else(|| {
            let error = error.at(self.asi.location());
            self.unwind(StepFault::Error(error))
        });
        self.end_of(next)
    }

    /// Ends the flow as a hard time limit around it would: everything inside of the outermost step
    /// is cancelled, then that step fails with `Timeout`. A result that was sent before counts.
    pub(crate) fn expire(&mut self, now: Time) -> Option<Outcome> {
        self.asi.now = now;
        self.asi.time_passed();
        if !self.activate(0) {
            return None;
        }
        if let Some(Next::Failed(error)) = self.receive_last() {
            return self.end_of(Next::Failed(error));
        }
        self.cancel_inside(0);
        let error = Error::timeout(Duration::ZERO, self.asi.location());
        let next = self.unwind(StepFault::Error(error));
        self.end_of(next)
    }

    fn end_of(&mut self, next: Next) -> Option<Outcome> {
        let Next::Failed(error) = next else { return None };
        self.asi.done = true;
        Some(Outcome::Error(error))
    }
}
