//! Driving a flow: a turn takes up what arrived, then runs steps until all strands wait.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::level::{Entry, Handler, Kind, SharedSteps, Special, index};
use super::{AsyncSteps, Callback, Outcome, Progress};
use crate::args::Args;
use crate::completion::WaitKey;
use crate::error::{Error, Fault, Raised, StepResult};
use crate::observe::{StepEnd, StepRef};
use crate::place::Place;
use crate::time::Time;

/// What to do after a step started, ended or failed.
#[must_use]
pub(super) enum Next {
    /// Go on with the active strand.
    Step,
    /// The active strand waits.
    Wait,
    /// The turn is over.
    Yield,
    /// The active strand has nothing left to do.
    Complete,
    /// No handler recovered.
    Failed(Error),
}

pub(super) type Caught = Result<StepResult, Box<dyn Any + Send>>;

impl AsyncSteps {
    pub(super) fn turn(&mut self, now: Time, waker: &Waker, burst: u32) -> Progress {
        self.now = now;
        self.burst = burst;
        let end = self.take_up_arrivals();
        let end = end.or_else(|| self.expire_timers());
        let progress = match end.or_else(|| self.cancelled_by_now()) {
            Some(outcome) => Progress::Done(outcome),
            None => self.work(),
        };
        if matches!(progress, Progress::Waiting) && !self.inbox().rest(waker) {
            return Progress::Ready;
        }
        progress
    }

    /// Runs strands until none is runnable, the turn is over, or the flow ends.
    fn work(&mut self) -> Progress {
        while self.find_runnable() {
            let has_turn = self.burst > 0;
            let next = self.drive();
            if let Some(outcome) = self.cancelled_by_now() {
                return Progress::Done(outcome);
            }
            match next {
                Next::Step => {}
                Next::Wait => self.strand.runnable = false,
                Next::Yield => {
                    // one that had no turn goes on first: branches start in the order added
                    if has_turn {
                        self.rotate();
                    }
                    return Progress::Ready;
                }
                Next::Complete if self.active() == 0 => {
                    return Progress::Done(Outcome::Success(mem::take(&mut self.strand.args)));
                }
                Next::Complete => self.complete_branch(),
                Next::Failed(error) => return Progress::Done(Outcome::Error(error)),
            }
        }
        Progress::Waiting
    }

    /// Runs steps of the active strand.
    fn drive(&mut self) -> Next {
        loop {
            if self.is_cancelled() {
                return Next::Yield;
            }
            let next = if self.strand.pending.len() > self.strand.level_base() {
                if self.burst == 0 {
                    return Next::Yield;
                }
                self.start_next()
            } else if self.strand.top.flags.open || self.strand.ascend() {
                self.complete_top()
            } else {
                return Next::Complete;
            };
            match next {
                Next::Step => {}
                Next::Wait | Next::Yield | Next::Complete | Next::Failed(_) => return next,
            }
        }
    }

    /// All sub-steps of the step on top are complete.
    fn complete_top(&mut self) -> Next {
        match self.strand.top.kind {
            Kind::Loop(_) if self.burst == 0 => Next::Yield,
            Kind::Loop(_) => self.iterate(),
            Kind::Step
            | Kind::Holding(_)
            | Kind::Waiting(_)
            | Kind::Parallel(_)
            | Kind::Await(_) => {
                self.close_top(StepEnd::Success);
                Next::Step
            }
        }
    }

    fn start_next(&mut self) -> Next {
        match self.strand.pending.last_mut() {
            Some(Entry::Special(Special::Template { steps, next, end })) => {
                let (next, end) = (*next, *end);
                match steps.take() {
                    Some(steps) if next < end => self.run_shared(steps, next, end),
                    Some(_) | None => {
                        self.strand.pending.pop();
                        Next::Step
                    }
                }
            }
            Some(_) => match self.strand.pending.pop() {
                Some(entry) => self.start_own(entry, None),
                None => Next::Complete,
            },
            None => Next::Complete,
        }
    }

    fn start_own(&mut self, entry: Entry, name: Option<&'static str>) -> Next {
        let place = |location| Place::at(location).with(name);
        match entry {
            Entry::Step { body, handler, location } => {
                self.open_top(place(location), handler);
                let result = self.call(|asi, args| body(asi, args));
                self.settle(result)
            }
            Entry::Special(Special::Loop { body, location }) => {
                self.open_top(place(location), None);
                self.strand.top.kind = Kind::Loop(body);
                Next::Step
            }
            Entry::Special(Special::Parallel(mut branches)) => {
                self.open_top(place(branches.location), branches.handler.take());
                self.strand.top.kind = Kind::Parallel(branches);
                self.start_branches()
            }
            Entry::Special(Special::Sync(step)) => {
                self.open_top(place(step.location()), None);
                let result = self.call(|asi, args| step.start(asi, args));
                self.settle(result)
            }
            Entry::Special(Special::Named(named)) => self.start_own(named.0, Some(named.1)),
            Entry::Special(Special::Template { .. }) => Next::Step,
        }
    }

