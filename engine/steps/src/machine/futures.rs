//! Futures that steps poll (FTN12 §1.13).
//!
//! The future of the root is polled with the waker of the host, and again in each turn, so that it
//! always knows the waker of the last turn. The future of a branch has a waker of its own: a flow
//! polls only those of its branches that were woken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};

use super::report::Event;
use super::types::{Machine, Next};
use crate::error::Fault;
use crate::flow::Outcome;
use crate::sleep::in_turn;
use crate::stack::Activity;

impl Machine {
    /// Polls the future that the root waits for, if it does; gives the end of the flow if that ended
    /// it.
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
            Next::Step | Next::Wait | Next::Poll | Next::Yield | Next::Complete => None,
        }
    }

    /// Polls the future of the step on top, where it is; its output ends the step.
    pub(super) fn poll_future(&mut self, waker: &Waker) -> Next {
        if !matches!(self.asi.strand.top.activity(), Activity::Polling(_)) {
            return Next::Wait;
        }
        self.report(Event::Enter);
        let now = self.asi.now;
        let Some(future) = self.asi.strand.top.future() else { return Next::Wait };
        let (result, alarms) = in_turn(now, || {
            catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(waker))))
        });
        if let Some(alarms) = alarms {
            self.asi.cold().alarms.add(alarms);
        }
        self.report(Event::Leave);
        match result {
            Ok(Poll::Pending) => Next::Wait,
            Ok(Poll::Ready(Ok(args))) => {
                drop(self.asi.strand.top.take_future());
                self.complete_waiting(args)
            }
            Ok(Poll::Ready(Err(error))) => {
                drop(self.asi.strand.top.take_future());
                self.unwind(Fault::Error(error.at(self.asi.location())))
            }
            Err(payload) => {
                let error = self.panicked(payload);
                drop(self.asi.strand.top.take_future());
                self.unwind(Fault::Error(error))
            }
        }
    }
}
