//! A turn of a flow (FTN12 §2.6): it receives messages, then runs steps until all strands wait.

use std::mem;
use std::task::Waker;

use super::types::{Machine, Next};
use crate::flow::{Outcome, Progress};
use crate::observe::StepEnd;
use crate::stack::{Activity, AsyncSteps, Role};
use crate::time::Time;

impl Machine {
    /// A machine that runs the steps of a root, which is configured and sealed.
    #[inline]
    pub(crate) fn new(asi: AsyncSteps) -> Self {
        Self { asi }
    }

    /// Whether the flow has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.asi.done
    }

    /// Runs a turn of `burst` steps.
    pub(crate) fn run(&mut self, burst: u32, now: Time, waker: &Waker) -> Progress {
        if self.asi.done {
            return Progress::Done(Outcome::Cancelled);
        }
        let progress = self.turn(burst, now, waker);
        self.asi.done = matches!(progress, Progress::Done(_));
        progress
    }

    fn turn(&mut self, burst: u32, now: Time, waker: &Waker) -> Progress {
        self.asi.now = now;
        self.asi.time_passed();
        self.asi.burst = burst;
        self.begin_arrivals();
        self.wake_sleepers();
        let end = self.receive_arrivals(waker);
        let end = end.or_else(|| self.poll_root(waker));
        let end = end.or_else(|| self.expire_timers());
        let progress = match end.or_else(|| self.cancel_if_asked()) {
            Some(outcome) => Progress::Done(outcome),
            None => {
                self.end_arrivals();
                self.run_strands(waker)
            }
        };
        if matches!(progress, Progress::Waiting) && !self.asi.inbox().wake_on_news(waker) {
            return Progress::Ready;
        }
        progress
    }

    /// Runs strands until none is runnable, the turn has ended, or the flow ends.
    fn run_strands(&mut self, waker: &Waker) -> Progress {
        while self.asi.strand.runnable || self.rotate() {
            let has_turn = self.asi.burst > 0;
            let next = self.run_steps(waker);
            if let Some(outcome) = self.cancel_if_asked() {
                return Progress::Done(outcome);
            }
            match next {
                Next::Step => {}
                Next::Wait => {
                    self.asi.strand.runnable = false;
                    self.asi.strand.shrink();
                }
                Next::Yield => {
                    // a strand that had no turn goes on first: branches start in the order added
                    if has_turn {
                        self.rotate();
                    }
                    return Progress::Ready;
                }
                Next::Complete if self.asi.active() == 0 => {
                    return Progress::Done(Outcome::Success(mem::take(&mut self.asi.strand.args)));
                }
                Next::Complete => self.complete_branch(),
                Next::Failed(error) => return Progress::Done(Outcome::Error(error)),
            }
        }
        Progress::Waiting
    }

    /// Runs steps of the active strand.
    fn run_steps(&mut self, waker: &Waker) -> Next {
        loop {
            if self.is_cancelled() {
                return Next::Yield;
            }
            let strand = &mut self.asi.strand;
            let next = if strand.pending.len() > strand.level_base() {
                if self.asi.burst == 0 {
                    return Next::Yield;
                }
                self.start_next(waker)
            } else if strand.top.flags.is_open() || strand.ascend() {
                self.complete_top(waker)
            } else {
                return Next::Complete;
            };
            if !matches!(next, Next::Step) {
                return next;
            }
        }
    }

    /// All sub-steps of the step on top are complete.
    fn complete_top(&mut self, waker: &Waker) -> Next {
        match self.asi.strand.top.activity() {
            Activity::Looping(_) if self.asi.burst == 0 => Next::Yield,
            Activity::Looping(_) => self.iterate(),
            Activity::Retrying(attempts) if attempts.is_due() => self.start_attempt(waker),
            Activity::Plain if self.asi.strand.top.flags.is(Role::Iteration) => {
                self.end_iteration()
            }
            Activity::Plain
            | Activity::Holding(_)
            | Activity::Waiting(_)
            | Activity::Parallel(_)
            | Activity::Polling(_)
            | Activity::Retrying(_)
            | Activity::Undoing(_) => {
                if self.asi.strand.top.wait.is_some() {
                    return self.complete_with_wait();
                }
                self.leave(StepEnd::Success);
                self.go_on()
            }
        }
    }

    /// Whether the flow is to be cancelled: no further step runs (FTN12 §2.2.3 `cancel`).
    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        self.asi.inbox.as_ref().is_some_and(|inbox| inbox.is_cancelled())
    }

    /// Cancels the flow if a [`Canceller`](crate::Canceller) asked for it.
    fn cancel_if_asked(&mut self) -> Option<Outcome> {
        self.is_cancelled().then(|| {
            self.cancel_all();
            Outcome::Cancelled
        })
    }

    /// Cancels the flow, unless it has ended.
    pub(crate) fn cancel(&mut self) {
        if !self.asi.done {
            self.asi.done = true;
            self.asi.time_passed();
            self.cancel_all();
        }
    }
}