    /// Runs steps of a template until one of them does more than to complete, or the turn is over.
    /// The steps lie beside the queue meanwhile.
    fn run_shared(&mut self, steps: SharedSteps, mut next: u32, end: u32) -> Next {
        while next < end && self.burst > 0 && !self.is_cancelled() {
            let step = &steps[next as usize];
            next += 1;
            let own_handler = if step.is_sync { step.own_handler() } else { None };
            self.open_top(step.place, own_handler);
            self.strand.top.flags.template = step.handler.is_some() && !step.is_sync;
            let result = self.call(|asi, args| (step.body)(asi, args));
            if !self.is_done(&result) {
                self.return_shared(self.strand.top.base(), steps, next);
                return self.settle_open(result);
            }
            self.close_top(StepEnd::Success);
        }
        self.return_shared(self.strand.pending.len(), steps, next);
        Next::Step
    }

    /// Whether the body of the step on top has completed the step, by `success` or implicitly.
    fn is_done(&self, result: &Caught) -> bool {
        let top = &self.strand.top;
        matches!(result, Ok(Ok(())))
            && self.raised.is_none()
            && (self.completed
                || (self.strand.pending.len() == top.base()
                    && !top.flags.waits
                    && matches!(top.kind, Kind::Step | Kind::Holding(_))))
    }

    /// Puts the steps of a template back into the queue, right below `base`.
    pub(super) fn return_shared(&mut self, base: usize, shared: SharedSteps, at: u32) {
        let entry = self.strand.pending.get_mut(base.wrapping_sub(1));
        if let Some(Entry::Special(Special::Template { steps, next, .. })) = entry {
            (*steps, *next) = (Some(shared), at);
        }
    }

    /// Takes the steps of the template out of which the step on top comes, and the number of the
    /// step after it.
    pub(super) fn borrow_shared(&mut self) -> Option<(SharedSteps, u32)> {
        let at = self.strand.top.base().wrapping_sub(1);
        match self.strand.pending.get_mut(at)? {
            Entry::Special(Special::Template { steps, next, .. }) => Some((steps.take()?, *next)),
            Entry::Step { .. } | Entry::Special(_) => None,
        }
    }

    fn open_top(&mut self, place: Place, handler: Option<Handler>) {
        self.burst -= 1;
        self.strand.descend();
        let base = index(self.strand.pending.len());
        let top = &mut self.strand.top;
        top.base = base;
        top.place = place;
        top.handler = handler;
        top.flags.open = true;
        self.report_begin();
    }

    /// Calls the body of the step on top with the result of the step before it.
    fn call(&mut self, body: impl FnOnce(&mut Self, Args) -> StepResult) -> Caught {
        let args = mem::take(&mut self.strand.args);
        self.guarded(Callback::Body, |asi| body(asi, args))
    }

    /// Calls a callback of the step on top; a panic in it does not come out.
    pub(super) fn guarded(
        &mut self,
        callback: Callback,
        call: impl FnOnce(&mut Self) -> StepResult,
    ) -> Caught {
        self.completed = false;
        self.callback = callback;
        self.report_enter();
        let result = catch_unwind(AssertUnwindSafe(|| call(self)));
        self.report_leave();
        self.callback = Callback::None;
        result
    }

    /// Finds out what the body of the step on top decided.
    #[inline]
    pub(super) fn settle(&mut self, result: Caught) -> Next {
        if self.is_done(&result) {
            self.close_top(StepEnd::Success);
            return Next::Step;
        }
        self.settle_open(result)
    }

    /// The step on top failed, waits, or has something below it.
    fn settle_open(&mut self, result: Caught) -> Next {
        if !matches!(result, Ok(Ok(()))) || self.raised.is_some() {
            let fault = self.fault_of(result);
            return self.unwind(fault);
        }
        let base = self.strand.top.base();
        if self.strand.pending.len() > base {
            self.strand.seal(base);
            return Next::Step;
        }
        match self.strand.top.kind {
            Kind::Step | Kind::Holding(_) | Kind::Waiting(_) => Next::Wait,
            Kind::Loop(_) => Next::Step,
            Kind::Parallel(_) => self.start_branches(),
            Kind::Await(_) => self.poll_awaited(),
        }
    }

