//! The steps of a function as the host of its requests sees them.

use std::any::Any;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{Args, Error, RecordedError};
use serde_json::{Map, Value};

use super::facts::StepView;
use super::form::Form;
use super::sender::SenderOf;
use crate::stored::{BoxError, Kind, Stored};

/// A function, for the host of its requests: it compares the steps with the records of a request, before that goes on.
#[derive(Debug)]
pub struct Planned {
    /// The function as a whole: a group of its steps.
    pub function: StepView,
    pub(super) reads_params: ReadParams,
}

/// Reads the parameters of a request, as the type that its function has.
pub(super) type ReadParams = fn(Map<String, Value>) -> Result<Rc<dyn Any>, Error>;

impl Planned {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// If they are not parameters of the function.
    pub fn read_params(&self, params: Map<String, Value>) -> Result<(), Error> {
        (self.reads_params)(params).map(|_| ())
    }

    /// Whether a caller from outside may send a signal of this name to a request with these parameters: a step waits for
    /// it, and each that does allows it.
    ///
    /// # Errors
    /// If they are not parameters of the function.
    pub fn may_send(
        &self,
        signal: &str,
        sender: &SenderOf,
        params: Map<String, Value>,
    ) -> Result<bool, Error> {
        let (params, mut waits) = ((self.reads_params)(params)?, Vec::new());
        self.function.waits_for(signal, &mut waits);
        let allows = |step: &&StepView| {
            step.step.facts.senders.as_ref().is_some_and(|senders| senders.allow(sender, &params))
        };
        Ok(!waits.is_empty() && waits.iter().all(allows))
    }

    /// Whether the steps that wait for a signal of this name can read its value: one of them at least.
    #[must_use]
    pub fn reads_signal(&self, signal: &str, value: &Stored) -> bool {
        let mut waits = Vec::new();
        self.function.waits_for(signal, &mut waits);
        waits.is_empty() || waits.iter().any(|step| step.read(value).is_ok())
    }
}

impl StepView {
    /// Adds the steps that wait for a signal of this name.
    fn waits_for<'a>(&'a self, signal: &str, waits: &mut Vec<&'a Self>) {
        if self.step.facts.senders.is_some() && self.names().any(|(name, _)| name == signal) {
            waits.push(self);
        }
        self.ways().iter().flatten().for_each(|step| step.waits_for(signal, waits));
    }

    /// Where the application wrote it.
    #[must_use]
    pub fn source(&self) -> &'static Location<'static> {
        self.step.id.source
    }

    /// The names by which a host may know it, the newest first, each with its number among steps of that name.
    pub fn names(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let (_, nth) = self.step.id.numbered();
        [(self.step.name(), nth)].into_iter().chain(self.step.id.was().iter().copied())
    }

    /// The kind of step.
    #[must_use]
    pub fn form(&self) -> Form {
        self.step.facts.form
    }

    /// How the host treats its body; `None` if that was not set.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.step.facts.kind
    }

    /// Whether it [commits](crate::Step::commits) its request.
    #[must_use]
    pub fn commits(&self) -> bool {
        self.step.facts.commits
    }

    /// Whether it [answers](crate::Step::answers) the callers of its function.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.step.facts.answers
    }

    /// Whether it can be undone.
    #[must_use]
    pub fn can_be_undone(&self) -> bool {
        self.step.facts.undo.is_some()
    }

    /// Whether it has another result for some errors.
    #[must_use]
    pub fn recovers(&self) -> bool {
        self.step.facts.recovers
    }

    /// The steps inside: branches, ways of which one is taken, or else one list.
    #[must_use]
    pub fn ways(&self) -> &[Vec<Self>] {
        &self.step.ways
    }

    /// Reads a stored result of the step; `None` if it has none that is stored.
    ///
    /// # Errors
    /// If the value is not of the type that the step returns.
    pub fn read(&self, stored: &Stored) -> Result<Option<Args>, Error> {
        self.step.facts.read.as_ref().map(|read| read.read(stored)).transpose()
    }

    /// Reads a stored state of the step, which is a loop.
    ///
    /// # Errors
    /// If the value is not of the type of its state.
    pub fn read_state(&self, stored: &Stored) -> Result<(), Error> {
        self.step.facts.read_state.as_ref().map_or(Ok(()), |read| read.read(stored).map(|_| ()))
    }

    /// The steps inside of one that is dynamic, from the stored result of the step before it; an empty list for other
    /// steps.
    ///
    /// # Errors
    /// If the value cannot be read, or the steps of it are a mistake.
    pub fn define(&self, stored: &Stored) -> Result<Arc<[Vec<Self>]>, Error> {
        let define = self.step.facts.define.as_ref();
        define.map_or_else(|| Ok([].into()), |define| (define.0)(stored))
    }

    /// What the host records of an error of the step in addition to its code and information, so that [`Error::find`]
    /// finds it after a crash, and why its value is left out. `None` if neither it nor a cause of it is of a type that
    /// the service lists.
    #[must_use]
    pub fn recorded_error(&self, error: &Error) -> Option<(RecordedError, Option<BoxError>)> {
        (self.step.facts.errors.record)(error)
    }

    /// An error of the step of which the host has recorded code and information, and what
    /// [`recorded_error`](Self::recorded_error) returned. If that is missing, an error that its code determines is
    /// its cause.
    ///
    /// # Errors
    /// If the value that is recorded cannot be read.
    pub fn recalled(
        &self,
        error: Error,
        recorded: Option<RecordedError>,
    ) -> Result<Error, BoxError> {
        self.step.facts.errors.recalled(error, recorded)
    }
}
