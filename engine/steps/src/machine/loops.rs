//! Loops (FTN12 §1.8, §2.2.4): iterations and their ends.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::report::ReportedEvent;
use super::types::{Machine, Next};
use crate::args::Args;
use crate::error::{Error, LoopEnd, StepResult};
use crate::observe::StepEnd;
use crate::stack::{Activity, Callback, Flags, Frame, Iterate, Role};

/// Why a run of iterations ended.
enum IterationsEnd {
    /// The loop has ended.
    Exhausted,
    /// The turn has ended.
    Burst,
    /// An iteration did more than to complete.
    Settle(StepResult),
}

impl Machine {
    /// Runs iterations of the loop on top until one of them has to wait, adds steps, or ends it.
    pub(super) fn iterate(&mut self) -> Next {
        self.asi.strand.descend();
        self.iterate_inside()
    }

    /// The iteration on top is complete: the next one takes its place, unless the turn has ended.
    pub(super) fn end_iteration(&mut self) -> Next {
        if self.asi.strand.top.wait.is_some() {
            return self.complete_with_wait();
        }
        self.leave(StepEnd::Success);
        if self.asi.cold.is_some() && matches!(self.go_on(), Next::Wait) {
            return Next::Wait;
        }
        if self.asi.burst == 0 || self.is_cancelled() { Next::Step } else { self.iterate_inside() }
    }

    /// [`iterate`](Self::iterate) for the loop around the top, which is closed.
    fn iterate_inside(&mut self) -> Next {
        let Some(outer) = self.asi.strand.frames.last_mut() else { return Next::Step };
        let Activity::Looping(mut body) = outer.replace_activity(Activity::Plain) else {
            return Next::Step;
        };
        let about = outer.about_part();
        self.asi.strand.args = Args::none();
        self.enter(about, Flags::of(Role::Iteration));
        self.report_callback(ReportedEvent::Enter);
        self.asi.completed = false;
        self.asi.callback = Callback::Body;
        let result = catch_unwind(AssertUnwindSafe(|| self.run_iterations(&mut *body)));
        self.asi.callback = Callback::None;
        self.asi.time_passed();
        self.report_callback(ReportedEvent::Leave);
        match result {
            Ok(IterationsEnd::Settle(Ok(()))) => {}
            Ok(IterationsEnd::Settle(result)) => self.record(Ok(result)),
            Ok(IterationsEnd::Exhausted) => {
                self.leave_iteration(Activity::Plain);
                self.end_loop();
                return self.go_on();
            }
            Ok(IterationsEnd::Burst) => {
                self.leave_iteration(Activity::Looping(body));
                return Next::Yield;
            }
            Err(payload) => self.record(Err(payload)),
        }
        if let Some(outer) = self.asi.strand.frames.last_mut() {
            // it was plain since the iteration began
            mem::forget(outer.replace_activity(Activity::Looping(body)));
        }
        self.settle()
    }

    /// Runs iterations that complete at once: they need nothing between them.
    #[inline]
    fn run_iterations(&mut self, body: &mut dyn Iterate) -> IterationsEnd {
        let base = self.asi.strand.top.base();
        loop {
            if self.asi.burst == 0 || self.is_cancelled() {
                return IterationsEnd::Burst;
            }
            self.asi.burst -= 1;
            match body.iterate(&mut self.asi) {
                None => return IterationsEnd::Exhausted,
                Some(Ok(())) if self.left_nothing(base) => {
                    if self.asi.completed {
                        self.asi.completed = false;
                        self.asi.strand.args = Args::none();
                    }
                }
                Some(result) => return IterationsEnd::Settle(result),
            }
        }
    }

    /// Whether the iteration on top neither failed nor waits, nor left anything to clean up.
    #[inline]
    fn left_nothing(&self, base: usize) -> bool {
        let strand = &self.asi.strand;
        self.asi.raised.is_none()
            && strand.pending.len() == base
            && strand.top.is_plain()
            && !strand.top.flags.waits
    }

    /// Ends the iteration on top, and sets what its loop does.
    fn leave_iteration(&mut self, activity: Activity) {
        self.leave(StepEnd::Success);
        self.asi.strand.ascend();
        self.asi.set_activity(activity);
    }

    /// Ends the loop on top like a `success` without arguments (FTN12 §1.8.1).
    fn end_loop(&mut self) {
        self.asi.set_activity(Activity::Plain);
        self.asi.strand.args = Args::none();
        self.leave(StepEnd::Success);
    }

    /// Leaves steps until the loop that `end` means is on top, without their error handlers
    /// (FTN12 §2.2.4). The next step begins when the branches that this cancels are undone.
    ///
    /// # Errors
    /// The violation of the rule if there is no such loop.
    pub(super) fn unwind_loop(&mut self, end: &LoopEnd) -> Result<Next, Error> {
        let is_target = |frame: &Frame| match frame.activity() {
            Activity::Looping(body) => end.label.is_none() || body.label() == end.label.as_deref(),
            Activity::Plain
            | Activity::Holding(_)
            | Activity::Waiting(_)
            | Activity::Parallel(_)
            | Activity::Polling(_)
            | Activity::Retrying(_)
            | Activity::Undoing(_) => false,
        };
        let hides = |frame: &Frame| frame.extras.as_ref().is_some_and(|extras| extras.hides_loops);
        if !self.asi.frames_around().take_while(|frame| !hides(frame)).any(is_target) {
            return Err(self.no_such_loop(end));
        }
        loop {
            if self.asi.strand.top.flags.is_open() {
                if is_target(&self.asi.strand.top) {
                    break;
                }
                let kept = self.undo_count();
                self.abort_top();
                self.undo_cancelled_branches(kept);
                self.leave(StepEnd::Left);
            }
            if !self.asi.strand.ascend() {
                self.leave_branch();
            }
        }
        self.asi.strand.runnable = true;
        self.asi.strand.drop_pending();
        if !end.continues {
            self.end_loop();
        }
        Ok(self.go_on())
    }

    #[cold]
    fn no_such_loop(&self, end: &LoopEnd) -> Error {
        let what = if end.continues { "continue_loop" } else { "break_loop" };
        let location = self.asi.location();
        match &end.label {
            Some(label) => Error::violation(
                format_args!("{what}({label:?}) is not inside a loop with that label"),
                location,
            ),
            None => Error::violation(format_args!("{what} is not inside a loop"), location),
        }
    }
}
