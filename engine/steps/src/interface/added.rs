//! What adding gives back: the new step, to set a handler, a label or a name (FTN12 §2.2.1).

use std::borrow::Cow;
use std::fmt;

use crate::error::{Error, StepReturn};
use crate::stack::{AsyncSteps, QueuedStep};

/// The step just added: it can get an error handler and a name.
pub struct Added<'a>(pub(super) &'a mut QueuedStep);

impl Added<'_> {
    /// Sets the error handler of the step: it recovers with `success` or by adding steps, replaces
    /// the error with `error`, or lets it pass by returning (FTN12 §1.2, §2.1).
    pub fn on_error<R, F>(&mut self, handler: F) -> &mut Self
    where
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, &Error) -> R + 'static,
    {
        let handler = move |asi: &mut AsyncSteps, error: &Error| handler(asi, error).into_result();
        self.0.handler = Some(Box::new(handler));
        self
    }

    /// Names the step in stacks, errors and traces.
    pub fn named(&mut self, name: &'static str) -> &mut Self {
        self.0.set_name(name);
        self
    }
}

impl fmt::Debug for Added<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.0.location())
    }
}

/// The loop just added: it can get a label and a name.
pub struct AddedLoop<'a>(pub(super) &'a mut QueuedStep);

impl AddedLoop<'_> {
    /// Labels the loop for `break_loop` and `continue_loop` of inner loops (FTN12 §1.8).
    pub fn label(&mut self, label: impl Into<Cow<'static, str>>) -> &mut Self {
        self.0.set_label(label.into());
        self
    }

    /// Names the loop in stacks, errors and traces.
    pub fn named(&mut self, name: &'static str) -> &mut Self {
        self.0.set_name(name);
        self
    }
}

impl fmt::Debug for AddedLoop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loop {}", self.0.location())
    }
}
