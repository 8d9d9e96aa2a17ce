//! Futures that steps poll (FTN12 §1.13).
//!
//! The future of the root is polled with the waker of the host, and again in each turn, so that it
//! always knows the waker of the last turn. The future of a branch has a waker of its own: a flow
//! polls only the branches that were woken. The first poll of an async body is part of the callback
//! that makes its future.

use std::task::{Context, Poll, Waker};

use super::report::ReportedEvent;
use super::types::{Machine, Next};
use crate::args::Args;
use crate::error::{Error, StepError, StepResult};
use crate::flow::Outcome;
use crate::sleep::{Left, PollTurn};
use crate::stack::{Activity, AsyncSteps, Callback, UndoOfFrame, Waking};

impl AsyncSteps {
    /// Polls a future; if it is not ready, the running step goes on polling it.
    ///
    /// The future of a branch is polled later, with the waker of the branch.
    #[inline]
    pub(crate) fn poll_new<F>(&mut self, future: F, waker: Waking<'_>) -> StepResult
    where
        F: Future<Output = Result<Args, Error>> + 'static,
    {
        let Some(waker) = waker.filter(|_| self.active() == 0) else {
            self.poll(Box::pin(future));
            return Ok(());
        };
        self.begin_poll();
        let mut future = Box::pin(future);
        let turn = PollTurn::begin(self.now);
        let polled = future.as_mut().poll(&mut Context::from_waker(waker));
        let has_asked = self.end_poll(turn);
        match polled {
            Poll::Ready(result) => {
                let result = self.note_result(result);
                drop(future);
                self.complete_polled(result)
            }
            Poll::Pending => {
                self.polled = true;
                self.start_activity(Activity::Polling(future));
                if has_asked { self.poll_again(waker) } else { Ok(()) }
            }
        }
    }

    /// Polls the future of the running step, where it is; its output completes the step.
    fn poll_again(&mut self, waker: &Waker) -> StepResult {
        self.begin_poll();
        let polled = loop {
            let turn = PollTurn::begin(self.now);
            let Some(future) = self.strand.top.future() else { return Ok(()) };
            let polled = future.as_mut().poll(&mut Context::from_waker(waker));
            if !self.end_poll(turn) || polled.is_ready() {
                break polled;
            }
        };
        let Poll::Ready(result) = polled else { return Ok(()) };
        let result = self.note_result(result);
        drop(self.strand.top.take_future());
        self.complete_polled(result)
    }

    /// Notifies the undo that watches the future that it begins.
    #[inline(always)]
    fn begin_poll(&mut self) {
        if self.strand.top.flags.undo != UndoOfFrame::None {
            self.begin_undoable();
        }
    }

    #[inline(never)]
    fn begin_undoable(&mut self) {
        if let Some(undo) = self.own_undo() {
            undo.begin();
        }
    }

    /// Reports the future's result to the undo that watches it.
    #[inline(always)]
    fn note_result(&mut self, result: Result<Args, Error>) -> Result<Args, Error> {
        if self.strand.top.flags.undo == UndoOfFrame::None {
            result
        } else {
            self.end_undoable(result)
        }
    }

    #[inline(never)]
    fn end_undoable(&mut self, result: Result<Args, Error>) -> Result<Args, Error> {
        match (result, self.own_undo()) {
            (Ok(result), Some(undo)) => Ok(undo.complete(result)),
            (Err(error), Some(_)) => {
                self.note_failure(&error);
                Err(error)
            }
            (result, None) => result,
        }
    }

    /// A body that failed is taken at its word. But if the error is worth another attempt, the
    /// effect may have happened.
    #[cold]
    fn note_failure(&mut self, error: &Error) {
        let mut attempts = self.strand.attempts().into_iter();
        let may_be_done =
            error.leaves_outcome_unknown() || attempts.any(|it| it.is_worth_another(error));
        if !may_be_done && let Some(undo) = self.own_undo() {
            undo.fail();
        }
    }

    /// Takes what the future has left; says whether that was a question, which is answered.
    #[inline(always)]
    fn end_poll(&mut self, turn: PollTurn) -> bool {
        turn.end().is_some_and(|left| self.take_left(left))
    }

    #[cold]
    fn take_left(&mut self, left: Vec<Left>) -> bool {
        let mut has_asked = false;
        for left in left {
            match left {
                Left::Alarm(alarm) => self.cold().alarms.add(alarm),
                Left::Question(answer) => {
                    answer(self);
                    has_asked = true;
                }
            }
        }
        has_asked
    }

    /// Completes the running step with the output of its future.
    #[inline(always)]
    fn complete_polled(&mut self, result: Result<Args, Error>) -> StepResult {
        let result = result.map_err(StepError::error)?;
        self.check_result(&result).map_err(StepError::error)?;
        self.strand.args = result;
        self.completed = true;
        Ok(())
    }
}

impl Machine {
    /// Polls the future that the root waits for, if it does; returns the end of the flow if that
    /// ended it.
    #[inline]
    pub(super) fn poll_root(&mut self, waker: &Waker) -> Option<Outcome> {
        let polls = matches!(self.asi.strand.top.activity(), Activity::Polling(_));
        if polls && self.asi.active() == 0 { self.poll_root_future(waker) } else { None }
    }

    fn poll_root_future(&mut self, waker: &Waker) -> Option<Outcome> {
        if self.is_cancelled() {
            return None;
        }
        match self.poll_future(waker) {
            Next::Failed(error) => Some(Outcome::Error(error)),
            Next::Step | Next::Wait | Next::Yield | Next::Complete => None,
        }
    }

    /// Polls the future of the step on top, which was woken; its output ends the step.
    pub(super) fn poll_future(&mut self, waker: &Waker) -> Next {
        if !matches!(self.asi.strand.top.activity(), Activity::Polling(_)) {
            return Next::Wait;
        }
        self.report(ReportedEvent::Resume);
        self.call(Callback::None, |asi| asi.poll_again(waker));
        let next = self.settle();
        if matches!(next, Next::Step) {
            self.asi.strand.runnable = true;
        }
        next
    }
}
