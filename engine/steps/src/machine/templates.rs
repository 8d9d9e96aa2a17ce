//! Steps of a template (FTN12 §1.5): shared by all of its flows, and called where they are.

use std::mem;
use std::task::Waker;

use super::types::{Machine, Next};
use crate::error::Error;
use crate::observe::StepEnd;
use crate::stack::{About, Callback, Flags, Role, TemplateRange};

impl Machine {
    /// Runs steps of the template that comes next until one of them does more than complete, or the
    /// turn has ended.
    ///
    /// The template is borrowed from the queue meanwhile, so that a step can be called while the
    /// template keeps it. Nothing looks for it during a body.
    pub(super) fn run_template(&mut self, mut range: TemplateRange, waker: &Waker) -> Next {
        if range.len() == 0 {
            return Next::Step;
        }
        let at = self.asi.strand.reserve_template();
        while self.asi.burst > 0
            && !self.is_cancelled()
            && let Some(step) = range.next()
        {
            self.asi.burst -= 1;
            let mut flags = Flags::of(Role::Step);
            let about = if step.is_plain {
                About::Place(step.location.source())
            } else {
                flags.template_handler = step.handler.is_some() && !step.is_sync;
                About::of_template(step)
            };
            self.enter(about, flags);
            self.call(Callback::Body, |asi| {
                asi.ask_probe(|| step.is_planned)?;
                let args = mem::take(&mut asi.strand.args);
                (step.body)(asi, args, Some(waker))
            });
            if !self.is_complete() && !self.completes_at_once(waker) {
                self.asi.strand.return_template(at, range);
                return self.settle_start(waker);
            }
            self.leave(StepEnd::Success);
        }
        if range.len() > 0 {
            self.asi.strand.return_template(at, range);
        } else {
            self.asi.strand.pending.pop();
        }
        Next::Step
    }

    /// Calls the error handler that the step on top has in its template; `false` if it has none.
    pub(super) fn call_template_handler(&mut self, error: &Error) -> bool {
        let step = self.asi.strand.template_of_top().and_then(|template| template.current());
        let Some(handler) = step.and_then(|step| step.handler.clone()) else { return false };
        self.call(Callback::ErrorHandler, |asi| handler(asi, error));
        true
    }
}
