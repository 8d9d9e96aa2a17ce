//! Steps of a template (FTN12 §1.5): shared by all of its flows, and called where they are.

use std::mem;
use std::task::Waker;

use super::types::{Machine, Next};
use crate::error::Error;
use crate::observe::StepEnd;
use crate::stack::{Callback, Flags};

impl Machine {
    /// Runs steps of the innermost template until one of them does more than to complete, or the
    /// turn is over.
    ///
    /// The cursor is outside of the strand meanwhile, so that a step can be called while the
    /// template keeps it. Nothing looks for the cursor during a body.
    pub(super) fn run_template(&mut self, waker: &Waker) -> Next {
        let Some(mut template) = self.asi.strand.template.take() else { return Next::Step };
        let range = &mut template.range;
        while range.next < range.end && self.asi.burst > 0 && !self.is_cancelled() {
            self.asi.burst -= 1;
            let step = &range.steps[range.next as usize];
            range.next += 1;
            let own_handler = if step.is_sync { step.own_handler() } else { None };
            let template_handler = step.handler.is_some() && !step.is_sync;
            self.enter(step.location, own_handler, Flags { template_handler, ..Flags::default() });
            self.call(Callback::Body, |asi| {
                asi.ask_probe(|| step.is_planned)?;
                let args = mem::take(&mut asi.strand.args);
                (step.body)(asi, args)
            });
            if !self.is_complete() {
                self.asi.strand.template = Some(template);
                return self.settle_start(waker);
            }
            self.leave(StepEnd::Success);
        }
        self.asi.strand.template = if range.next < range.end {
            Some(template)
        } else {
            template.outer.map(|outer| *outer)
        };
        Next::Step
    }

    /// Calls the error handler that the step on top has in its template; `false` if it has none.
    pub(super) fn call_template_handler(&mut self, error: &Error) -> bool {
        let Some(template) = self.asi.strand.template.take() else { return false };
        let handler = template.range.current().and_then(|step| step.handler.as_ref());
        if let Some(handler) = handler {
            self.call(Callback::ErrorHandler, |asi| handler(asi, error));
        }
        let called = handler.is_some();
        self.asi.strand.template = Some(template);
        called
    }
}
