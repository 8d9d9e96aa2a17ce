//! What arrives from outside for the steps that wait: results, errors, wake-ups of futures.

use std::mem;

use smallvec::SmallVec;

use super::drive::Next;
use super::{AsyncSteps, Outcome};
use crate::args::Args;
use crate::completion::{Arrival, Mail, WaitKey};
use crate::error::{Error, Fault};
use crate::observe::StepEnd;

impl AsyncSteps {
    /// Takes up completions and wake-ups of futures, as many as a turn has steps; gives the end of
    /// the flow if they ended it.
    ///
    /// Steps take the results that were sent to them before an error takes effect that would cancel
    /// them.
    pub(super) fn take_up_arrivals(&mut self) -> Option<Outcome> {
        let inbox =
            self.inbox.as_ref().filter(|inbox| inbox.has_news() && !inbox.is_cancelled())?;
        let arrivals = inbox.take_news(self.burst);
        let others = self.take_results(arrivals);
        for (key, strand, mail) in others {
            if self.is_cancelled() || !self.activate(strand) {
                continue;
            }
            if let Next::Failed(error) = self.receive(key, mail) {
                return Some(Outcome::Error(error));
            }
        }
        if self.strand.runnable {
            // the branches go on in the order in which they became able to
            self.rotate();
        }
        None
    }

    /// What was sent to the step on top, and not taken up, before a timer ends the step. Without
    /// such mail nothing can be sent to the step any more.
    pub(super) fn receive_last(&mut self) -> Option<Next> {
        let key = self.strand.top.wait.filter(|_| self.strand.top_waits())?;
        let mail = self.inbox.as_ref()?.lock().close(key)?;
        match mail {
            Mail::Success(_) | Mail::Error(_) => Some(self.receive(key, mail)),
            Mail::Abandoned | Mail::Poll => None,
        }
    }

    /// Whether the step on top was completed and has not taken it up yet; it has now.
    pub(super) fn took_result(&mut self) -> bool {
        self.strand.top_waits() && matches!(self.close_wait(), Some(Mail::Success(_)))
    }

    /// Completes the waiting steps to which results were sent; gives what else arrived.
    pub(super) fn take_results(
        &mut self,
        mut arrivals: SmallVec<[Arrival; 1]>,
    ) -> SmallVec<[Arrival; 1]> {
        arrivals.retain(|(key, strand, mail)| {
            let is_result = matches!(mail, Mail::Success(_));
            if !is_result || !self.activate(*strand) || !self.waits_for(*key) {
                return true;
            }
            let Mail::Success(result) = mem::replace(mail, Mail::Abandoned) else { return true };
            let result = result.into_args();
            if let Err(violation) = self.check_result(&result) {
                *mail = Mail::Error(violation);
                return true;
            }
            // the inbox has closed the wait
            self.strand.top.wait = None;
            self.complete_with(result);
            false
        });
        arrivals
    }

    /// Whether the step on top waits for this, without sub-steps.
    fn waits_for(&self, key: WaitKey) -> bool {
        self.strand.top.wait == Some(key) && self.strand.top_waits()
    }

    /// Completes the waiting step that `key` names; what is stale is dropped.
    fn receive(&mut self, key: WaitKey, mail: Mail) -> Next {
        if self.strand.top.wait != Some(key) || !self.strand.top_waits() {
            let stale = !self.strand.open_frames().any(|frame| frame.wait == Some(key));
            return match mail {
                Mail::Abandoned | Mail::Poll => Next::Wait,
                Mail::Success(_) | Mail::Error(_) if stale => Next::Wait,
                Mail::Success(_) | Mail::Error(_) => self.unwind(Fault::Error(Error::violation(
                    "external completion of a step with sub-steps",
                    self.strand.top.place,
                ))),
            };
        }
        if !matches!(mail, Mail::Poll) {
            // the inbox has closed it
            self.strand.top.wait = None;
        }
        match mail {
            Mail::Success(args) => self.complete_waiting(args.into_args()),
            Mail::Error(error) => self.unwind(Fault::Error(error.at(self.strand.top.place))),
            Mail::Poll => self.poll_awaited(),
            Mail::Abandoned => {
                let rule = "abandoned: every handle that could complete the step was dropped";
                self.unwind(Fault::Error(Error::violation(rule, self.strand.top.place)))
            }
        }
    }

    pub(super) fn complete_waiting(&mut self, result: Args) -> Next {
        if let Err(violation) = self.check_result(&result) {
            return self.unwind(Fault::Error(violation));
        }
        self.complete_with(result);
        Next::Step
    }

    fn complete_with(&mut self, result: Args) {
        self.close_top(StepEnd::Success);
        self.strand.args = result;
        self.strand.runnable = true;
    }

    /// Nothing can complete the step on top any more. Gives what came for it and was not taken up.
    pub(super) fn close_wait(&mut self) -> Option<Mail> {
        let (key, inbox) = (self.strand.top.wait.take()?, self.inbox.as_ref()?);
        inbox.lock().close(key)
    }
}
