//! The facts of a step before it runs.

use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::{Error, Retry};

use super::form::{ChildPolicy, Form, UndoForm};
use super::place::StepId;
use super::read::Read;
use super::sender::Senders;
use super::service::{Service, errors_of};
use crate::stored::{ErrorsOfService, Kind, Stored};

/// A step of a plan as the host of its requests sees it, before and while one runs: the facts that the plan itself has.
/// Cloning shares.
#[derive(Clone, Debug)]
pub struct StepView {
    pub(super) step: Arc<StepFacts>,
    /// The steps may have ended in front of it.
    pub is_behind_end: bool,
}

/// What is known of a step in its plan.
#[derive(Debug)]
pub(super) struct StepFacts {
    pub(super) id: Arc<StepId>,
    pub(super) facts: Facts,
    /// The steps inside, if they are known.
    pub(super) ways: Ways,
}

/// The steps of branches, or of ways of which one is taken.
pub(super) type Ways = Arc<[Vec<StepView>]>;

/// Defines the steps of a dynamic step from the stored result of the step before it.
#[derive(Clone, derive_more::Debug)]
#[debug("Define")]
pub(super) struct Define(pub(super) Arc<DefineWays>);

type DefineWays = dyn Fn(&Stored) -> Result<Ways, Error> + Send + Sync;

/// The facts of a step before it runs.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) form: Form,
    /// The types of its input and result.
    pub(super) takes: &'static str,
    pub(super) returns: &'static str,
    pub(super) locks: usize,
    pub(super) limiters: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) retry: Option<Retry>,
    pub(super) undo: Option<UndoForm>,
    pub(super) recovers: bool,
    pub(super) is_shielded: bool,
    pub(super) at_once: Option<usize>,
    /// How many items win a race, and how many have to.
    pub(super) first: Option<usize>,
    pub(super) at_least: Option<usize>,
    /// How the host of a request that it records treats the body.
    pub(super) kind: Option<Kind>,
    pub(super) commits: bool,
    /// It answers the callers of its function.
    pub(super) answers: bool,
    /// The names that it had before, the newest first.
    pub(super) was: Vec<&'static str>,
    /// Reads a stored result.
    pub(super) read: Option<Read>,
    /// Reads what the step took, if that is stored.
    pub(super) input: Option<Read>,
    /// It takes `()`.
    pub(super) takes_nothing: bool,
    /// Its undo needs its input, or its locks do.
    pub(super) needs_input: bool,
    /// Reads a stored state of a loop.
    pub(super) read_state: Option<Read>,
    /// Defines its steps from its stored input, if it is dynamic.
    pub(super) define: Option<Define>,
    /// Who may send the signal that it waits for, if it waits for one.
    pub(super) senders: Option<Senders>,
    /// The function of the durable request that it begins.
    pub(super) child: Option<(&'static str, ChildPolicy)>,
    /// It returns its input.
    pub(super) passes: bool,
    /// Its result has no information.
    pub(super) returns_unit: bool,
    /// It was said of a step that can have no such policy.
    pub(super) misplaced: Vec<&'static str>,
    /// How errors of its service are recorded.
    pub(super) errors: ErrorsOfService,
}

/// The name of a group without one, for the host of a request.
const GROUP: &str = "as one";

impl StepFacts {
    /// Its name, for the host of a request.
    pub(super) fn name(&self) -> &'static str {
        if self.id.name.is_empty() { GROUP } else { self.id.name }
    }
}

impl Facts {
    pub(super) fn new<S: Service, A: 'static, T: 'static>(form: Form) -> Self {
        Self {
            form,
            takes: std::any::type_name::<A>(),
            returns: std::any::type_name::<T>(),
            locks: 0,
            limiters: 0,
            timeout: None,
            retry: None,
            undo: None,
            recovers: false,
            is_shielded: false,
            at_once: None,
            first: None,
            at_least: None,
            kind: None,
            commits: false,
            answers: false,
            was: Vec::new(),
            read: None,
            input: None,
            needs_input: false,
            takes_nothing: TypeId::of::<A>() == TypeId::of::<()>(),
            read_state: None,
            define: None,
            senders: None,
            child: None,
            passes: form == Form::Pass,
            returns_unit: TypeId::of::<T>() == TypeId::of::<()>(),
            misplaced: Vec::new(),
            errors: errors_of::<S>(),
        }
    }

    /// Something is said about it.
    pub(super) fn is_said(&self) -> bool {
        self.locks + self.limiters > 0
            || self.timeout.is_some()
            || self.retry.is_some()
            || self.recovers
            || !self.misplaced.is_empty()
    }

    /// It is for steps that are a body.
    pub(super) fn needs_body(&mut self, word: &'static str) {
        if self.form != Form::Body {
            self.misplaced.push(word);
        }
    }
}