    /// The fault of a callback that did not simply return: its panic, else the first fault, because
    /// `error` ends a callback (FTN12 §2.2.2).
    #[cold]
    pub(super) fn fault_of(&mut self, result: Caught) -> Fault {
        let recorded = self.raised.take();
        let broken = |rule| Fault::Error(Error::violation(rule, self.strand.top.place));
        match result {
            Err(payload) => Fault::Error(self.panicked(payload)),
            Ok(Err(Raised(Some(_)))) if self.completed => {
                recorded.unwrap_or_else(|| broken("error after success"))
            }
            Ok(Err(Raised(Some(fault)))) => recorded.unwrap_or(match fault {
                Fault::Error(error) => Fault::Error(error.at(self.strand.top.place)),
                Fault::Loop(end) => Fault::Loop(end),
            }),
            Ok(Err(Raised(None)) | Ok(())) => {
                recorded.unwrap_or_else(|| broken("an error was returned that nobody raised"))
            }
        }
    }

    /// The error of a panic in the step on top, which its host reports.
    #[cold]
    fn panicked(&mut self, payload: Box<dyn Any + Send>) -> Error {
        let error = Error::panicked(payload, self.strand.top.place);
        self.more().unseen.push(error.clone());
        error
    }

    /// Ends the step on top and makes its frame room for the next one.
    pub(super) fn close_top(&mut self, end: StepEnd<'_>) {
        self.report_end(end);
        if !self.strand.top.is_plain() {
            self.clean_top();
        }
        let top = &mut self.strand.top;
        top.handler = None;
        top.flags = super::level::Flags::default();
    }

    #[cold]
    fn clean_top(&mut self) {
        drop(self.close_wait());
        if self.strand.top.rare.is_some() {
            self.disarm_timers();
            self.drop_values();
            self.strand.top.rare = None;
        }
        drop(mem::replace(&mut self.strand.top.kind, Kind::Step));
    }

    /// Whether the flow is to be cancelled: no further step runs (FTN12 §2.2.3 `cancel`).
    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        self.inbox.as_ref().is_some_and(|inbox| inbox.is_cancelled())
    }

    /// Cancels the flow if that was asked for; its end.
    fn cancelled_by_now(&mut self) -> Option<Outcome> {
        self.is_cancelled().then(|| {
            self.cancel_all();
            Outcome::Cancelled
        })
    }

    pub(super) fn poll_awaited(&mut self) -> Next {
        let kind = mem::replace(&mut self.strand.top.kind, Kind::Step);
        let Kind::Await(mut awaited) = kind else {
            self.strand.top.kind = kind;
            return Next::Wait;
        };
        self.report_enter();
        let result = catch_unwind(AssertUnwindSafe(|| {
            awaited.future.as_mut().poll(&mut Context::from_waker(&awaited.waker))
        }));
        self.report_leave();
        match result {
            Ok(Poll::Pending) => {
                self.strand.top.kind = Kind::Await(awaited);
                Next::Wait
            }
            Ok(Poll::Ready(Ok(args))) => {
                drop(awaited);
                self.complete_waiting(args)
            }
            Ok(Poll::Ready(Err(error))) => {
                drop(awaited);
                self.unwind(Fault::Error(error.at(self.strand.top.place)))
            }
            Err(payload) => {
                let error = self.panicked(payload);
                drop(awaited);
                self.unwind(Fault::Error(error))
            }
        }
    }

    fn report_begin(&mut self) {
        if !self.strand.top.flags.iteration {
            self.report(|observer, step| observer.begin(step));
        }
    }

    pub(super) fn report_enter(&mut self) {
        self.report(|observer, step| observer.enter(step));
    }

    pub(super) fn report_leave(&mut self) {
        self.report(|observer, step| observer.leave(step));
    }

    fn report_end(&mut self, end: StepEnd<'_>) {
        if !self.strand.top.flags.iteration {
            self.report(|observer, step| observer.end(step, end));
        }
    }

    /// Tells the observer about the step on top; an iteration is the loop itself.
    #[inline]
    pub(super) fn report(&mut self, tell: impl FnOnce(&mut dyn crate::observe::Observer, StepRef)) {
        if self.more.as_ref().is_some_and(|more| more.observer.is_some()) {
            let step = StepRef {
                branch: self.strand.branch,
                parent: self.parent_branch(),
                depth: self.strand.depth() - u32::from(self.strand.top.flags.iteration),
                place: self.strand.top.place,
            };
            if let Some(observer) = self.more.as_mut().and_then(|more| more.observer.as_mut()) {
                tell(&mut **observer, step);
            }
        }
    }
}

/// The inbox is needed by whoever wakes a future after the flow moved on.
pub(super) fn future_waker(inbox: &Arc<crate::completion::Inbox>, key: WaitKey) -> Waker {
    Waker::from(Arc::new(crate::completion::FutureWaker { inbox: Arc::clone(inbox), key }))
}
