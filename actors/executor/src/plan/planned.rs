//! The steps of a function as the host of its requests knows them before one runs.

use std::any::Any;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{Error, RecordedError};
use serde_json::{Map, Value};

use super::form::Form;
use super::read::Read;
use super::sender::{SenderOf, Senders};
use crate::recorder::{ErrorsOfService, Kind, Stored};

/// The steps of a function, for the host of its requests: it compares them with the records of a request, before that
/// goes on.
#[derive(Debug)]
pub struct Planned {
    pub(super) steps: Ways,
    pub(super) reads_params: ReadParams,
}

/// Reads the parameters of a request, as the type that its function has.
pub(super) type ReadParams = fn(Map<String, Value>) -> Result<Rc<dyn Any>, Error>;

/// Branches, or ways of which one is taken; a function has one.
pub(super) type Ways = Vec<Vec<PlannedStep>>;

/// A step of a function, for the host of its requests.
#[derive(derive_more::Debug)]
#[debug("PlannedStep {{ names: {names:?}, form: {form:?}, kind: {kind:?}, ways: {ways:?}, .. }}")]
#[non_exhaustive]
pub struct PlannedStep {
    /// Where the application wrote it.
    pub source: &'static Location<'static>,
    /// The names by which a host may know it, the newest first, each with its number among steps of that name.
    pub names: Vec<(&'static str, usize)>,
    /// The kind of step.
    pub form: Form,
    /// How the host treats its body.
    pub kind: Option<Kind>,
    /// Whether it can be undone.
    pub can_be_undone: bool,
    /// Whether it has another result for some errors.
    pub recovers: bool,
    /// Whether the steps may have ended in front of it.
    pub is_behind_end: bool,
    /// The steps inside: branches, ways of which one is taken, or else one list.
    pub ways: Vec<Vec<Self>>,
    pub(super) read: Option<Read>,
    pub(super) read_state: Option<Read>,
    pub(super) define: Option<Define>,
    pub(super) senders: Option<Senders>,
    pub(super) errors: ErrorsOfService,
}

/// Defines the steps of a dynamic step from the stored result of the step before it.
#[derive(Clone, derive_more::Debug)]
#[debug("Define")]
pub(super) struct Define(pub(super) Arc<DefineSteps>);

pub(super) type DefineSteps = dyn Fn(&Stored) -> Result<Ways, Error> + Send + Sync;

impl Planned {
    /// The steps of the function: one list.
    #[must_use]
    pub fn steps(&self) -> &[Vec<PlannedStep>] {
        &self.steps
    }

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
        self.steps.iter().flatten().for_each(|step| step.waits_for(signal, &mut waits));
        Ok(!waits.is_empty() && waits.iter().all(|senders| senders.allow(sender, &params)))
    }
}

impl PlannedStep {
    /// Adds who may send a signal of this name, for each step that waits for it.
    fn waits_for<'a>(&'a self, signal: &str, waits: &mut Vec<&'a Senders>) {
        let is_named = self.names.iter().any(|(name, _)| *name == signal);
        waits.extend(self.senders.as_ref().filter(|_| is_named));
        self.ways.iter().flatten().for_each(|step| step.waits_for(signal, waits));
    }

    /// Reads a stored result of the step.
    ///
    /// # Errors
    /// If the value is not of the type that the step returns.
    pub fn read(&self, stored: &Stored) -> Result<(), Error> {
        self.read.as_ref().map_or(Ok(()), |read| read.read(stored).map(|_| ()))
    }

    /// Reads a stored state of the step, which is a loop.
    ///
    /// # Errors
    /// If the value is not of the type of its state.
    pub fn read_state(&self, stored: &Stored) -> Result<(), Error> {
        self.read_state.as_ref().map_or(Ok(()), |read| read.read(stored).map(|_| ()))
    }

    /// Makes an error of the step again, see [`DefinedStep::recalled`](crate::recorder::DefinedStep::recalled).
    ///
    /// # Errors
    /// If the value that is recorded cannot be read.
    pub fn recalled(
        &self,
        error: Error,
        recorded: Option<RecordedError>,
    ) -> Result<Error, Box<dyn std::error::Error + Send + Sync>> {
        self.errors.recalled(error, recorded)
    }

    /// The steps inside of one that is dynamic, from the stored result of the step before it; an empty list for other
    /// steps.
    ///
    /// # Errors
    /// If the value cannot be read, or the steps of it are a mistake.
    pub fn define(&self, stored: &Stored) -> Result<Vec<Vec<Self>>, Error> {
        self.define.as_ref().map_or_else(|| Ok(Vec::new()), |define| (define.0)(stored))
    }
}
