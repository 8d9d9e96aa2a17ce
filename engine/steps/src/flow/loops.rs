//! Loops (FTN12 §1.8, §2.2.4): bodies, iterations and their ends.

use std::borrow::Cow;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::drive::Next;
use super::level::{Frame, Iterate, Kind, index};
use super::{AsyncSteps, Callback};
use crate::args::Args;
use crate::error::{Error, LoopEnd, StepResult};
use crate::observe::StepEnd;
use crate::place::Place;

/// A loop: where the values of its iterations come from, and its body.
pub(super) struct Loop<I, F> {
    pub(super) items: I,
    pub(super) body: F,
    pub(super) label: Option<Cow<'static, str>>,
}

impl<I, F> Iterate for Loop<I, F>
where
    I: Iterator,
    F: FnMut(&mut AsyncSteps, I::Item) -> StepResult,
{
    fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    fn set_label(&mut self, label: Cow<'static, str>) {
        self.label = Some(label);
    }

    #[inline]
    fn iterate(&mut self, asi: &mut AsyncSteps) -> Option<StepResult> {
        let item = self.items.next()?;
        Some((self.body)(asi, item))
    }
}

impl AsyncSteps {
    /// Runs iterations of the loop on top until one of them has to wait, adds steps, or ends it.
    pub(super) fn iterate(&mut self) -> Next {
        let Kind::Loop(mut body) = mem::replace(&mut self.strand.top.kind, Kind::Step) else {
            return Next::Step;
        };
        self.strand.args = Args::none();
        let place = self.strand.top.place;
        self.strand.descend();
        self.open_iteration(place);
        self.report_enter();
        self.completed = false;
        self.callback = Callback::Body;
        let result = catch_unwind(AssertUnwindSafe(|| self.spin(&mut *body)));
        self.callback = Callback::None;
        self.report_leave();
        let result = match result {
            Ok(Spin::Settle(result)) => Ok(result),
            Ok(Spin::Exhausted) => {
                self.leave_iteration(Kind::Step);
                self.end_loop();
                return Next::Step;
            }
            Ok(Spin::Burst) => {
                self.leave_iteration(Kind::Loop(body));
                return Next::Yield;
            }
            Err(payload) => Err(payload),
        };
        if let Some(outer) = self.strand.frames.last_mut() {
            outer.kind = Kind::Loop(body);
        }
        self.settle(result)
    }

    /// Iterations that complete at once need nothing between them.
    #[inline]
    fn spin(&mut self, body: &mut dyn Iterate) -> Spin {
        let base = self.strand.top.base();
        loop {
            if self.burst == 0 || self.is_cancelled() {
                return Spin::Burst;
            }
            self.burst -= 1;
            match body.iterate(self) {
                None => return Spin::Exhausted,
                Some(Ok(()))
                    if self.raised.is_none()
                        && self.strand.pending.len() == base
                        && self.is_bare() =>
                {
                    if self.completed {
                        self.completed = false;
                        self.strand.args = Args::none();
                    }
                }
                Some(result) => return Spin::Settle(result),
            }
        }
    }

    /// Whether the running body neither waits nor left anything to clean up.
    fn is_bare(&self) -> bool {
        self.strand.top.is_plain() && !self.strand.top.flags.waits
    }

    fn leave_iteration(&mut self, kind: Kind) {
        self.close_top(StepEnd::Success);
        self.strand.ascend();
        self.strand.top.kind = kind;
    }

    fn open_iteration(&mut self, place: Place) {
        let base = index(self.strand.pending.len());
        let top = &mut self.strand.top;
        top.base = base;
        top.place = place;
        top.flags.open = true;
        top.flags.iteration = true;
    }

    /// The loop on top is over: like a `success` without arguments (FTN12 §1.8.1).
    pub(super) fn end_loop(&mut self) {
        self.strand.top.kind = Kind::Step;
        self.strand.args = Args::none();
        self.close_top(StepEnd::Success);
    }

    /// Leaves steps until the loop that `end` means is on top, without their error handlers
    /// (FTN12 §2.2.4); without such a loop it was a violation.
    pub(super) fn unwind_loop(&mut self, end: &LoopEnd) -> Result<Next, Error> {
        let is_target = |frame: &Frame| match &frame.kind {
            Kind::Loop(body) => end.label.is_none() || body.label() == end.label.as_deref(),
            Kind::Step
            | Kind::Holding(_)
            | Kind::Waiting(_)
            | Kind::Parallel(_)
            | Kind::Await(_) => false,
        };
        if !self.frames_around().any(is_target) {
            return Err(self.no_such_loop(end));
        }
        loop {
            if self.strand.top.flags.open {
                if is_target(&self.strand.top) {
                    break;
                }
                self.abort_top();
                self.close_top(StepEnd::Cancelled);
            }
            if !self.strand.ascend() {
                self.leave_branch();
            }
        }
        self.strand.runnable = true;
        self.strand.pending.truncate(self.strand.top.base());
        if !end.again {
            self.end_loop();
        }
        Ok(Next::Step)
    }

    #[cold]
    fn no_such_loop(&self, end: &LoopEnd) -> Error {
        let what = if end.again { "continue_loop" } else { "break_loop" };
        let place = self.strand.top.place;
        match &end.label {
            Some(label) => Error::violation(
                format_args!("{what}({label:?}) is not inside a loop with that label"),
                place,
            ),
            None => Error::violation(format_args!("{what} is not inside a loop"), place),
        }
    }
}

/// Why a spin over iterations ended.
enum Spin {
    Exhausted,
    Burst,
    Settle(StepResult),
}
