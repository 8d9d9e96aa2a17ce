//! What adding gives back: the new step, to get a handler, a label or a name (FTN12 §2.2.1).

use std::borrow::Cow;
use std::fmt;

use super::AsyncSteps;
use super::level::{Entry, Handler, Iterate};
use crate::error::{Error, StepReturn};
use crate::place::Place;

/// The step just added: it can get an error handler and a name.
pub struct Added<'a> {
    handler: &'a mut Option<Handler>,
    place: &'a mut Place,
}

impl<'a> Added<'a> {
    pub(super) fn last(entries: &'a mut [Entry]) -> Self {
        match entries.last_mut() {
            Some(Entry::Step { handler, place, .. }) => Self { handler, place },
            Some(Entry::Loop { .. } | Entry::Template { .. }) | None => {
                unreachable!("a step was just added")
            }
        }
    }

    /// Sets the error handler of the step: it recovers with `success` or by adding steps, replaces
    /// the error with `error`, or lets it pass by returning (FTN12 §1.2, §2.1).
    pub fn on_error<R, F>(&mut self, handler: F) -> &mut Self
    where
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, &Error) -> R + 'static,
    {
        *self.handler = Some(Box::new(move |asi, error| handler(asi, error).into_result()));
        self
    }

    /// Names the step in stacks, errors and traces.
    pub fn named(&mut self, name: &'static str) -> &mut Self {
        self.place.set_name(name);
        self
    }
}

impl fmt::Debug for Added<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.place)
    }
}

/// The loop just added: it can get a label and a name.
pub struct AddedLoop<'a> {
    body: &'a mut dyn Iterate,
    place: &'a mut Place,
}

impl<'a> AddedLoop<'a> {
    pub(super) fn last(entries: &'a mut [Entry]) -> Self {
        match entries.last_mut() {
            Some(Entry::Loop { body, place }) => Self { body: &mut **body, place },
            Some(Entry::Step { .. } | Entry::Template { .. }) | None => {
                unreachable!("a loop was just added")
            }
        }
    }

    /// Labels the loop for `break_loop` and `continue_loop` of inner loops (FTN12 §1.8).
    pub fn label(&mut self, label: impl Into<Cow<'static, str>>) -> &mut Self {
        self.body.set_label(label.into());
        self
    }

    /// Names the loop in stacks, errors and traces.
    pub fn named(&mut self, name: &'static str) -> &mut Self {
        self.place.set_name(name);
        self
    }
}

impl fmt::Debug for AddedLoop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loop {}", self.place)
    }
}
